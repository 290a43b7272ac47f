"""CONCATENATION, PAD, PADV2: operands become parts of a larger result."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from litert.core.element_type import ElementType
from litert.model.graph import Op, Tensor
from vendor_reference.compiler.kernel_spec import KernelSpec
from vendor_reference.compiler.library.builtin_op import (
    Attributes,
    BuiltinOp,
    Call,
    activation_of,
    find_integers,
    find_scale,
    option,
)
from vendor_reference.compiler.library.kernel_text import INTEGER_LIMITS
from vendor_reference.compiler.library.moves import Part, move_kernel, move_refusal
from vendor_reference.compiler.library.view import View
from vendor_reference.custom_layers.cl_types import STRUCT_FORMATS

_E = ElementType
_FORMATS = {**STRUCT_FORMATS, _E.FLOAT16: "e", _E.BOOL: "B"}


class _Concatenation(BuiltinOp):
    """Operands one behind the other along `axis`."""

    name = "CONCATENATION"
    ie_name = "Concat"
    num_inputs = (1, 32)
    is_layout_agnostic = True

    def _refusal(self, op: Op) -> str:
        tensors, result = self.operands(op), op.outputs[0]
        if activation_of(op) != "NONE":
            return f"its activation is {activation_of(op)}"
        axis, rank = _axis(op), len(result.shape)
        if not 0 <= axis < rank or any(len(t.shape) != rank for t in tensors):
            return f"it joins {', '.join(str(t.type) for t in tensors)} along dimension {axis}"
        sizes = [tensor.shape[axis] for tensor in tensors]
        shapes = [(*t.shape[:axis], sum(sizes), *t.shape[axis + 1 :]) for t in tensors]
        if any(shape != result.shape for shape in shapes):
            return f"it makes {result.type} of {', '.join(str(t.type) for t in tensors)}"
        return move_refusal(*tensors, result)

    def attributes(self, op: Op) -> Attributes:
        return {"axis": _axis(op)}

    def kernel(self, call: Call) -> KernelSpec:
        return move_kernel(
            self.name,
            len(call.inputs),
            [
                Part(part, view, index)
                for index, (part, view) in enumerate(
                    zip(joined_parts(call), call.inputs, strict=True)
                )
            ],
        )


class _Pad(BuiltinOp):
    """`before[i]` and `after[i]` elements of `value` around dimension `i`."""

    is_layout_agnostic = True

    def __init__(self, name: str, ie_name: str, num_inputs: int) -> None:
        self.name = name
        self.ie_name = ie_name
        self.num_inputs = (num_inputs, num_inputs)

    def _refusal(self, op: Op) -> str:
        (source,), result = self.operands(op), op.outputs[0]
        paddings = find_integers(op.inputs[1])
        if paddings is None:
            return "its paddings are computed"
        rank = len(source.shape)
        if len(paddings) != 2 * rank or any(padding < 0 for padding in paddings):
            return f"its paddings are {paddings}"
        sides = zip(source.shape, paddings[::2], paddings[1::2], strict=True)
        if tuple(size + before + after for size, before, after in sides) != result.shape:
            return f"it makes {result.type} of {source.type}"
        value = op.inputs[2] if len(op.inputs) > 2 else None
        if value is not None and (
            not value.is_constant or len(value.data) * 8 != source.element_type.bits
        ):
            return "its value is computed, or not one number of its type"
        return move_refusal(source, result, *([value] if value is not None else ()))

    def operands(self, op: Op) -> Sequence[Tensor]:
        return [tensor for tensor in op.inputs[:1] if tensor is not None]

    def attributes(self, op: Op) -> Attributes:
        paddings = find_integers(op.inputs[1])
        assert paddings is not None
        return {"before": paddings[::2], "after": paddings[1::2], "value": _pad_value(op)}

    def kernel(self, call: Call) -> KernelSpec:
        result, before = call.outputs[0], _integers(call, "before")
        parts = [Part(padded_part(call), call.inputs[0])]
        # A box on each side of a dimension; what is between them is the next dimension's.
        rest = result
        for dim, (first, size) in enumerate(zip(before, call.inputs[0].shape, strict=True)):
            for begin, end in ((0, first), (first + size, rest.shape[dim])):
                parts.append(Part(_between(rest, dim, begin, end)))
            rest = _between(rest, dim, first, first + size)
        value = call.attributes["value"]
        data = struct.pack(f"<{_FORMATS[result.element_type]}", value)
        return move_kernel(self.name, 1, parts, data)


def joined_parts(call: Call) -> Sequence[View]:
    """Where the operands of a CONCATENATION lie in its result."""
    axis, begin, parts = call.attributes["axis"], 0, []
    assert isinstance(axis, int)
    for view in call.inputs:
        parts.append(_between(call.outputs[0], axis, begin, begin + view.shape[axis]))
        begin += view.shape[axis]
    return parts


def padded_part(call: Call) -> View:
    """Where the operand of a PAD lies in its result."""
    return call.outputs[0].part(_integers(call, "before"), call.inputs[0].shape)


def _between(view: View, dim: int, begin: int, end: int) -> View:
    """The indices from `begin` to before `end` of a dimension."""
    shape = [end - begin if d == dim else size for d, size in enumerate(view.shape)]
    return view.part([begin if d == dim else 0 for d in range(len(shape))], shape)


def _axis(op: Op) -> int:
    axis = option(op, "axis")
    assert isinstance(axis, int)
    return axis + len(op.outputs[0].shape) if axis < 0 else axis


def _integers(call: Call, name: str) -> tuple[int, ...]:
    found = call.attributes[name]
    assert isinstance(found, tuple)
    return tuple(int(number) for number in found)


def _pad_value(op: Op) -> int | float:
    """What PADV2 has as an input; for PAD what stands for zero."""
    element_type = op.outputs[0].element_type
    value = op.inputs[2] if len(op.inputs) > 2 else None
    if value is not None:
        number: int | float = struct.unpack(f"<{_FORMATS[element_type]}", value.data)[0]
        return number
    scale = find_scale(op.outputs[0]) if element_type in INTEGER_LIMITS else None
    return scale.zero_point if scale else 0


OPS = (_Concatenation(), _Pad("PAD", "Pad", 2), _Pad("PADV2", "PadV2", 3))
