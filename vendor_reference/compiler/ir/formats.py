"""The formats of custom layers (BFYX, BYXF, YXFB, FYXB) as orders of a tensor's own dimensions.

A tensor of rank 4 is N, H, W, C, that is B, Y, X, F. Lower ranks go by position: B, F, Y. Of higher ranks, what
stands between N and W is Y.
"""

from __future__ import annotations

from vendor_reference.compiler.ir.types import Order
from vendor_reference.custom_layers.custom_layer import Format

FORMATS = (Format.BFYX, Format.BYXF, Format.YXFB, Format.FYXB)


def letter_dims(rank: int) -> dict[str, tuple[int, ...]]:
    """Which dimensions of a tensor B, F, Y and X are, slowest first; none for those it has not."""
    if rank >= 4:
        middle = tuple(range(1, rank - 2))
        return {"B": (0,), "F": (rank - 1,), "Y": middle, "X": (rank - 2,)}
    return {letter: (i,) if i < rank else () for i, letter in enumerate("BFYX")}


def format_order(format: Format, rank: int) -> Order:
    """The order of dimensions that a format asks of a tensor of that rank; ANY is row order."""
    if format is Format.ANY:
        return tuple(range(rank))
    dims = letter_dims(rank)
    return tuple(dim for letter in format.value for dim in dims[letter])


def order_format(order: Order) -> Format | None:
    """The first format that asks for that order; None where none does."""
    return next((f for f in FORMATS if format_order(f, len(order)) == order), None)
