"""The commands of `make faults`, and their input files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from litert_npu_tools.apply_plugin import guarded_main as apply_plugin
from litert_npu_tools.litert_npu import guarded_main as litert_npu

from litert.model.builder import ModelBuilder
from litert.model.writer import to_bytes
from tests.vendor_reference.document_texts import MENDED

_KERNEL = """__kernel void MyOp(__global const float* x, __global float* y) {
    y[get_global_id(0)] = 2.0f * x[get_global_id(0)];
}
"""


@dataclass(frozen=True)
class Command:
    """A command line.

    Attributes:
      text: Command line, with words separated by spaces.
      outputs: Files and folders that the command writes.
      is_cold: Whether all caches are empty before the command runs.
    """

    text: str
    outputs: Sequence[str] = ()
    is_cold: bool = False

    def run(self) -> int:
        """Runs the command in this process, and returns its exit status."""
        program, *arguments = self.text.split()
        main: Callable[[Sequence[str]], int] = {
            "apply_plugin": apply_plugin,
            "litert-npu": litert_npu,
        }[program]
        return main([program, *arguments])


_APPLY = "apply_plugin --npu_custom_op_info=MyOp,MyOp.cl"
_RUN = "litert-npu run --input=in.npz --output=out.npz"

COMPILED: Mapping[str, Command] = {
    "npu.tflite": Command(f"{_APPLY} --reference_ops=ADD in.tflite npu.tflite", ["npu.tflite"]),
    "kernel.tflite": Command(f"{_APPLY} in.tflite kernel.tflite", ["kernel.tflite"]),
}
"""Compiled files that commands read. The second file contains only a user's kernel, which is built quickly."""

COMMANDS: Mapping[str, Command] = {
    "apply": Command(f"{_APPLY} --reference_ops=ADD in.tflite out.tflite", ["out.tflite"]),
    "apply_cold": Command(f"{_APPLY} in.tflite out.tflite", ["out.tflite"], is_cold=True),
    "apply_isolated": Command(f"{_APPLY} --isolate_plugin in.tflite out.tflite", ["out.tflite"]),
    "benchmark": Command("litert-npu benchmark npu.tflite --warm_up=1 --runs=2"),
    "check": Command("litert-npu check npu.tflite"),
    "compare": Command(
        "litert-npu compare in.tflite --npu_custom_op_info=MyOp,MyOp.cl --reference_function=MyOp,MyOp.py:my_op"
    ),
    "coverage": Command("litert-npu coverage in.tflite"),
    "diff": Command("litert-npu diff in.tflite in.tflite"),
    "extract": Command("litert-npu inspect npu.tflite --extract=MyOp --output=out.cl", ["out.cl"]),
    "inspect": Command("litert-npu inspect npu.tflite --dump"),
    "layer_build": Command(
        "litert-npu layer build MyOp.cl --model=in.tflite -o out.bin", ["out.bin"]
    ),
    "layer_new": Command("litert-npu layer new --model=in.tflite --op=MyOp -o mine", ["mine"]),
    "noop": Command("apply_plugin --cmd=noop in.tflite out.tflite", ["out.tflite"]),
    "opt": Command("litert-npu opt in.mlir --passes=adjust-layouts -o out.mlir", ["out.mlir"]),
    "partition": Command(
        "apply_plugin --cmd=partition --reference_ops=ADD in.tflite out.tflite", ["out.tflite"]
    ),
    "run": Command(f"{_RUN} npu.tflite", ["out.npz"]),
    "run_cold": Command(f"{_RUN} kernel.tflite", ["out.npz"], is_cold=True),
    "run_isolated": Command(f"{_RUN} --isolate npu.tflite", ["out.npz"]),
    "run_strange": Command(f"{_RUN} strange.tflite", ["out.npz"]),
    "transform": Command("litert-npu transform in.tflite out.tflite", ["out.tflite"]),
    "vendor_export": Command("litert-npu vendor export --manufacturer=Reference -o made", ["made"]),
    "vendor_new": Command("litert-npu vendor new Zinc --lang=python -o mine", ["mine"]),
}


def write_inputs(folder: Path) -> None:
    """Writes the input files of the commands, except the compiled files."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4))
    y = b.custom("MyOp", [x], [("y", "float32", (1, 4))])
    z = b.op("ADD", [y, b.constant("c", np.ones((1, 4), np.float32))], [("z", "float32", (1, 4))])
    b.output(b.op("ABS", [z], [("a", "float32", (1, 4))]))
    (folder / "in.tflite").write_bytes(to_bytes(b.build()))
    (folder / "MyOp.cl").write_text(_KERNEL)
    (folder / "MyOp.py").write_text("def my_op(inputs, options):\n    return [2 * inputs[0]]\n")
    (folder / "in.mlir").write_text(MENDED["BINARY_LAYER"])
    np.savez(folder / "in.npz", x=np.arange(4, dtype=np.float32).reshape(1, 4))
