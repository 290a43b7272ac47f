"""CONCATENATION, PACK, PAD, PADV2, MIRROR_PAD: ops whose operands become parts of a larger result."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import product

from litert.core.counts import count_text
from litert.core.element_type import ElementType
from litert.model.graph import Op
from litert.model.schema_types import enum_name
from vendor_reference.compiler.library.library_op import (
    IN_PLACE,
    Attributes,
    LibraryOp,
    PlacedOp,
    Shape,
    activation_of,
    common_shape,
    count_from_front,
    find_integers,
    find_scale,
    integer_of,
    integers_of,
    option,
    result_mismatch,
)
from vendor_reference.compiler.library.moves import MovedPart, move_kernel, move_mismatch
from vendor_reference.compiler.library.steps import INTEGER_LIMITS
from vendor_reference.compiler.library.traced_size import at_least
from vendor_reference.compiler.library.views import View
from vendor_reference.custom_layers.cl_types import STRUCT_FORMATS
from vendor_reference.custom_layers.kernel_spec import KernelSpec

_E = ElementType
_FORMATS = {**STRUCT_FORMATS, _E.FLOAT16: "e", _E.BOOL: "B"}
_AXIS, _BEFORE, _AFTER, _VALUE = "axis", "before", "after", "value"
_REPEATS_BORDER = "repeats_border"


class _Joining(LibraryOp):
    """Makes operands parts of the result along `axis`."""

    has_parts = True

    def attributes(self, op: Op) -> Attributes:
        axis = count_from_front(int(option(op, _AXIS)), len(op.outputs[0].shape))
        return {**super().attributes(op), _AXIS: axis}

    def mismatch(self, call: PlacedOp) -> str:
        axis, shape = call.integer(_AXIS), call.result.shape
        if axis is None or not 0 <= axis < len(shape):
            return f"the op joins along dimension {axis}, but the result has {count_text(len(shape), 'dimension')}"
        return result_mismatch(self, call) or move_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        return move_kernel(self.name, len(call.inputs), _copies(self.parts(call), call))


class _Concatenation(_Joining):
    """Concatenates operands along a dimension."""

    name = "CONCATENATION"
    ie_name = "Concat"
    num_inputs = (1, 32)
    is_layout_agnostic = True
    constraints = (
        "all tensors must have the same scale and zero point",
        "the fused activation must be NONE",
    )

    def parameter_refusal(self, op: Op) -> str:
        activation = activation_of(op)
        return "" if activation == "NONE" else f"fused activation {activation} is not supported"

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        axis = integer_of(attributes, _AXIS)
        if axis is None or any(axis >= len(shape) for shape in shapes):
            return None
        others = common_shape([(*shape[:axis], *shape[axis + 1 :]) for shape in shapes])
        if others is None:
            return None
        joined = sum(shape[axis] for shape in shapes)
        return [(*others[:axis], joined, *others[axis:])]

    def parts(self, call: PlacedOp) -> Sequence[View]:
        axis, begin, parts = call.integer(_AXIS), 0, []
        assert axis is not None
        for view in call.inputs:
            parts.append(call.result.between(axis, begin, begin + view.shape[axis]))
            begin += view.shape[axis]
        return parts


class _Pack(_Joining):
    """Stacks operands of the same shape along a new dimension `axis`."""

    name = "PACK"
    ie_name = "Stack"
    num_inputs = (1, 4096)
    constraints = ("all tensors must have the same scale and zero point",)

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        axis, shape = integer_of(attributes, _AXIS), common_shape(shapes)
        if axis is None or shape is None or axis > len(shape):
            return None
        return [(*shape[:axis], len(shapes), *shape[axis:])]

    def parts(self, call: PlacedOp) -> Sequence[View]:
        axis = call.integer(_AXIS)
        assert axis is not None
        indices = range(len(call.inputs))
        return [call.result.between(axis, i, i + 1).without([axis]) for i in indices]


class _Pad(LibraryOp):
    """Pads dimension `i` with `before[i]` and `after[i]` elements of `value`."""

    is_layout_agnostic = True
    has_parts = True
    constraints = (
        "all tensors must have the same scale and zero point",
        "the paddings and the padding value must be constants",
    )

    def __init__(self, name: str, ie_name: str, num_inputs: int) -> None:
        self.name = name
        self.ie_name = ie_name
        self.num_inputs = (num_inputs, num_inputs)
        self.num_parameters = num_inputs - 1

    def parameter_refusal(self, op: Op) -> str:
        if find_integers(op.inputs[1]) is None:
            return "the paddings are not constants"
        value, element_type = op.inputs[-1], op.outputs[0].element_type
        if self.num_parameters == 1 or value is None:
            return ""
        is_number = value.is_constant and len(value.data) * 8 == element_type.bits
        if not is_number or value.element_type is not element_type or element_type not in _FORMATS:
            return "the padding value is not one constant number of the result's type"
        scales = (None, find_scale(op.outputs[0]))
        has_scale = element_type not in INTEGER_LIMITS or find_scale(value) in scales
        return (
            ""
            if has_scale
            else "the padding value and the result have different scales or zero points"
        )

    def attributes(self, op: Op) -> Attributes:
        paddings = find_integers(op.inputs[1]) or ()
        return {
            **super().attributes(op),
            _BEFORE: paddings[::2],
            _AFTER: paddings[1::2],
            _VALUE: self._value(op),
        }

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        return _padded(shapes[0], attributes)

    def mismatch(self, call: PlacedOp) -> str:
        if reason := _padding_mismatch(self, call):
            return reason
        if not isinstance(call.attributes.get(_VALUE), (int, float)):
            return f"attribute '{_VALUE}', the padding value, is missing or not a number"
        try:
            self._packed_value(call)
        except (KeyError, OverflowError, struct.error):
            value = call.attributes[_VALUE]
            return f"the padding value {value} does not fit type {call.result.element_type.name}"
        return move_mismatch(call)

    def parts(self, call: PlacedOp) -> Sequence[View]:
        return [call.result.part(call.integers(_BEFORE), call.inputs[0].shape)]

    def kernel(self, call: PlacedOp) -> KernelSpec:
        parts = _copies(self.parts(call), call)
        # A box on each side of a dimension; the next dimension fills the space between them.
        rest = call.result
        sides = zip(call.integers(_BEFORE), call.inputs[0].shape, strict=True)
        for dim, (first, size) in enumerate(sides):
            for begin, end in ((0, first), (first + size, rest.shape[dim])):
                parts.append(MovedPart(rest.between(dim, begin, end)))
            rest = rest.between(dim, first, first + size)
        return move_kernel(self.name, 1, parts, self._packed_value(call))

    def _value(self, op: Op) -> int | float:
        """Returns the value in PADV2's input; for PAD, the integer or number that stands for zero."""
        element_type, value = op.outputs[0].element_type, op.inputs[-1]
        if self.num_parameters == 2 and value is not None:
            number: int | float = struct.unpack(f"<{_FORMATS[element_type]}", value.data)[0]
            return number
        scale = find_scale(op.outputs[0]) if element_type in INTEGER_LIMITS else None
        return scale.zero_point if scale else 0

    @staticmethod
    def _packed_value(call: PlacedOp) -> bytes:
        letter, value = _FORMATS[call.result.element_type], call.attributes[_VALUE]
        return struct.pack(f"<{letter}", value)


