"""Tests that this compiler and device treat small configurations as OpenVINO's own plugin does.

OpenVINO's shapes of rank 4 are B, F, Y, X. Tensors here are N, H, W, C, which is B, Y, X, F: the tests permute
inputs before a run, and results after it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.model.builder import ModelBuilder
from litert.model.flexbuffer import FlexValue
from litert.model.writer import write_model

pytestmark = pytest.mark.each_driver

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
FOUR: Shape = (2, 3, 4, 5)
SMALL: Shape = (2, 2, 1, 3)
LIN = "o[i] = a[i];"
SUM = """\
const int f = get_global_id(0);
float sum = 0;
for (int e = 0; e < INPUT0_PITCHES[1]; ++e) sum += a[f * INPUT0_PITCHES[1] + e];
o[f] = sum;"""


@dataclass(frozen=True)
class Example:
    """A layer, by default with one input and one output.

    Attributes:
      body: Body of the kernel, where `i` is the first global index, `a` the input and `o` the output.
      work_sizes: Attributes of `WorkSizes`; "" for none.
      defines: Defines that the dumped kernel must have.
      result: Expected output, in row order of B, F, Y, X; empty where only defines count.
    """

    shape: Shape
    body: str
    result: Sequence[float] = ()
    defines: Mapping[str, str] = field(default_factory=dict)
    work_sizes: str = ""
    input_format: str = "BFYX"
    output_format: str = "BFYX"
    output_shape: Shape | None = None
    options: str = ""
    define: str = ""
    params: Mapping[str, FlexValue] = field(default_factory=dict)


def ints(*values: int) -> str:
    """Returns an int array as a define contains it."""
    return f"(int []){{ {''.join(f'{v},' for v in values)} }}"


def sizes(*values: int) -> str:
    """Returns an array of work sizes as a define contains it."""
    return f"(size_t []){{ {''.join(f'{v},' for v in values)} }}"


EXAMPLES = {
    "1 work sizes": Example(
        FOUR,
        "o[0] = 0;",
        defines={
            "GLOBAL_WORKSIZE": sizes(5, 4, 6),
            "LOCAL_WORKSIZE_SIZE": "0",
            "INPUT0_DIMS": ints(2, 3, 4, 5),
            "INPUT0_PITCHES": ints(60, 20, 5, 1),
            "INPUT0_OFFSET": "0",
            "INPUT0_FORMAT_BFYX": "",
            "INPUT0_TYPE": "float",
            "NUM_INPUTS": "1",
        },
        work_sizes='global="X,Y,B*F"',
    ),
    "2 input BYXF": Example(
        SMALL,
        LIN,
        [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11],
        {"INPUT0_PITCHES": ints(6, 1, 6, 2), "GLOBAL_WORKSIZE": sizes(12)},
        input_format="BYXF",
    ),
    "3 output BYXF": Example(
        SMALL, LIN, [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11], output_format="byxf"
    ),
    "4 input YXFB": Example(
        SMALL,
        LIN,
        [0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11],
        {"INPUT0_PITCHES": ints(1, 2, 12, 4), "INPUT0_FORMAT_YXFB": ""},
        input_format="YXFB",
    ),
    "5 output YXFB": Example(
        SMALL, LIN, [0, 4, 8, 2, 6, 10, 1, 5, 9, 3, 7, 11], output_format="YXFB"
    ),
    "6 input FYXB": Example(
        SMALL,
        LIN,
        [0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11],
        {"INPUT0_PITCHES": ints(1, 6, 6, 2)},
        input_format="FYXB",
    ),
    "7 output FYXB": Example(
        SMALL, LIN, [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11], output_format="FYXB"
    ),
    "8 local size": Example(
        (1, 1, 1, 5),
        "if (i < OUTPUT0_DIMS[3]) o[i] = a[i] + 1000 * get_local_size(0) + 100 * get_global_size(0);",
        [4800, 4801, 4802, 4803, 4804],
        {"GLOBAL_WORKSIZE": sizes(8), "LOCAL_WORKSIZE": sizes(4)},
        'global="((X+3)/4)*4" local="4"',
    ),
    "9 compiler options": Example(
        (1, 1, 2, 2), "o[i] = a[i] * S + NUM_INPUTS;", [1, 4, 7, 10], options="-DS=3"
    ),
    "10 sum of a feature": Example(
        (1, 2, 2, 3),
        SUM,
        [15, 51],
        {"GLOBAL_WORKSIZE": sizes(2)},
        'global="B*F"',
        output_shape=(1, 2, 1, 1),
    ),
    "11 array of a parameter": Example(
        (1, 2, 1, 3),
        "o[i] = a[i] * (W)[i % 3];",
        [0, 3, 8, 6, 12, 20],
        {"W": "(float[]) {2.0f,3.0f,4.0f}"},
        define='<Define name="W" type="float[]" param="w"/>',
        params={"w": [2.0, 3.0, 4.0]},
    ),
    "8 fewer local sizes than global": Example(
        (1, 1, 2, 4),
        "o[i + get_global_id(1) * 4] = 10 * get_local_size(0) + get_local_size(1);",
        [21] * 8,
        {"LOCAL_WORKSIZE_SIZE": "1", "LOCAL_WORKSIZE": sizes(2)},
        'global="X,Y" local="2"',
    ),
    "8 more local sizes than global": Example(
        (1, 1, 1, 4),
        "o[i] = 10 * get_local_size(0) + get_work_dim() + LOCAL_WORKSIZE[1];",
        [28] * 4,
        {"LOCAL_WORKSIZE_SIZE": "2", "LOCAL_WORKSIZE": sizes(2, 7)},
        'global="X" local="2,7"',
    ),
    "11 array of a parameter that is not there": Example(
        (1, 1, 1, 2),
        "o[i] = a[i] + sizeof(W);",
        [0, 1],
        {"W": "(int[]) {}"},
        define='<Define name="W" type="int[]" param="w"/>',
    ),
    "values with what a line of C has": Example(
        (1, 1, 1, 2),
        "o[i] = a[i] + N + M + sizeof(S);",
        [14, 15],
        {"N": "2", "M": "3", "S": '"http://x"', "L": '"é"'},
        define='<Define name=" N" default="2 /* é */"/><Define name="M" default="3 \\"/>'
        "<Define name='S' default='\"http://x\"'/><Define name='L' default='\"\xe9\"'/>",
    ),
    **{
        f"14 {rule}": Example(
            FOUR,
            "o[i] = get_global_size(0);",
            defines={"GLOBAL_WORKSIZE": sizes(value)},
            work_sizes=f'global="{rule}"',
        )
        for rule, value in {
            "B+F*Y": 14, "(B+F)*Y": 20, "X/2*2": 4, "Y%3+1": 2, "7%4*2": 6,
        }.items()
    },
}  # fmt: skip


def to_tensor(array: Array) -> Array:
    """Permutes B, F, Y, X to N, H, W, C."""
    return array.transpose(0, 2, 3, 1) if array.ndim == 4 else array


def to_bfyx(array: Array) -> Array:
    return array.transpose(0, 3, 1, 2) if array.ndim == 4 else array


def tensor_shape(shape: Shape) -> Shape:
    return tuple(to_tensor(np.empty(shape)).shape)


def run(
    folder: Path,
    configuration: str,
    files: Mapping[str, str],
    inputs: Sequence[Array],
    shape: Shape,
    params: Mapping[str, FlexValue] | None = None,
    constants: Mapping[str, Array] | None = None,
) -> tuple[Array, str]:
    """Runs an op `Mine` with a configuration; returns its result in B, F, Y, X, and its dumped kernel."""
    b = ModelBuilder()
    tensors = [b.input(f"x{i}", "float32", to_tensor(x).shape) for i, x in enumerate(inputs)]
    tensors += [b.constant(name, data) for name, data in (constants or {}).items()]
    y = b.custom("Mine", tensors, [("y", "float32", tensor_shape(shape))], options=params or {})
    b.output(y)
    model, compiled, dump = folder / "m.tflite", folder / "c.tflite", folder / "dump"
    write_model(b.build(), model)
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "mine.xml").write_text(configuration, "latin-1")
    compiler = CompilerOptions(
        [CustomOpInfo("Mine", str(folder / "mine.xml"))], dump=DumpOptions(str(dump), kernels=True)
    )
    apply_plugin(model, compiled, ApplyOptions(require_npu=["all"], compiler=compiler))
    loaded = CompiledModel.from_file(str(compiled))
    input_buffers, output_buffers = loaded.create_input_buffers(0), loaded.create_output_buffers(0)
    for buffer, x in zip(input_buffers, inputs, strict=True):
        buffer.write(np.ascontiguousarray(to_tensor(x)))
    loaded.run_by_index(0, input_buffers, output_buffers)
    found = np.array(output_buffers[0].read(int(np.prod(shape)), np.dtype(np.float32)))
    assert [path.name for path in dump.iterdir()] == ["program0.cl"]
    return to_bfyx(found.reshape(tensor_shape(shape))), (dump / "program0.cl").read_text()


def defines_of(kernel: str) -> dict[str, str]:
    return {m[1]: m[2].strip() for m in re.finditer(r"^#define (\S+) ?(.*)$", kernel, re.MULTILINE)}


def ramp(shape: Shape) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_the_defines_and_results_of_the_plugin(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    kernel = f"""\
__kernel void mine(const __global INPUT0_TYPE* a, __global OUTPUT0_TYPE* o) {{
  const int i = get_global_id(0);
  {example.body}
}}
"""
    work_sizes = f"<WorkSizes {example.work_sizes}/>" if example.work_sizes else ""
    configuration = f"""\
