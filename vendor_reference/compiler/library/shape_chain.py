"""Analyses shapes that a model computes from other shapes.

Such a chain of ops is a SHAPE, followed by PACK, CONCATENATION, STRIDED_SLICE, MUL, ADD or SUB.

Converters write such chains for ops whose result has an unknown batch size or image size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from litert.model.builtin_options import read_builtin_options
from litert.model.graph import Op, Tensor
from vendor_reference.compiler.library.library_op import (
    Attributes,
    Shape,
    activation_of,
    find_integers,
    integers_of,
)
from vendor_reference.compiler.library.traced_size import unless_negative

_LEFT = -1
_TIMES, _ADDED = "_times", "_added"
_MOST = 2**31 - 1
"""Largest factor or summand in a chain."""
_MOST_SIZES, _MOST_TENSORS = 64, 10_000
"""Largest number of sizes in a tensor, and of tensors in a chain; the sizes of larger chains are unknown."""
_SAME_SIZES = ("CAST", "RESHAPE", "SQUEEZE", "EXPAND_DIMS")
_ARITHMETIC = ("MUL", "ADD", "SUB")


@dataclass(frozen=True, slots=True)
class ChainSize:
    """A size that a model computes: dimension `dim` of an operand, multiplied by `times`, plus `added`."""

    added: int
    times: int = 0
    dim: int = 0


Sizes = Sequence["ChainSize | None"]
"""Sizes of a tensor; None is an unknown size."""

_Known = Mapping["Tensor | None", "Sizes | None"]


def read_sizes(shape: Tensor | None, operand: Tensor) -> Sizes | None:
    """Returns the numbers in a shape tensor, as sizes that depend on the sizes of `operand`.

    Returns None if even the number of sizes is unknown. The function reads each tensor once, after the tensors
    from which the tensor is computed.
    """
    known: dict[Tensor | None, Sizes | None] = {}
    pending = [shape]
    while pending:
        missing = [tensor for tensor in _sources(pending[-1]) if tensor not in known]
        pending += missing
        if len(known) + len(pending) > _MOST_TENSORS:
            return None
        if not missing:
            tensor = pending.pop()
            sizes = _read_tensor(tensor, operand, known)
            known[tensor] = sizes if sizes is None or len(sizes) <= _MOST_SIZES else None
    return known[shape]


def find_source(shape: Tensor | None) -> Tensor | None:
    """Returns the first tensor from whose SHAPE a shape is computed; None if there is no such tensor."""
    producer = None if shape is None else shape.producer
    while producer is not None and producer.name != "SHAPE":
        read = [t.producer for t in producer.inputs if t is not None and t.producer is not None]
        producer = read[0] if read else None
    return None if producer is None else producer.inputs[0]


def own_sizes(operand: Tensor) -> Sizes:
    """Returns the sizes of an operand, as sizes that depend on this operand."""
    sizes = enumerate(operand.type.shape)
    return [ChainSize(size) if size >= 0 else ChainSize(0, 1, dim) for dim, size in sizes]


def size_attributes(name: str, sizes: Sizes) -> Attributes:
    """Converts sizes to attributes of a layer.

    The attribute `name` contains fixed sizes, -1 for an unknown size, -2 for the size of dimension 0 of operand 0,
    -3 for the size of dimension 1, and so on. If the model multiplies or adds sizes, the attributes `name_times`
    and `name_added` contain a number for each size.
    """
    shown = [size or ChainSize(_LEFT) for size in sizes]
    codes = tuple(-2 - n.dim if n.times else max(n.added, _LEFT) for n in shown)
    times = tuple(n.times if n.times else 1 for n in shown)
    added = tuple(n.added if n.times else 0 for n in shown)
    return {
        name: codes,
        **({name + _TIMES: times} if set(times) - {1} else {}),
        **({name + _ADDED: added} if any(added) else {}),
    }


def find_sizes(attributes: Attributes, name: str) -> Sizes | None:
    """Reads sizes from attributes that `size_attributes` has made; returns None if they are missing."""
    codes = integers_of(attributes, name)
    times = integers_of(attributes, name + _TIMES) or (1,) * len(codes)
    added = integers_of(attributes, name + _ADDED) or (0,) * len(codes)
    if name not in attributes or not len(codes) == len(times) == len(added):
        return None
    return [
        ChainSize(more, factor, -2 - code)
        if code < _LEFT
        else None
        if code == _LEFT
        else ChainSize(code)
        for code, factor, more in zip(codes, times, added, strict=True)
    ]


def sizes_of(attributes: Attributes, name: str, operand: Shape) -> Sequence[int | None] | None:
    """Computes the sizes that attributes describe, for an operand of the given shape.

    The sizes in this shape may be traced. Returns None if the attributes are missing.
    """
    sizes = find_sizes(attributes, name)
    if sizes is None or any(size and size.times and size.dim >= len(operand) for size in sizes):
        return None
    return [None if size is None else _size_of(size, operand) for size in sizes]


def _size_of(size: ChainSize, operand: Shape) -> int:
    if not size.times:
        return size.added
    made = operand[size.dim] * size.times + size.added
    return unless_negative(made) if min(size.times, size.added) < 0 else made


def _sources(tensor: Tensor | None) -> Sequence[Tensor]:
    """Returns the tensors that the numbers of a chain's tensor are computed from."""
    producer = None if tensor is None else tensor.producer
    if producer is None:
        return []
    inputs = [source for source in producer.inputs if source is not None]
    if producer.name in ("PACK", "CONCATENATION", *_ARITHMETIC):
        return inputs
    return inputs[:1] if producer.name in (*_SAME_SIZES, "STRIDED_SLICE") else []


