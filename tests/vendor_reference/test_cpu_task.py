"""Tests CPU layers in an executable: how they are written, read, and checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from tests.vendor_reference.executables import ddr, floats, in_, out, source
from vendor_reference.executable.byte_code import (
    MAGIC,
    PREFIX,
    VERSION,
    read_executable,
    write_executable,
)
from vendor_reference.executable.cpu_op import (
    CpuConfig,
    CpuOp,
    CpuOperand,
    MemoryLayout,
    TensorConfig,
)
from vendor_reference.executable.executable import (
    CpuPlace,
    CpuTask,
    DynamicOutput,
    Executable,
    Function,
    ShapeKind,
    ShapeValue,
)

F32 = ElementType.FLOAT32
SHAPE = (1, 2, 3, 10)
BLOCKED = MemoryLayout((0, 3, 1, 2, 3), (0, 0, 0, 0, 8))
BYTES = 2 * 2 * 3 * 8 * 4

X = CpuOperand(RankedTensorType.of(F32, SHAPE))
W = CpuOperand(
    RankedTensorType.of(ElementType.INT8, (10,)), False, (0.5,) * 10, (-1,) * 10, dimension=0
)
TASK = CpuTask(
    "PReLU",
    source("not read here", file_name="prelu.so"),
    CpuOp("PReLU", "y", (X, None, W), (X,), b"\x01\x02"),
    1,
    CpuConfig(
        (
            TensorConfig(F32, BLOCKED, takes_view=True),
            None,
            TensorConfig(ElementType.INT8, MemoryLayout.row_order(1)),
        ),
        (TensorConfig(F32, BLOCKED, in_place=0),),
        dynamic_batch=True,
    ),
    (CpuPlace(ddr(0, 512), (200, 48, 24, 8, 1), 3), None, CpuPlace(in_(1))),
    (CpuPlace(out()),),
)
MADE = Executable(
    "EMU8",
    [
        Function(
            "f",
            [floats(4), RankedTensorType.of(ElementType.INT8, (10,))],
            [floats(BYTES // 4)],
            [TASK],
            ddr_size=512,
        )
    ],
    [],
    [],
)


def changed(change: Callable[[Any], None], made: Executable = MADE) -> bytes:
    """Returns the byte code after `change` has edited its task, or its function if `made` is not `MADE`."""
    module = bytes(write_executable(made).view)
    size = PREFIX.unpack_from(module)[2]
    header = json.loads(module[PREFIX.size : PREFIX.size + size])
    function = header["functions"][0]
    change(function["tasks"][0] if made is MADE else function)
    text = json.dumps(header).encode()
    return PREFIX.pack(MAGIC, VERSION, len(text), PREFIX.size + len(text)) + text


def test_what_is_written_is_read() -> None:
    assert read_executable(bytes(write_executable(MADE).view)).functions[0].tasks == [TASK]


def test_an_op_may_get_other_output_shapes() -> None:
    changed = TASK.op.with_output_shapes([(2, 5)])
    assert [operand.tensor_type for operand in changed.outputs] == [floats(2, 5)]
    assert changed.inputs == TASK.op.inputs


def test_a_task_says_what_it_calls_with_what() -> None:
    assert (TASK.entry, TASK.arguments) == ("PReLU", [ddr(0, 512), in_(1), out()])


OPEN = CpuOperand(RankedTensorType.of(F32, (8, 3)))
ROWS = TensorConfig(F32, MemoryLayout.row_order(2))
ASKING = Executable(
    "EMU8",
    [
        Function(
            "f",
            [floats(8, 3)],
            [floats(8, 3), RankedTensorType.of(ElementType.INT32, (2,))],
            [
                CpuTask(
                    "Double",
                    source("not read here", file_name="double.so"),
                    CpuOp("Double", "y", (OPEN,), (OPEN,)),
                    0,
                    CpuConfig((ROWS,), (ROWS,), dynamic_batch=True),
                    (CpuPlace(in_(), shape=0),),
                    (CpuPlace(out(), shape=1),),
                )
            ],
            ddr_size=128,
            shapes=[
                ShapeValue("x", ShapeKind.INPUT, (-1, 3), (8, 3), 0),
                ShapeValue("y", ShapeKind.ASKED, (-1, 3), (8, 3), 64, index=0, output=0),
            ],
            dynamic_outputs=[DynamicOutput(0, 1, 1)],
        )
    ],
    [],
    [],
)


def test_shapes_that_a_library_says_survive() -> None:
    function = read_executable(bytes(write_executable(ASKING).view)).functions[0]
    assert function == ASKING.functions[0]


def test_layouts_are_called_by_their_names() -> None:
    names = {
        "nhwc": MemoryLayout.row_order(4),
        "nchw": MemoryLayout((0, 3, 1, 2), (0, 0, 0, 0)),
        "nChw8c": BLOCKED,
        "0": MemoryLayout.row_order(1),
        "102": MemoryLayout((1, 0, 2), (0, 0, 0)),
    }
    assert [str(layout) for layout in names.values()] == list(names)


def put(*path: Any) -> Callable[[Any], None]:
    """Returns a change that writes the last item of `path` to the place that the other items lead to."""

    def change(task: Any) -> None:
        *steps, last, value = path
        for step in steps:
            task = task[step]
        task[last] = value

    return change


def _overflow(task: Any) -> None:
    """Gives a tensor a valid shape whose blocked layout is too large."""
    task["op"]["inputs"][0]["type"] = ["FLOAT32", [2**31 - 1, 2**20, 1, 10]]
    task["config"]["inputs"][0]["blocks"] = [0, 0, 0, 0, 1 << 16]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("implementation", -1), "-1 is not in the range 0"),
        (put("asset", "sha256", "00"), "the value is not a SHA-256 in"),
        (put("asset", "file_name", "../x.so"), "not a path inside the asset's folder"),
        (put("op", "options", "xyz"), "does not consist of two hexadecimal digits for each byte"),
        (put("op", "outputs", []), "0 elements, but must have 1 or more"),
        (put("op", "inputs", 2, "scales", [0.5, 0.5]), "2 scales"),
        (put("op", "inputs", 2, "dimension", 4), "the value is 4, but must be 0"),
        (put("config", "inputs", []), "0 elements, but must have 3"),
        (put("config", "inputs", 0, "order", [0, 1, 2]), "blocks"),
        (put("config", "inputs", 0, "blocks", [0] * 5), "dimensions"),
        (put("config", "inputs", 0, "blocks", [0, 0, 0, 0, 1 << 20]), "a block of 1048576"),
        (put("config", "inputs", 0, "element_type", "STRING"), "a kernel cannot take elements of type STRING"),
        (put("config", "outputs", 0, "in_place", 3), "3 is not in the range -1 to 2"),
        (put("config", "outputs", 0, "element_type", "FLOAT64"), "needs 768 bytes, but has 384 bytes"),
        (put("inputs", 0, "offset", 33), "needs 516 bytes, but has 512"),
        (put("inputs", 0, "strides", [1]), "1 element, but must have 5"),
        (put("inputs", 0, "strides", 4, 1 << 62), "bytes, but has 512"),
        (put("inputs", 0, "argument", {"kind": "scalar", "scalar": "00"}), "cannot be an argument of kind scalar"),
        (put("inputs", 2, "argument", "index", 2), "input index 2 is out of range"),
        (put("outputs", 0, "argument", {"kind": "input"}), "a CPU layer's output cannot be input 0"),
        (put("outputs", 0, None), "null is not an object"),
        (put("inputs", 2, None), "null is not an object"),
        (put("inputs", 1, {"argument": {"kind": "input", "index": 99}, "shape": 9}), "omitted input"),
        (put("op", "inputs", 0, "dimension", 9), "9 is not in the range 0 to 3"),
        (put("extra", 1), "unknown field 'extra'"),
        (put("config", "inputs", 1, {"element_type": "FLOAT32", "order": [0]}), "omitted input"),
        (put("config", "inputs", 0, None), "the configuration has no layout"),
        (_overflow, "too large"),
    ],
)  # fmt: skip
def test_a_task_that_nobody_wrote_is_refused(change: Callable[[Any], None], says: str) -> None:
    with pytest.raises(LiteRtError) as error:
        read_executable(changed(change))
    assert error.value.status is Status.SERIALIZATION
    assert "$.functions[0].tasks[0]" in error.value.what and says in error.value.what


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put("tasks", 0, "inputs", 0, "shape", 2), "shape index 2 is out of range"),
        (put("tasks", 0, "inputs", 0, "shape", -1), "-1 is not in the range 0"),
        (put("tasks", 0, "inputs", 0, "shape", 1), "which comes after it"),
        (
            put("tasks", 0, "inputs", 0, "strides", [3, 1]),
            "a tensor of dynamic shape cannot have strides or an offset",
        ),
        (
            put("tasks", 0, "outputs", 0, "shape", 0),
            "shape 1 differs from the shape that its output has",
        ),
        (
            put("tasks", 0, "op", "inputs", 0, "type", ["FLOAT32", [4, 3]]),
            "its largest shape is 8x3",
        ),
        (
            put("shapes", 0, "pattern", [-1, -1]),
            "a kernel with a dynamic batch cannot take a tensor of shape ?x?",
        ),
        (put("shapes", 1, "index", 1), "the value is 1, but must be 0"),
        (put("shapes", 1, "output", 1), "output 1 of task 0"),
        (
            put("shapes", 1, "kind", "written"),
            "a shape of kind written must not have the field 'output'",
        ),
    ],
)
def test_shapes_that_no_library_could_say_are_refused(
    change: Callable[[Any], None], says: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        read_executable(changed(change, ASKING))
    assert error.value.status is Status.SERIALIZATION and says in error.value.what
