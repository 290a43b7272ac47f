"""A kernel's view of a tensor: the sizes and memory order of the dimensions B, F, Y and X.

A tensor of rank 4 has the dimensions N, H, W and C, so B = N, Y = H, X = W and F = C; its row-major order is B, Y,
X, F. For a tensor of lower rank, its first dimension is B, its second F and its third Y. The remaining letters
have size 1, and the tensor's row-major order is B, F, Y, X. For a tensor of higher rank, all dimensions between N
and W are folded into Y.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from litert.core.errors import LiteRtError
from litert.core.kernel_dims import kernel_dims, letter_dims
from litert.core.sizes import Size, multiply
from litert.core.status import Status

Order: TypeAlias = tuple[int, ...]
"""Memory order of a tensor: the indices of its dimensions, from the outermost to the innermost."""

Dims: TypeAlias = tuple[Size, Size, Size, Size]
"""Sizes of B, F, Y and X: numbers, or formulas for sizes that are known only at run time."""


class Format(str, Enum):
    """The memory order of a tensor's B, F, Y and X, from the outermost to the innermost."""

    BFYX = "BFYX"
    BYXF = "BYXF"
    YXFB = "YXFB"
    FYXB = "FYXB"
    ANY = "ANY"
    """The kernel accepts any order, so the tensor is not reordered for the kernel."""


FORMATS = (Format.BFYX, Format.BYXF, Format.YXFB, Format.FYXB)
"""The formats that prescribe a memory order."""

_NO_PADDING: Dims = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Bfyx:
    """A tensor as a kernel sees it; in all fields except `memory_order`, the order of dimensions is B, F, Y, X.

    Attributes:
      dims: Sizes of the dimensions without padding.
      memory_order: Letters of the dimensions from the outermost to the innermost in memory, such as "BYXF".
      lower_padding, upper_padding: Numbers of elements before and after the view in the larger tensor, for each
        dimension.
    """

    dims: Dims
    memory_order: str
    lower_padding: Dims = _NO_PADDING
    upper_padding: Dims = _NO_PADDING

    @property
    def pitches(self) -> Dims:
        """Strides of B, F, Y and X, in elements."""
        pitch: Size = 1
        pitches: dict[str, Size] = {}
        for letter in reversed(self.memory_order):
            pitches[letter] = pitch
            index = "BFYX".index(letter)
            pitch *= self.lower_padding[index] + (self.dims[index] + self.upper_padding[index])
        return pitches["B"], pitches["F"], pitches["Y"], pitches["X"]

    @property
    def offset(self) -> Size:
        """Offset of the first element after the padding, in elements."""
        offset: Size = 0
        for pitch, padding in zip(self.pitches, self.lower_padding, strict=True):
            offset = offset + pitch * padding
        return offset


def bfyx(
    shape: Sequence[Size],
    order: Order | None = None,
    wanted: Format = Format.ANY,
    lower_padding: Sequence[int] = (),
    upper_padding: Sequence[int] = (),
) -> Bfyx:
    """Creates a kernel's view of a tensor.

    Args:
      shape: Shape of the tensor; in all arguments, dimensions are in the order of the model's tensor.
      order: Memory order of the tensor; None for row-major order.
      wanted: Format that the kernel requires; if several formats describe the same memory, it determines which
        dimensions are B, F, Y and X.
      lower_padding: Padding before each dimension, in elements; empty for no padding.
      upper_padding: Padding after each dimension, in elements; empty for no padding.

    Raises:
      LiteRtError: UNSUPPORTED, if a tensor has more than four dimensions, and if its memory order or padding
        prevents the folding of dimensions into Y.
    """
    rank = len(shape)
    order = tuple(range(rank)) if order is None else order
    if not lower_padding and not upper_padding:
        padded: Sequence[Size] = shape
        lower, upper = _NO_PADDING, _NO_PADDING
    else:
        below, above = lower_padding or (0,) * rank, upper_padding or (0,) * rank
        padded = [low + n + up for low, n, up in zip(below, shape, above, strict=True)]
        lower, upper = _fold_padding(below, padded), _fold_padding(above, padded)
        if any((*below[2:-2], *above[2:-2])):
            raise _no_view(
                shape,
                "the middle dimensions become one dimension, Y, but the tensor has padding between them",
            )
    return Bfyx(kernel_dims(shape), _letters(order, padded, wanted), lower, upper)


