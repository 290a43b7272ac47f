"""Tests libraries of CPU layers in this process: their answers and their runs."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from flatbuffers import flexbuffers  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from tests.vendor_reference.cpu_layers import build, compiler, library, prelu
from vendor_reference.cpu_layer.__main__ import include_folder
from vendor_reference.cpu_layer.definitions import ffi
from vendor_reference.cpu_layer.definitions_generator import TARGET, declarations, generate
from vendor_reference.cpu_layer.library import ConfigurationRefusedError, CpuLayerLibrary
from vendor_reference.cpu_layer.marshal import TensorPlace, simplest_config
from vendor_reference.executable.cpu_op import CpuOp, CpuOperand, MemoryLayout

NCHW8C = MemoryLayout((0, 3, 1, 2, 3), (0, 0, 0, 0, 8))
PLACE = TensorPlace()


def floats(*shape: int) -> CpuOperand:
    return CpuOperand(RankedTensorType.of(ElementType.FLOAT32, shape))


def one_op(*shape: int, options: bytes = b"") -> CpuOp:
    return CpuOp("Double", "y", (floats(*shape),), (floats(*shape),), options)


def load(path: Path) -> CpuLayerLibrary:
    return CpuLayerLibrary(memoryview(path.read_bytes()), path.name)


def fails(path: Path) -> LiteRtError:
    with pytest.raises(LiteRtError) as error:
        load(path)
    return error.value


@pytest.mark.parametrize(
    "compile_",
    [
        ("cc", "-std=c11", "c", "cpu_layer.h"),
        ("c++", "-std=c++17", "cc", "cpu_layer.h"),
        ("c++", "-std=c++11", "cc", "inference_engine.hpp"),
        ("c++", "-std=c++20", "cc", "inference_engine.hpp"),
    ],
)
def test_the_header_compiles_without_a_warning(tmp_path: Path, compile_: Sequence[str]) -> None:
    command, standard, suffix, header = compile_
    if shutil.which(command) is None:
        pytest.skip(f"no {command}")
    source = tmp_path / f"includes.{suffix}"
    source.write_text(f"#include <litert_npu/{header}>\n")
    strict = ["-Wall", "-Wextra", "-pedantic", "-Werror", f"-I{include_folder()}"]
    subprocess.run(
        [command, standard, *strict, "-c", str(source), "-o", str(tmp_path / "o")], check=True
    )


def test_the_definitions_are_those_of_the_header(tmp_path: Path) -> None:
    generate(str(tmp_path / "definitions.py"))
    assert (tmp_path / "definitions.py").read_bytes() == Path(TARGET).read_bytes()


def test_structs_are_those_of_the_c_compiler(tmp_path: Path) -> None:
    lines, expected = [], []
    names = re.findall(r"^\} (\w+);", declarations(), flags=re.M)
    assert len(names) == 10
    for name in names:
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        expected.append(ffi.sizeof(name))
        for field, member in ffi.typeof(name).fields:
            lines.append(f'printf("%zu\\n", offsetof({name}, {field}));')
            expected.append(member.offset)
    source, program = tmp_path / "sizes.c", tmp_path / "sizes"
    body = "\n".join(lines)
    source.write_text(
        f"#include <litert_npu/cpu_layer.h>\n#include <stdio.h>\nint main(void) {{ {body} }}\n"
    )
    subprocess.run([compiler(), f"-I{include_folder()}", str(source), "-o", program], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert [int(line) for line in printed.split()] == expected


def test_the_include_folder_is_printed() -> None:
    command = [sys.executable, "-m", "vendor_reference.cpu_layer"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    assert (Path(printed) / "litert_npu" / "cpu_layer.h").is_file()


def test_a_library_says_what_it_is_and_has(tmp_path: Path) -> None:
    asked = load(prelu(tmp_path))
    op = CpuOp("PReLU", "y", (floats(1, 2, 3, 10), floats(10)), (floats(1, 2, 3, 10),))
    assert str(asked) == "library 'example layers' (version 1.0)" and asked.layer_types() == [
        "PReLU"
    ]
    assert asked.output_shapes(op, [(-1, -1, -1, -1)]) == [(1, 2, 3, 10)]
    assert asked.implementations(op) == ["plain", "in blocks of 8"]
    (plain,), (blocked,) = (asked.configurations(op, i) for i in range(2))
    assert [str(t.layout) for t in plain.inputs if t] == ["nhwc", "0"]
    assert blocked.inputs[0] and blocked.inputs[0].layout == NCHW8C
    assert blocked.outputs[0].layout == NCHW8C and blocked.outputs[0].in_place == 0


@pytest.mark.parametrize("in_place", [False, True], ids=["apart", "in place"])
@pytest.mark.parametrize("implementation", [0, 1], ids=["plain", "blocked"])
def test_an_implementation_computes_what_numpy_does(
    tmp_path: Path, implementation: int, in_place: bool
) -> None:
    asked = load(prelu(tmp_path))
    op = CpuOp("PReLU", "y", (floats(2, 3, 4, 20), floats(20)), (floats(2, 3, 4, 20),))
    (config,) = asked.configurations(op, implementation)
    kernel = asked.init(op, implementation, config, [PLACE, PLACE], [PLACE])
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 3, 4, 20), np.float32)
    slopes = random.standard_normal(20, np.float32)
    assert config.outputs[0].layout
    memory = _to_memory(x, config.outputs[0].layout)
    result = memory if in_place else np.full_like(memory, np.nan)
    kernel.execute([memory.ctypes.data, slopes.ctypes.data], [result.ctypes.data])
    y = _from_memory(result, config.outputs[0].layout, x.shape)
    assert np.array_equal(y, np.where(x > 0, x, slopes * x))


def test_options_reach_the_layer_as_entries_and_as_bytes(tmp_path: Path) -> None:
    check = """
        const LiteRtNpuOption* list = LiteRtNpuFindOption(op, "list");
        const LiteRtNpuOption* text = LiteRtNpuFindOption(op, "text");
        if (op->num_options != 4 || !op->options_size || (uintptr_t)op->options_data % 16) return kLiteRtNpuError;
        if (LiteRtNpuFloatOption(op, "alpha", 0) != 0.5 || LiteRtNpuIntOption(op, "n", 0) != -7)
          return kLiteRtNpuError;
        if (LiteRtNpuIntOption(op, "alpha", 3) != 3 || LiteRtNpuFindOption(op, "other")) return kLiteRtNpuError;
        if (!list || !list->is_array || list->count != 2 || ((const int64_t*)list->values)[1] != 5)
          return kLiteRtNpuError;
        if (!text || strcmp((const char*)text->values, "abc") || text->count != 3) return kLiteRtNpuError;
        return kLiteRtNpuOk;"""
    options = bytes(flexbuffers.Dumps({"alpha": 0.5, "n": -7, "list": [4, 5], "text": "abc"}))
    asked = load(library(tmp_path, init=check))
    op = one_op(4, options=options)
    asked.init(op, 0, simplest_config(op), [PLACE], [PLACE])


def test_a_struct_has_no_entries_but_its_bytes(tmp_path: Path) -> None:
    check = """if (op->num_options || op->options_size != 8) return kLiteRtNpuError;
        return ((const int32_t*)op->options_data)[1] == 9 ? kLiteRtNpuOk : kLiteRtNpuError;"""
    op = one_op(4, options=bytes([1, 0, 0, 0, 9, 0, 0, 0]))
    load(library(tmp_path, init=check)).init(op, 0, simplest_config(op), [PLACE], [PLACE])


def test_quantization_and_inputs_that_are_left_out_are_told(tmp_path: Path) -> None:
    check = """const LiteRtNpuOperand* x = &op->inputs[0];
        if (op->inputs[1].is_present || !x->is_present || x->num_scales != 2 || x->quantized_dimension != 1)
          return kLiteRtNpuError;
        return x->scales[1] == 0.25f && x->zero_points[1] == -3 ? kLiteRtNpuOk : kLiteRtNpuError;"""
    x = CpuOperand(
        RankedTensorType.of(ElementType.INT8, (3, 2)), False, (0.5, 0.25), (0, -3), dimension=1
    )
    op = CpuOp("Double", "y", (x, None), (floats(3, 2),))
    asked = load(library(tmp_path, init=check))
    asked.init(op, 0, simplest_config(op), [PLACE, None], [PLACE])


def test_strides_and_offsets_reach_the_kernel(tmp_path: Path) -> None:
    body = """const LiteRtNpuTensor* x = &inputs[0];
        for (int64_t i = 0; i < x->memory_dims[0]; ++i) for (int64_t j = 0; j < x->memory_dims[1]; ++j)
          ((float*)outputs[0].data)[i * x->memory_dims[1] + j] =
              ((const float*)x->data)[x->offset + i * x->strides[0] + j * x->strides[1]];
        return kLiteRtNpuOk;"""
    op = one_op(2, 3)
    asked = load(library(tmp_path, execute=body))
    kernel = asked.init(op, 0, simplest_config(op), [TensorPlace((5, 1), 1)], [PLACE])
    x, y = np.arange(10, dtype=np.float32), np.zeros(6, np.float32)
    kernel.execute([x.ctypes.data], [y.ctypes.data])
    assert y.tolist() == [1, 2, 3, 6, 7, 8]


def test_what_a_library_logs_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    says = 'log_callback(log_data, kLiteRtNpuLogWarning, "a slow path\\n"); return kLiteRtNpuOk;'
    op = one_op(4)
    asked = load(library(tmp_path, log="SetLog", init=says))
    with caplog.at_level(logging.INFO):
        asked.init(op, 0, simplest_config(op), [PLACE], [PLACE])
    assert [(r.levelname, r.message) for r in caplog.records] == [("WARNING", "a slow path")]


def test_a_kernel_ends_with_its_object(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ends = 'log_callback(log_data, kLiteRtNpuLogInfo, kernel == (void*)7 ? "end of 7" : "end");'
    op = one_op(4)
    asked = load(
        library(tmp_path, log="SetLog", init="*kernel = (void*)7; return 0;", destroy=ends)
    )
    kernel = asked.init(op, 0, simplest_config(op), [PLACE], [PLACE])
    with caplog.at_level(logging.INFO):
        del kernel
    assert [r.message for r in caplog.records] == ["end of 7"]


def test_a_library_ends_its_kernels_and_is_released_when_it_is_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    say = 'log_callback(log_data, kLiteRtNpuLogInfo, "{}");'
    top = f"static void Release(void) {{ {say.format('released')} }}"
    parts = {"log": "SetLog", "destroy": say.format("ended"), "top": top, "release": "Release"}
    asked = load(library(tmp_path, **parts))
    config = simplest_config(one_op(2))
    kernel = asked.init(one_op(2), 0, config, [PLACE], [PLACE])
    with caplog.at_level(logging.INFO):
        asked.close()
        asked.close()
        del kernel
    assert caplog.messages == ["ended", "released"]
    assert not asked.is_loaded


@pytest.mark.parametrize(
    "parts", [{}, {"size": "offsetof(LiteRtNpuCpuLayerLibrary, release)", "release": "abort"}]
)
def test_a_library_that_does_not_say_how_it_ends_stays(
    tmp_path: Path, parts: dict[str, str]
) -> None:
    asked = load(library(tmp_path, **parts))
    assert not asked.has_release
    asked.close()
    assert asked.is_loaded and asked.layer_types() == ["Double"]


def test_two_libraries_are_not_taken_for_one_another(tmp_path: Path) -> None:
    first, second = (load(library(tmp_path, types=f'"{name}"')) for name in ("A", "B"))
    assert [*first.layer_types(), *second.layer_types()] == ["A", "B"]


def test_errors_have_the_library_s_words(tmp_path: Path) -> None:
    says = 'return LiteRtNpuFail(message, kLiteRtNpuError, "the sensor is asleep");'
    op, asked = one_op(4), load(library(tmp_path, execute=says))
    kernel = asked.init(op, 0, simplest_config(op), [PLACE], [PLACE])
    with pytest.raises(LiteRtError) as error:
        kernel.execute([0], [0])
    assert (
        error.value.what
        == "library 'test layers' (version 0.5) reports an error in its function execute: the sensor is asleep"
    )
    assert (
        error.value.status is Status.RUNTIME_FAILURE
        and "layer 'Double', output 'y'" in error.value.where
    )


def test_a_long_message_is_cut(tmp_path: Path) -> None:
    says = """static char text[100000]; memset(text, 'x', sizeof(text) - 1);
        return LiteRtNpuFail(message, kLiteRtNpuOutOfMemory, text);"""
    op, asked = one_op(4), load(library(tmp_path, init=says))
    with pytest.raises(LiteRtError) as error:
        asked.init(op, 0, simplest_config(op), [PLACE], [PLACE])
    assert error.value.status is Status.MEMORY_ALLOCATION_FAILURE
    assert 4000 < len(error.value.what) < 5000


def test_an_init_can_ask_for_another_configuration(tmp_path: Path) -> None:
    asks = """config->outputs[0].in_place = -1;
        return LiteRtNpuFail(message, kLiteRtNpuNotImplemented, "not in place");"""
    op, asked = one_op(4), load(library(tmp_path, init=asks))
    config = simplest_config(op)
    with pytest.raises(ConfigurationRefusedError, match="not in place") as error:
        asked.init(op, 0, config, [PLACE], [PLACE])
    assert error.value.proposed is None


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"version": "7"}, "the library's interface has version 7"),
        ({"entry": "another_function"}, "exports no function 'litert_npu_get_cpu_layer_library'"),
    ],
    ids=["a version to come", "no entry"],
)
def test_a_library_of_another_kind_is_refused(
    tmp_path: Path, parts: dict[str, str], says: str
) -> None:
    error = fails(library(tmp_path, **parts))
    assert says in error.what and "cpu_layer.h" in error.hint


def test_a_library_without_this_version_is_refused(tmp_path: Path) -> None:
    source = library(tmp_path).with_suffix(".c")
    source.write_text(source.read_text().replace("return &library;", "return NULL;"))
    assert "does not support interface version 1" in fails(build(source, tmp_path / "none.so")).what


def test_a_table_with_a_gap_is_refused(tmp_path: Path) -> None:
    source = library(tmp_path).with_suffix(".c")
    source.write_text(source.read_text().replace("Init, Execute", "Init, 0 ? Execute : NULL"))
    assert "has no function 'execute'" in fails(build(source, tmp_path / "gap.so")).what


@pytest.mark.parametrize("name", ['""', '"a\\nb"'], ids=["empty", "two lines"])
def test_names_of_layers_are_checked(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        LiteRtError,
        match=r"get_layer_type\(0\) returns '.*', but the text must have only printable characters",
    ):
        load(library(tmp_path, types=name)).layer_types()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "config->inputs[0].layout.rank = 17;",
            "input 0 cannot have a memory layout of 17 dimensions",
        ),
        (
            "config->inputs[0].layout.order[0] = 1;",
            r"input 0: the layout has the dimensions \[1, 1\], but needs each of the tensor's dimensions "
            r"\[0, 1\] once",
        ),
        (
            "config->outputs[0].layout.order[1] = 9;",
            r"output 0: the layout has the dimensions \[0, 9\]",
        ),
        (
            "config->inputs[0].layout.block[0] = 4;",
            r"input 0: the layout has the dimensions \[1\]",
        ),
        (
            "config->inputs[0].layout = LiteRtNpuBlockedChannels(2, -8);",
            "input 0: a block of -8 elements is not allowed for dimension 1",
        ),
        ("config->inputs[0].element_type = 99;", "input 0 cannot have element type 99"),
        ("config->inputs[0].element_type = 5;", "input 0 cannot have element type STRING"),
        ("config->outputs[0].in_place = 1;", "in_place of output 0 is 1, but must be from -1 to 0"),
        ("return 77;", "returns status 77, which is not a LiteRtNpuStatus"),
        ("return kLiteRtNpuError;", "the library gives no reason, only status ERROR"),
    ],
)
def test_what_configurations_say_is_checked(tmp_path: Path, body: str, says: str) -> None:
    asked = load(library(tmp_path, configuration=f"{body} return kLiteRtNpuOk;"))
    with pytest.raises(LiteRtError, match=says):
        asked.configurations(one_op(3, 4), 0)


@pytest.mark.parametrize(
    ("count", "says"),
    [
        ("0", "returns 0 for implementation 0, but must return at least 1"),
        ("1u << 30", "returns 1073741824, but must return at most 1024"),
    ],
)
def test_a_number_of_configurations_is_checked(tmp_path: Path, count: str, says: str) -> None:
    with pytest.raises(LiteRtError, match=f"get_num_configurations {says}"):
        load(library(tmp_path, num_configurations=count)).configurations(one_op(4), 0)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "shapes[0].dims[0] = -1;",
            r"the sizes \[-1, 4\] for output 0, but each size must be from 0",
        ),
        ("shapes[0].rank = 3;", "rank 3 for output 0, but the output has rank 2"),
    ],
)
def test_output_shapes_are_checked(tmp_path: Path, body: str, says: str) -> None:
    asked = load(library(tmp_path, shapes=f"{body} return kLiteRtNpuOk;"))
    with pytest.raises(LiteRtError, match=f"get_output_shapes returns {says}"):
        asked.output_shapes(one_op(4, 4), [(4, 4)])


def test_what_is_no_shared_object_is_not_loaded(tmp_path: Path) -> None:
    text = tmp_path / "layer.so"
    text.write_text("int main(void) { return 0; } /* a source */\n")
    assert fails(text).what == "the file is not a shared object (ELF)"


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [(18, 183, "the shared object is for AArch64"), (18, 8, "machine 8"), (4, 1, "for 32-bit"),
     (16, 1, "not a shared object, but an object file")],
)  # fmt: skip
def test_a_shared_object_for_another_machine_is_named(
    tmp_path: Path, place: int, value: int, says: str
) -> None:
    data = bytearray(library(tmp_path).read_bytes())
    if data[18] == value:
        pytest.skip("it is this machine")
    data[place] = value
    (tmp_path / "other.so").write_bytes(data)
    assert says in fails(tmp_path / "other.so").what


@pytest.mark.parametrize("end", [0, 19, 40, 64, 200, 4000, 9000, 12000])
def test_a_cut_shared_object_is_refused(tmp_path: Path, end: int) -> None:
    (tmp_path / "cut.so").write_bytes(library(tmp_path).read_bytes()[:end])
    error = fails(tmp_path / "cut.so")
    assert str(tmp_path) not in str(error) and "cut.so" in error.where


def test_a_function_that_nobody_has_is_named(tmp_path: Path) -> None:
    body = "int nobody_has_this(void); return nobody_has_this();"
    error = fails(library(tmp_path, execute=body, top="int nobody_has_this(void);"))
    assert error.status is Status.DYNAMIC_LOADING and "nobody_has_this" in error.what


@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    seed=st.randoms(use_true_random=False),
    blocks=st.lists(st.integers(2, 4), max_size=2),
)
def test_a_layout_has_a_place_for_each_element(
    shape: list[int], seed: object, blocks: list[int]
) -> None:
    order = list(range(len(shape)))
    seed.shuffle(order)  # type: ignore[attr-defined]
    blocked = order[: len(blocks)]
    sizes = blocks[: len(blocked)]
    layout = MemoryLayout((*order, *blocked), (*[0] * len(order), *sizes))
    assert not layout.find_mistake(len(shape))
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    memory = _to_memory(array, layout)
    assert memory.shape == layout.dims(shape)
    strides = tuple(s // memory.itemsize for s in memory.strides)
    assert all(
        a == b or d == 1
        for a, b, d in zip(strides, layout.strides(shape), memory.shape, strict=True)
    )
    assert np.array_equal(_from_memory(memory, layout, tuple(shape)), array)


Array = npt.NDArray[Any]


def _to_memory(array: Array, layout: MemoryLayout) -> Array:
    """Returns an array in its memory layout, with NumPy only: pads, splits the blocked dimensions, transposes."""
    block_of = {d: b for d, b in zip(layout.order, layout.blocks, strict=True) if b}
    padding = [(0, -n % block_of.get(d, 1)) for d, n in enumerate(array.shape)]
    split: list[int] = []
    axes: dict[tuple[int, bool], int] = {}
    for dimension, (size, (_, more)) in enumerate(zip(array.shape, padding, strict=True)):
        block = block_of.get(dimension, 1)
        axes[dimension, False] = len(split)
        split.append((size + more) // block)
        if dimension in block_of:
            axes[dimension, True] = len(split)
            split.append(block)
    order = [axes[d, b > 0] for d, b in zip(layout.order, layout.blocks, strict=True)]
    return np.ascontiguousarray(np.pad(array, padding).reshape(split).transpose(order))


def _from_memory(memory: Array, layout: MemoryLayout, shape: tuple[int, ...]) -> Array:
    """Returns the array that lies in `memory`; finds each element through an array of numbered elements."""
    numbers = _to_memory(np.arange(1, np.prod(shape) + 1).reshape(shape), layout)
    result = np.empty(int(np.prod(shape)), memory.dtype)
    result[numbers[numbers > 0] - 1] = memory[numbers > 0]
    return result.reshape(shape)