def _read_tensor(tensor: Tensor | None, operand: Tensor, known: _Known) -> Sizes | None:
    """Returns the numbers of a tensor; the numbers of its sources are known."""
    found = find_integers(tensor)
    if found is not None:
        return [ChainSize(number) for number in found]
    producer = None if tensor is None else tensor.producer
    if producer is None:
        return None
    inputs = [source for source in producer.inputs if source is not None]
    if producer.name == "SHAPE":
        own = own_sizes(inputs[0])
        return own if inputs[0] is operand else [n if n and not n.times else None for n in own]
    if producer.name in ("PACK", "CONCATENATION"):
        parts = [_read_part(source, known) for source in inputs]
        return None if None in parts else [n for part in parts for n in part or ()]
    if producer.name in _SAME_SIZES:
        return known[inputs[0]]
    if producer.name in _ARITHMETIC:
        return _read_arithmetic(producer, known)
    return _read_slice(producer, known) if producer.name == "STRIDED_SLICE" else None


def _read_part(tensor: Tensor, known: _Known) -> Sizes | None:
    if known[tensor] is not None or not tensor.type.layout.is_static:
        return known[tensor]
    return [None] * min(tensor.type.num_elements, _MOST_SIZES + 1)


def _read_arithmetic(op: Op, known: _Known) -> Sizes | None:
    """Returns the sizes that ADD, SUB or MUL computes from known sizes and constants.

    None for other operands.
    """
    tensors = list(op.inputs)
    if op.name != "SUB" and find_integers(tensors[0]) is not None:
        tensors.reverse()
    sizes, numbers = known.get(tensors[0]), find_integers(tensors[-1])
    if sizes is None or numbers is None or activation_of(op) != "NONE":
        return None
    count = max(len(sizes), len(numbers))
    if {len(sizes), len(numbers)} - {1, count} or count > _MOST_SIZES:
        return None
    pairs = zip(
        cycle(sizes), cycle(numbers), strict=False
    )  # one number is repeated for all numbers of the other
    return [size and _compute(op.name, size, n) for size, n in islice(pairs, count)]


def _compute(name: str, size: ChainSize, number: int) -> ChainSize | None:
    if name == "MUL":
        made = ChainSize(size.added * number, size.times * number, size.dim)
    else:
        added = size.added + (number if name == "ADD" else -number)
        made = ChainSize(added, size.times, size.dim)
    return made if max(abs(made.added), abs(made.times)) <= _MOST else None


def _read_slice(op: Op, known: _Known) -> Sizes | None:
    """Returns a part of a shape: one number, or the numbers in a range of indices."""
    whole = known.get(op.inputs[0])
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