def strided_bfyx(
    shape: Sequence[int], strides: Sequence[int], offset: int, wanted: Format = Format.ANY
) -> Bfyx:
    """Creates a kernel's view of a part of a larger tensor from strides and offset, in elements.

    Strides do not reveal padding after the outermost dimension, so this padding is taken as 0.

    Raises:
      LiteRtError: UNSUPPORTED, if the strides do not describe a part of a tensor, or if the dimensions cannot be
        folded.
    """
    places = format_order(wanted, len(shape))  # for dimensions with equal strides
    order = tuple(sorted(places, key=lambda d: (-strides[d], shape[d] == 1)))
    lower, upper = [0] * len(shape), [0] * len(shape)
    rest, above = offset, 0
    for dim in order:
        stride = strides[dim]
        lower[dim], rest = divmod(rest, stride) if stride > 0 else (0, rest)
        if above:
            upper[dim] = above // max(stride, 1) - shape[dim] - lower[dim]
        if stride <= 0 or above % stride or upper[dim] < 0:
            raise _no_view(
                shape,
                f"the strides {list(strides)} at offset {offset} do not describe a part of a larger tensor",
            )
        above = stride
    if order and strides[order[-1]] != 1:
        raise _no_view(
            shape, f"no dimension has contiguous elements, because the strides are {list(strides)}"
        )
    return bfyx(shape, order, wanted, lower, upper)


def format_order(wanted: Format, rank: int) -> Order:
    """Returns the memory order that a format prescribes for tensors of the given rank; row-major order for ANY."""
    if wanted is Format.ANY:
        return tuple(range(rank))
    dims = letter_dims(rank)
    return tuple(dim for letter in wanted.value for dim in dims[letter])


def order_format(order: Order) -> Format | None:
    """Returns the first format that has the given memory order; None if no format has it."""
    return next((f for f in FORMATS if format_order(f, len(order)) == order), None)


def same_memory(shape: Sequence[Size], first: Order, second: Order) -> bool:
    """Whether two memory orders put each element at the same offset; dimensions of size 1 do not matter."""
    return [d for d in first if shape[d] != 1] == [d for d in second if shape[d] != 1]


def _letters(order: Order, padded: Sequence[Size], wanted: Format) -> str:
    """Names an order in letters: the wanted format's if it fits, else another format's, else its own."""
    rank = len(order)
    if wanted is not Format.ANY and same_memory(padded, order, format_order(wanted, rank)):
        return str(wanted.value)
    found = order_format(order)
    if found is not None:
        return str(found.value)
    letters = ""
    for dim in (d for d in order if padded[d] != 1):
        letter = next(name for name, dims in letter_dims(rank).items() if dim in dims)
        if not letters.endswith(letter):
            letters += letter
    middle = [d for d in order if padded[d] != 1 and d in letter_dims(rank)["Y"]]
    if len(set(letters)) < len(letters) or middle != sorted(middle):
        raise _no_view(
            padded,
            f"the middle dimensions become one dimension, Y, but the tensor's memory order {list(order)} "
            "separates or reorders these dimensions",
        )
    return letters + "".join(letter for letter in "BFYX" if letter not in letters)


def _fold_padding(padding: Sequence[int], padded: Sequence[Size]) -> Dims:
    """Computes the padding of B, F, Y, X; padding of the first middle dimension counts for all of Y."""
    b, f, y, x = (
        padding[dims[0]] * multiply([padded[d] for d in dims[1:]]) if dims else 0
        for dims in letter_dims(len(padding)).values()
    )
    return b, f, y, x


def _no_view(shape: Sequence[Size], why: str) -> LiteRtError:
    shown = "x".join(map(str, shape))
    return LiteRtError(
        Status.UNSUPPORTED,
        f"a kernel sees a tensor as four dimensions, B, F, Y and X, but cannot see this tensor of shape {shown} "
        f"so: {why}",
    )