<CustomLayer name="Mine" type="SimpleGPU" version="1">
  <Kernel entry="mine"><Source filename="mine.cl"/>{example.define}</Kernel>
  <Buffers>
    <Tensor arg-index="0" type="input" port-index="0" format="{example.input_format}"/>
    <Tensor arg-index="1" type="output" port-index="0" format="{example.output_format}"/>
  </Buffers>
  <CompilerOptions options="{example.options}"/>{work_sizes}
</CustomLayer>
"""
    result, dumped = run(
        tmp_path,
        configuration,
        {"mine.cl": kernel},
        [ramp(example.shape)],
        example.output_shape or example.shape,
        example.params,
    )
    found = defines_of(dumped)
    assert {key: found.get(key) for key in example.defines} == example.defines
    if example.result:
        assert result.ravel().tolist() == list(example.result)


def test_12_arguments_come_in_any_order(tmp_path: Path) -> None:
    configuration = """\
<CustomLayer name="Mine" type="SimpleGPU" version="1">
  <Kernel entry="mine"><Source filename="mine.cl"/></Kernel>
  <Buffers>
    <Tensor arg-index="2" type="input" port-index="0"/>
    <Tensor arg-index="0" type="output" port-index="0"/>
    <Tensor arg-index="1" type="input" port-index="1"/>
  </Buffers>