class _MirrorPad(LibraryOp):
    """Pads dimension `i` with `before[i]` and `after[i]` mirrored elements.

    `repeats_border` says whether the outermost elements are among them.
    """

    name = "MIRROR_PAD"
    ie_name = "MirrorPad"
    num_inputs = (2, 2)
    num_parameters = 1
    is_layout_agnostic = True
    has_parts = True
    constraints = (
        "all tensors must have the same scale and zero point",
        "the paddings must be constants",
    )

    def parameter_refusal(self, op: Op) -> str:
        return "" if find_integers(op.inputs[1]) is not None else "the paddings are not constants"

    def attributes(self, op: Op) -> Attributes:
        paddings = find_integers(op.inputs[1]) or ()
        is_symmetric = enum_name("MirrorPadMode", int(option(op, "mode"))) == "SYMMETRIC"
        return {
            **super().attributes(op),
            _BEFORE: paddings[::2],
            _AFTER: paddings[1::2],
            _REPEATS_BORDER: is_symmetric,
        }

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        shape = _mirrored(shapes[0], attributes)
        return None if shape is None else _padded(shape, attributes)

    def mismatch(self, call: PlacedOp) -> str:
        shape = call.inputs[0].shape
        if not isinstance(call.attributes.get(_REPEATS_BORDER), bool):
            return f"attribute '{_REPEATS_BORDER}' must be true or false"
        if _has_paddings(shape, call.attributes) and _mirrored(shape, call.attributes) is None:
            return f"the paddings are larger than the operand, which has shape {list(shape)}"
        return _padding_mismatch(self, call) or move_mismatch(call)

    def parts(self, call: PlacedOp) -> Sequence[View]:
        return [call.result.part(call.integers(_BEFORE), call.inputs[0].shape)]

    def kernel(self, call: PlacedOp) -> KernelSpec:
        parts = _copies(self.parts(call), call)
        skipped = 0 if call.attributes[_REPEATS_BORDER] else 1
        # The parts of each dimension: first index, size, source, and the step to the next index.
        sides = [
            (
                (before, size, 0, 1),
                (0, before, before - 1 + skipped, -1),
                (before + size, after, size - 1 - skipped, -1),
            )
            for size, before, after in zip(
                call.inputs[0].shape, call.integers(_BEFORE), call.integers(_AFTER), strict=True
            )
        ]
        for box in list(product(*sides))[1:]:
            to, shape, begin, steps = zip(*box, strict=True)
            parts.append(
                MovedPart(call.result.part(to, shape), call.inputs[0].part(begin, shape, steps))
            )
        return move_kernel(self.name, 1, parts)


