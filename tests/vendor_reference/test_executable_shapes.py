"""Tests functions of dynamic shape in byte code: they survive, and those that no run can carry out are refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.sizes import Dimension, Size
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from tests.vendor_reference.executables import floats, in_, out, shape, task
from vendor_reference.executable.byte_code import PREFIX, read_executable, write_executable
from vendor_reference.executable.executable import (
    HOLE,
    Argument,
    DynamicOutput,
    Executable,
    Function,
    Program,
    ShapeKind,
    ShapeValue,
    work_size,
)
from vendor_reference.executable.source_text import fill_program, hole_values, size_text

BATCH, WRITTEN = Dimension(0, 0), Dimension(2, 0)
SHAPES = [
    ShapeValue("x", ShapeKind.INPUT, (-1, 3), (8, 3), 0),
    ShapeValue("t", ShapeKind.COMPUTED, (-1, -1), (16, 3), 64, sizes=(BATCH * 2, 3)),
    ShapeValue("y", ShapeKind.WRITTEN, (-1,), (48,), 128, index=0),
]
RANK_1 = RankedTensorType.of(ElementType.INT32, (1,))


def made(
    shapes: Sequence[ShapeValue] = SHAPES,
    first: Sequence[Size] = (BATCH,),
    second: Sequence[Size] = (WRITTEN,),
    arguments: Sequence[Argument] = (),
    dynamic_outputs: Sequence[DynamicOutput] = (DynamicOutput(0, 1, 2),),
    program: Program | None = None,
    most_items: int | None = None,
) -> Executable:
    """Returns an executable: task 0 writes the shape of `y`, and task 1 has a work item for each element."""
    tasks = [
        replace(task("first", [in_(), shape(2), *arguments], first), most_items=most_items),
        task("second", [in_(), shape(1), out()], second),
    ]
    function = Function(
        "f", [floats(8, 3)], [floats(48), RANK_1], tasks, 192, 0, shapes, dynamic_outputs
    )
    return Executable("EMU8", [function], [program or Program("", ())], [])


def test_shapes_survive() -> None:
    program = Program(f"#define N {HOLE}\n", (), holes=(BATCH + 1,))
    before = made(program=program)
    after = read_executable(write_executable(before).view)
    assert list(after.functions[0].shapes) == SHAPES
    assert after.functions[0].dynamic_outputs == [DynamicOutput(0, 1, 2)]
    assert after.programs[0].holes == program.holes
    assert write_executable(after).view == write_executable(before).view


def test_a_text_is_filled_for_the_shapes() -> None:
    holes: list[Size] = []
    sizes = [size_text(size, holes) for size in (BATCH, 3, BATCH * 3)]
    program = Program(f"#define DIMS {','.join(sizes)}", (), holes=tuple(holes))
    values = hole_values(program, lambda _: (5, 3))
    filled = fill_program(program, values)
    assert (filled.prelude, filled.holes) == ("#define DIMS 5,3,15", ())
    assert fill_program(filled, ()) is filled


X, T, Y = SHAPES


@pytest.mark.parametrize(
    ("executable", "what"),
    [
        (made([replace(X, index=1), T, Y]), "input index 1 is out of range"),
        (made([replace(X, bound=(9, 3)), T, Y]), "its largest shape is 9x3"),
        (made([replace(X, pattern=(-1, 4)), T, Y]), "8x3 is not a valid bound for shape ?x4"),
        (made([replace(X, pattern=(-1,)), T, Y]), "is not a valid bound for"),
        (made([replace(X, pattern=(-1,) * 3, bound=(2**31 - 1,) * 3), T, Y]), "is too large"),
        (made([X, replace(X, offset=64), Y]), "input 0 has two shapes"),
        (made(most_items=8, first=[BATCH - 9]), "(s0[0]-9) is at most -1, which is below 0"),
        (
            made(most_items=7),
            "the launch has 8 work items, but the kernel was compiled for at most 7",
        ),
        (made([replace(X, offset=192), T, Y]), "8 bytes at offset 192 do not fit"),
        (made([replace(X, offset=4), T, Y]), "offset 4 is not a multiple of 64"),
        (made([X, replace(T, sizes=(BATCH,)), Y]), "the shape has 1 size, but 2 dimensions"),
        (
            made([X, replace(T, sizes=(WRITTEN, 3)), Y]),
            "dynamic shape 2 is used before the shape is known",
        ),
        (made([X, T, replace(Y, index=2)]), "2 is not in the range 0 to 1"),
        (
            made([X, T, replace(Y, index=1)]),
            "task 0 needs shape 2, which is not known when the task starts",
        ),
        (made(first=[WRITTEN]), "task 0 needs shape 2, which is not known when the task starts"),
        (
            made(first=[Dimension(0, 2)]),
            "dynamic shape 0: dimension index 2 is out of range: the 2 dimensions have",
        ),
        (made(arguments=[shape(3)]), "shape index 3 is out of range"),
        (made(dynamic_outputs=[DynamicOutput(0, 1, 0)]), "its largest shape is 8x3"),
        (made(dynamic_outputs=[DynamicOutput(0, 0, 2)]), "the shape has type tensor<48xf32>"),
        (
            made(dynamic_outputs=[DynamicOutput(0, 2, 2)]),
            "the 3 shapes have the indices 0 to 2, and the 2 outputs have",
        ),
        (made(program=Program(HOLE, ())), "0 sizes, but its text has 1 placeholder"),
        (made(program=Program("", (), holes=(BATCH,))), "1 size, but its text has 0 placeholders"),
        (
            made(program=Program(HOLE, (), holes=(Dimension(7, 0),))),
            "dynamic shape index 7 is out of range: the 3 dynamic shapes have",
        ),
    ],
)
def test_what_no_run_could_carry_out_is_refused(executable: Executable, what: str) -> None:
    with pytest.raises(LiteRtError) as error:
        read_executable(write_executable(executable).view)
    assert error.value.status is Status.SERIALIZATION
    assert what in error.value.what


@pytest.mark.parametrize("field", ["kind", "pattern", "bound", "offset", "name", "index"])
def test_a_shape_without_one_of_its_fields_is_refused(field: str) -> None:
    module = bytes(write_executable(made()).view)
    magic, version, size, _ = PREFIX.unpack_from(module)
    header = json.loads(module[PREFIX.size : PREFIX.size + size])
    del header["functions"][0]["shapes"][0][field]
    text = json.dumps(header).encode()
    padding = b"\0" * (-(PREFIX.size + len(text)) % 64)
    total = PREFIX.size + len(text) + len(padding)
    with pytest.raises(LiteRtError) as error:
        read_executable(PREFIX.pack(magic, version, len(text), total) + text + padding)
    assert error.value.status is Status.SERIALIZATION and field in error.value.what


def test_work_sizes_follow_the_shapes() -> None:
    rounded = [(BATCH + 3) * 2, 4]
    assert work_size(rounded, [2, 4], lambda _: (5, 3), "") == ((16, 4), (2, 4))
    assert work_size(rounded, None, lambda _: (0, 3), "") == ((6, 4), None)
    with pytest.raises(LiteRtError) as error:
        work_size([BATCH], [4], lambda _: (6, 3), "kernel 'k'")
    assert "global size [6] is not a multiple of local size" in error.value.what