</CustomLayer>
"""
    kernel = """\
__kernel void mine(__global float* o, const __global float* in1, const __global float* in0) {
  const int i = get_global_id(0);
  o[i] = in0[i] * 100 + in1[i];
}
"""
    inputs = [np.array([1, 2, 3, 4], np.float32), np.array([5, 6, 7, 8], np.float32)]
    result, dumped = run(tmp_path, configuration, {"mine.cl": kernel}, inputs, (4,))
    assert result.tolist() == [105, 206, 307, 408]
    found = defines_of(dumped)
    assert found["INPUT1_DIMS"] == found["OUTPUT0_DIMS"] == ints(4, 1, 1, 1)
    assert found["NUM_INPUTS"] == "2"


def test_13_sources_are_joined_in_order_behind_the_defines(tmp_path: Path) -> None:
    configuration = """\
<CustomLayer name="Mine" type="SimpleGPU" version="1">
  <Buffers>
    <Tensor arg-index="0" type="input" port-index="0" format="BFYX"/>
    <Tensor arg-index="1" type="output" port-index="0" format="BFYX"/>
  </Buffers>
  <Kernel entry="mine">
    <Source filename="h.cl"/><Source filename="k.cl"/><Define name="ADD 5"/>
  </Kernel>
</CustomLayer>
"""
    files = {
        "h.cl": "float h(float v) { return v + ADD; }\n",
        "k.cl": "__kernel void mine(const __global float* a, __global float* o) {\n"
        "  o[get_global_id(0)] = h(a[get_global_id(0)]);\n}\n",
    }
    result, dumped = run(tmp_path, configuration, files, [ramp((1, 1, 1, 3))], (1, 1, 1, 3))
    assert result.ravel().tolist() == [5, 6, 7]
    assert re.search(
        r"#define ADD 5 *\n// Custom Layer Kernel h.cl\n.*Kernel k.cl\n", dumped, re.DOTALL
    )


def test_data_are_one_row_of_numbers(tmp_path: Path) -> None:
    """Checks `Data` as in OpenVINO 2018; newer plugins do not have it."""
    configuration = """\
<CustomLayer name="Mine" type="SimpleGPU" version="1">
  <Kernel entry="mine"><Source filename="mine.cl"/></Kernel>
  <Buffers>
    <Tensor arg-index="0" type="input" port-index="0"/>
    <Data arg-index="1" name="weights"/>
    <Tensor arg-index="2" type="output" port-index="0"/>
  </Buffers>
</CustomLayer>
"""
    kernel = """\
__kernel void mine(const __global float* a, const __global float* w, __global float* o) {
  float sum = 0;
  for (int i = 0; i < INPUT1_DIMS[3]; ++i) sum += w[i];
  o[get_global_id(0)] = a[get_global_id(0)] + sum;
}
"""
    weights = {"net/weights": np.array([[1, 2, 3], [4, 5, 6]], np.float32)}
    files = {"mine.cl": kernel}
    result, dumped = run(tmp_path, configuration, files, [ramp((2,))], (2,), constants=weights)
    assert result.tolist() == [21, 22]
    found = defines_of(dumped)
    assert found["NUM_INPUTS"] == "2" and found["INPUT1_DIMS"] == ints(1, 1, 1, 6)
    assert found["INPUT1_PITCHES"] == ints(6, 6, 6, 1) and "INPUT1_FORMAT_BFYX" in found


def test_the_dump_of_the_classic_layer_is_that_of_the_documentation(tmp_path: Path) -> None:
    folder = Path(__file__).parent / "appendix_a"
    b = ModelBuilder()
    x = b.input("data", "float32", (1, 55, 55, 96))
    b.output(b.custom("ReLU", [x], [("relu1", "float32", (1, 55, 55, 96))]))
    model, compiled, dump = tmp_path / "m.tflite", tmp_path / "c.tflite", tmp_path / "dump"
    write_model(b.build(), model)
    compiler = CompilerOptions(
        [CustomOpInfo("ReLU", str(folder / "relu.xml"))], dump=DumpOptions(str(dump), kernels=True)
    )
    apply_plugin(model, compiled, ApplyOptions(require_npu=["all"], compiler=compiler))
    expected = (folder / "resulting_kernel.cl").read_bytes()
    assert (dump / "program0.cl").read_bytes() == expected
