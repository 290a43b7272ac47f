"""Tests tensor views of kernels: sizes, pitches, padding and offset in B, F, Y, X."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from litert.core.kernel_dims import letter_dims
from litert.core.sizes import Dimension, Size
from litert.core.status import Status
from vendor_reference.custom_layers.kernel_spec import Format
from vendor_reference.custom_layers.layout import (
    FORMATS,
    Order,
    bfyx,
    format_order,
    order_format,
    strided_bfyx,
)


@pytest.mark.parametrize(
    ("shape", "dims", "order", "pitches"),
    [
        ((), (1, 1, 1, 1), "BFYX", (1, 1, 1, 1)),
        ((7,), (7, 1, 1, 1), "BFYX", (1, 1, 1, 1)),
        ((3, 4), (3, 4, 1, 1), "BFYX", (4, 1, 1, 1)),
        ((2, 3, 4), (2, 3, 4, 1), "BFYX", (12, 4, 1, 1)),
        ((2, 4, 5, 3), (2, 3, 4, 5), "BYXF", (60, 1, 15, 3)),  # N, H, W, C
        ((1, 2, 3, 4, 5), (1, 5, 6, 4), "BYXF", (120, 1, 20, 5)),
        ((2, 1, 3, 2, 4, 5), (2, 5, 6, 4), "BYXF", (120, 1, 20, 5)),
    ],
)
def test_dimensions_and_pitches(
    shape: tuple[int, ...], dims: tuple[int, ...], order: str, pitches: tuple[int, ...]
) -> None:
    view = bfyx(shape)
    assert (view.dims, view.memory_order, view.pitches) == (dims, order, pitches)
    assert view.offset == 0 and view.lower_padding == view.upper_padding == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("wanted", "pitches"),  # sizes of B, F, Y, X: 2, 3, 4, 5
    [
        (Format.BFYX, (60, 20, 5, 1)),
        (Format.BYXF, (60, 1, 15, 3)),
        (Format.YXFB, (1, 2, 30, 6)),
        (Format.FYXB, (1, 40, 10, 2)),
    ],
)
def test_pitches_of_each_format(wanted: Format, pitches: tuple[int, ...]) -> None:
    view = bfyx((2, 4, 5, 3), format_order(wanted, 4), wanted)
    assert (view.dims, view.memory_order, view.pitches) == ((2, 3, 4, 5), wanted.value, pitches)


@pytest.mark.parametrize(
    ("wanted", "rank", "order"),
    [
        (Format.BFYX, 4, (0, 3, 1, 2)),
        (Format.BYXF, 4, (0, 1, 2, 3)),
        (Format.YXFB, 4, (1, 2, 3, 0)),
        (Format.FYXB, 4, (3, 1, 2, 0)),
        (Format.ANY, 4, (0, 1, 2, 3)),
        (Format.BFYX, 5, (0, 4, 1, 2, 3)),
        (Format.FYXB, 6, (5, 1, 2, 3, 4, 0)),
        (Format.BYXF, 3, (0, 2, 1)),
        (Format.YXFB, 3, (2, 1, 0)),
        (Format.BYXF, 2, (0, 1)),
        (Format.FYXB, 2, (1, 0)),
        (Format.YXFB, 1, (0,)),
        (Format.YXFB, 0, ()),
    ],
)
def test_a_format_is_an_order_of_the_tensors_dimensions(
    wanted: Format, rank: int, order: Order
) -> None:
    assert format_order(wanted, rank) == order
    found = order_format(order)
    assert found is not None and format_order(found, rank) == order


def test_an_order_that_no_format_has_is_named_by_its_letters() -> None:
    assert order_format((0, 2, 1, 3)) is None
    view = bfyx((2, 4, 5, 3), (0, 2, 1, 3))
    assert (view.memory_order, view.pitches) == ("BXYF", (60, 1, 3, 12))
    deeper = bfyx((2, 3, 4, 5, 6), (1, 2, 0, 4, 3))  # two dimensions fold into the letter Y
    assert deeper.memory_order == "YBFX"


def test_the_format_that_a_kernel_asks_for_names_what_several_have() -> None:
    assert bfyx((3, 4), wanted=Format.BYXF).memory_order == "BYXF"
    assert bfyx((1, 1, 1, 8)).memory_order == "BYXF"
    assert bfyx((1, 1, 1, 8), wanted=Format.BFYX).memory_order == "BFYX"
    assert bfyx((1, 2, 2, 8), wanted=Format.BFYX).memory_order == "BYXF"  # the actual order


PARTS = [
    # N, H, W, C: whole shape, part's shape, part's start; in BFYX: lower padding, pitches, offset
    ((2, 4, 6, 4), (2, 4, 6, 2), (0, 0, 0, 2), (0, 2, 0, 0), (96, 24, 6, 1), 48),
    ((2, 4, 6, 3), (2, 4, 3, 3), (0, 0, 3, 0), (0, 0, 0, 3), (72, 24, 6, 1), 3),
    ((2, 4, 6, 3), (2, 2, 6, 3), (0, 2, 0, 0), (0, 0, 2, 0), (72, 24, 6, 1), 12),
]


@pytest.mark.parametrize(("whole", "part", "start", "lower", "pitches", "offset"), PARTS)
def test_half_of_a_tensor_is_a_padded_view(
    whole: tuple[int, ...],
    part: tuple[int, ...],
    start: tuple[int, ...],
    lower: tuple[int, ...],
    pitches: tuple[int, ...],
    offset: int,
) -> None:
    upper = [w - p - s for w, p, s in zip(whole, part, start, strict=True)]
    view = bfyx(part, (0, 3, 1, 2), Format.BFYX, start, upper)
    assert view.dims == (part[0], part[3], part[1], part[2])
    assert (view.lower_padding, view.pitches, view.offset) == (lower, pitches, offset)
    assert view.upper_padding == (0, 0, 0, 0)


shapes = st.lists(st.integers(1, 3), max_size=6)


@st.composite
def padded_shapes(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """Draws a shape with lower and upper padding; dimensions folded into Y have no padding."""
    shape = draw(shapes)
    paddings = []
    for _ in range(2):
        padding = [draw(st.integers(0, 2)) for _ in shape]
        inner = letter_dims(len(shape))["Y"][1:]
        paddings.append([0 if d in inner else n for d, n in enumerate(padding)])
    return shape, paddings[0], paddings[1]


def in_memory(
    shape: Sequence[int], order: Order, lower: Sequence[int], upper: Sequence[int]
) -> tuple[npt.NDArray[Any], Sequence[int], int]:
    """Returns a view of a padded tensor whose values are its memory indices, its strides, and its start."""
    padded = [low + n + up for low, n, up in zip(lower, shape, upper, strict=True)]
    memory = np.arange(int(np.prod(padded))).reshape([padded[d] for d in order])
    view = memory.transpose(np.argsort(np.array(order, int)))[
        tuple(slice(low, low + n) for low, n in zip(lower, shape, strict=True))
    ]
    return view, [s // memory.itemsize for s in np.asarray(view).strides], int(view.flat[0])


def numbers(sizes: Sequence[Size]) -> tuple[int, ...]:
    return tuple(size for size in sizes if isinstance(size, int))


@given(padded_shapes(), st.sampled_from(FORMATS))
def test_pitches_and_offset_find_what_numpy_finds(
    padded: tuple[list[int], list[int], list[int]], wanted: Format
) -> None:
    shape, lower, upper = padded
    order = format_order(wanted, len(shape))
    array, strides, start = in_memory(shape, order, lower, upper)
    as_kernel = array.transpose([d for dims in letter_dims(len(shape)).values() for d in dims])
    for view in (
        bfyx(shape, order, wanted, lower, upper),
        strided_bfyx(shape, strides, start, wanted),
    ):
        assert view.offset == start
        places = (
            np.tensordot(np.indices(numbers(view.dims)), numbers(view.pitches), (0, 0))
            + view.offset
        )
        np.testing.assert_array_equal(places, as_kernel.reshape(numbers(view.dims)))


@given(shapes, st.sampled_from((*FORMATS, Format.ANY)))
def test_pitches_reach_each_element_once(shape: list[int], wanted: Format) -> None:
    view = bfyx(shape, format_order(wanted, len(shape)), wanted)
    places = {int(np.dot(i, numbers(view.pitches))) for i in np.ndindex(*numbers(view.dims))}
    assert places == set(range(int(np.prod(shape))))


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_strides_in_any_order_tell_the_order(order: Order) -> None:
    _, strides, start = in_memory([2, 3, 4, 5], order, [0, 1, 0, 2], [1, 0, 0, 3])
    view = strided_bfyx((2, 3, 4, 5), strides, start)
    b, y, x, f = strides
    assert (view.pitches, view.offset) == ((b, f, y, x), start)


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [((2, 2), (3, 2), 0), ((2, 3), (2, 1), 0), ((2, 2), (0, 1), 0), ((2, 2), (4, 2), 0)],
)
def test_strides_that_are_no_part_of_a_tensor_are_refused(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    with pytest.raises(LiteRtError) as error:
        strided_bfyx(shape, strides, offset)
    assert error.value.status is Status.UNSUPPORTED and "strides" in error.value.what


def test_sizes_that_a_run_tells_have_pitches_too() -> None:
    height, channels = Dimension(0, 1), Dimension(0, 3)
    view = bfyx((1, height, 2, channels), (0, 3, 1, 2), Format.BFYX)
    assert view.dims == (1, channels, height, 2)
    assert [str(p) for p in view.pitches] == ["((s0[1]*2)*s0[3])", "(s0[1]*2)", "2", "1"]
    assert view.offset == 0


def test_dimensions_that_do_not_fold_are_refused() -> None:
    with pytest.raises(
        LiteRtError, match=r"the tensor's memory order \[0, 1, 3, 2, 4\] separates or reorders"
    ):
        bfyx((2, 3, 4, 5, 6), (0, 1, 3, 2, 4))
    with pytest.raises(
        LiteRtError,
        match="become one dimension, Y, but the tensor has padding between them",
    ):
        bfyx((2, 3, 4, 5, 6), None, Format.ANY, (0, 0, 1, 0, 0))
    assert bfyx((2, 1, 4, 5, 6), (0, 2, 1, 4, 3)).memory_order == "BYFX"  # one Y has size 1


def test_padding_is_where_the_format_has_it_if_strides_do_not_tell() -> None:
    """Tests the second of two features of a picture with one row: F and Y have the same stride."""
    view = strided_bfyx((2, 1, 5, 1), (10, 5, 1, 5), 5, Format.BFYX)
    assert (view.memory_order, view.lower_padding, view.offset) == ("BFYX", (0, 1, 0, 0), 5)