def _paddings(attributes: Attributes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the number of elements before and after each dimension."""
    return integers_of(attributes, _BEFORE), integers_of(attributes, _AFTER)


def _has_paddings(shape: Shape, attributes: Attributes) -> bool:
    before, after = _paddings(attributes)
    is_each_there = {len(before), len(after)} == {len(shape)}
    return is_each_there and min((*before, *after), default=0) >= 0


def _padded(shape: Shape, attributes: Attributes) -> Sequence[Shape] | None:
    """Returns the shape of the only result."""
    if not _has_paddings(shape, attributes):
        return None
    return [tuple(map(sum, zip(shape, *_paddings(attributes), strict=True)))]


def _mirrored(shape: Shape, attributes: Attributes) -> Shape | None:
    """Returns the operand's shape if it is large enough for its mirrored parts; else None."""
    if not _has_paddings(shape, attributes):
        return None
    skipped = 0 if attributes.get(_REPEATS_BORDER) else 1
    sides = zip(shape, *_paddings(attributes), strict=True)
    sizes = [at_least(size, max(b, a) + skipped if b or a else 0) for size, b, a in sides]
    return None if None in sizes else tuple(size for size in sizes if size is not None)


def _padding_mismatch(op: LibraryOp, call: PlacedOp) -> str:
    if not _has_paddings(call.inputs[0].shape, call.attributes):
        before, after = call.integers(_BEFORE), call.integers(_AFTER)
        return (
            f"the paddings are {list(before)} before and {list(after)} after, but each list needs one number, "
            "0 or more, for each dimension of the operand"
        )
    return result_mismatch(op, call)


def _copies(parts: Sequence[View], call: PlacedOp) -> list[MovedPart]:
    """Returns the parts of the result to which operands must be copied."""
    pairs = enumerate(zip(parts, call.inputs, strict=True))
    there = call.integers(IN_PLACE)
    return [
        MovedPart(part, view.sized_as(part), index)
        for index, (part, view) in pairs
        if index not in there
    ]


OPS = (
    _Concatenation(),
    _Pack(),
    _Pad("PAD", "Pad", 2),
    _Pad("PADV2", "PadV2", 3),
    _MirrorPad(),
)
