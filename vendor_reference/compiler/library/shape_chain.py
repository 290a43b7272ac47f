"""Shapes that a model computes of shapes: PACK, CONCATENATION and STRIDED_SLICE of what SHAPE makes.

Converters write such chains for a reshape whose batch is open.
"""

from __future__ import annotations

from collections.abc import Sequence

from litert.model.builtin_options import read_builtin_options
from litert.model.graph import Op, Tensor
from vendor_reference.compiler.library.library_op import find_integers

_LEFT = -1


def read_sizes(shape: Tensor | None, operand: Tensor) -> Sequence[int] | None:
    """The numbers of a tensor that is a shape; -2 is dimension 0 of `operand`, -3 dimension 1, -1 anything else.

    None where even their count is not known.
    """
    if shape is None:
        return None
    found = find_integers(shape)
    if found is not None:
        return found
    producer = shape.producer
    if producer is None:
        return None
    inputs = [tensor for tensor in producer.inputs if tensor is not None]
    if producer.name == "SHAPE":
        return _sizes_of(inputs[0], operand)
    if producer.name in ("PACK", "CONCATENATION"):
        parts = [_read_part(tensor, operand) for tensor in inputs]
        return None if None in parts else [n for part in parts for n in part or ()]
    if producer.name in ("CAST", "RESHAPE", "SQUEEZE", "EXPAND_DIMS"):
        return read_sizes(inputs[0], operand)
    return _read_slice(producer, operand) if producer.name == "STRIDED_SLICE" else None


def _read_part(tensor: Tensor, operand: Tensor) -> Sequence[int] | None:
    found = read_sizes(tensor, operand)
    if found is not None or not tensor.type.layout.is_static:
        return found
    return [_LEFT] * tensor.type.num_elements


def _sizes_of(tensor: Tensor, operand: Tensor) -> Sequence[int]:
    return [
        size if size >= 0 else -2 - dim if tensor is operand else _LEFT
        for dim, size in enumerate(tensor.type.shape)
    ]


def _read_slice(op: Op, operand: Tensor) -> Sequence[int] | None:
    """A part of a shape: one number, or those from an index to another."""
    whole = read_sizes(op.inputs[0], operand)
    bounds = [find_integers(tensor) for tensor in op.inputs[1:]]
    if whole is None or any(found is None or len(found) != 1 for found in bounds):
        return None
    begin, end, step = (found[0] for found in bounds if found is not None)
    masks = read_builtin_options(op)
    if masks["new_axis_mask"] or masks["ellipsis_mask"] or masks["offset"] or not step:
        return None
    if masks["shrink_axis_mask"]:
        return whole[begin:][:1]
    first = None if masks["begin_mask"] else begin
    return whole[first : None if masks["end_mask"] else end : step]
