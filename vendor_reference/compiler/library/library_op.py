"""Defines the library's ops: under which conditions the NPU can run an op, and which kernel then runs the op.

Each module of `ops/` has a list of ops with the name `OPS`; to add an op, add a file there, or a line to a file.
The declarations of an op are conditions that the library checks, and the op's row in the table of
`docs/builtin_ops.md` is generated from them.

The compiler calls the methods of an op in this order: `refusal`, when the host asks which ops the NPU takes;
`operands` and `attributes`, when the op becomes an IE layer; `mismatch`, when an IE layer is read from IR text;
`kernel`, after the layouts of the tensors are known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from math import isfinite
from types import MappingProxyType
from typing import TypeAlias

from litert.core.counts import count_text
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from litert.core.tensor_type import RankedTensorType
from litert.host.extensions import check_unique, load_package
from litert.model.builtin_options import read_builtin_options
from litert.model.graph import Op, Tensor
from litert.model.schema_types import enum_name
from vendor_reference.compiler.library.elementwise import Formula
from vendor_reference.compiler.library.steps import INTEGER_LIMITS, Scale
from vendor_reference.compiler.library.traced_size import (
    broadcast_size,
    is_same,
    range_of,
    same_size,
)
from vendor_reference.compiler.library.views import View
from vendor_reference.compiler.reference_options import ALL, AUTO, NONE, REFERENCE_OPS
from vendor_reference.custom_layers.cl_types import CL_TYPES
from vendor_reference.custom_layers.kernel_spec import KernelSpec
from vendor_reference.firmware.operations import NUM_LOOPS

NUMBERS = tuple(CL_TYPES)
"""All types that a kernel can read."""
MOST_ELEMENTS = 2**31 - 1
"""Limit on a tensor's number of elements, because offsets and strides in commands are 32-bit integers."""
FLOATS = (ElementType.FLOAT32, ElementType.FLOAT16)
INTEGERS = (ElementType.INT32, ElementType.INT64)
BYTES = (ElementType.INT8, ElementType.UINT8)
WITH_SHORTS = (*BYTES, ElementType.INT16)
"""Quantized types, including int16.

For int16, stock LiteRT's interpreter approximates most functions in a different way.
"""

Shape: TypeAlias = tuple[int, ...]
Value: TypeAlias = "bool | int | float | str | tuple[int, ...] | tuple[float, ...]"
Attributes: TypeAlias = Mapping[str, Value]
"""The properties of an op except its tensors, as attributes of the op's IE layer."""

_WORDS = (AUTO, ALL, NONE)
"""Values of `--reference_ops` that are not names of ops."""

_LEAST_SCALE = 2.0**-126
"""Least scale that the library supports; its reciprocal, by which kernels multiply, must be a finite float."""

SCALES = "scales"
ZERO_POINTS = "zero_points"
"""Attributes of layers with quantized tensors; each attribute has a number for each operand and result.

A scale of 0 means that the tensor has no scale.
"""

IN_PLACE = "in_place"
"""Attribute of layers whose result contains the operands.

Its value contains the indices of the operands that other layers write directly into the result; these operands
need no copy.
"""


class Fusion(Enum):
    """A kind of op that can be fused into a layer; the layer then has additional attributes and operands."""

    ACTIVATION = "activation"
    """An activation after the layer: the attribute `activation` contains the name of the activation's op.

    The slopes of PRELU become the last operand.
    """
    BIAS = "bias"
    """A bias for a layer that has none: the operand after the weights, which has a number for each channel."""
    RESIDUAL = "residual"
    """An operand that is added before or after the activation; this operand follows the bias."""
    PADDING = "padding"
    """A padding before the layer: zeros around the image.

    The attributes `pads_begin` and `pads_end` contain the numbers of rows and columns.
    """


@dataclass(frozen=True, slots=True)
class PlacedOp:
    """An op whose tensors have memory layouts.

    Attributes:
      attributes: Attributes from `LibraryOp.attributes`, or from IR text.
    """

    inputs: tuple[View, ...]
    results: tuple[View, ...]
    attributes: Attributes

    @classmethod
    def of(cls, tensors: Sequence[View], num_results: int, attributes: Attributes) -> PlacedOp:
        """Makes an op; `tensors` holds first the operands, and then `num_results` results."""
        num_inputs = len(tensors) - num_results
        return cls(tuple(tensors[:num_inputs]), tuple(tensors[num_inputs:]), attributes)

    @property
    def result(self) -> View:
        """Returns the first result, which is the only result of most ops."""
        return self.results[0]

    @property
    def tensors(self) -> tuple[View, ...]:
        """Returns the operands, then the results."""
        return (*self.inputs, *self.results)

    def scale(self, index: int) -> Scale | None:
        """Returns the scale of tensor `index`; None if the tensor is not quantized with one scale."""
        scales, zero_points = self.numbers(SCALES), self.numbers(ZERO_POINTS)
        if index < 0:
            index += len(self.tensors)
        if len(scales) != len(self.tensors) or len(zero_points) != len(scales):
            return None
        scale, zero_point = scales[index], zero_points[index]
        least, most = INTEGER_LIMITS.get(self.tensors[index].element_type, (0, 0))
        is_usable = isfinite(scale) and scale >= _LEAST_SCALE and least <= zero_point <= most
        return Scale(float(scale), int(zero_point)) if is_usable else None

    def numbers(self, name: str) -> tuple[float, ...]:
        """Returns an attribute that is a list of numbers; empty for other attributes."""
        found = self.attributes.get(name)
        return tuple(float(n) for n in found) if isinstance(found, tuple) else ()

    def integers(self, name: str) -> tuple[int, ...]:
        """Returns an attribute that is a list of integers; empty for other attributes."""
        return integers_of(self.attributes, name)

    def integer(self, name: str) -> int | None:
        """Returns an attribute that is an integer; None for other attributes."""
        return integer_of(self.attributes, name)

    def shape_mismatch(self) -> str:
        """Returns the message that the shape of the result does not fit the operands."""
        inputs, results = (
            ", ".join(str(RankedTensorType.of(v.element_type, v.shape)) for v in views)
            for views in (self.inputs, self.results)
        )
        return f"the result {results} does not fit the operands {inputs}"


class LibraryOp(ABC):
    """An operator of the TFLite schema, as the NPU runs it.

    Attributes:
      name: Name of the op in the schema: `ADD`.
      ie_name: Name of the layer at level IE, without the dialect: `Add`.
      types: Element types that the tensors of the op can have.
      quantized: Integer types that the tensors can have if each tensor has one scale.
      precision: The only element type that the kernel takes, or None if the kernel takes all types. Tensors of
        other types are converted before and after the kernel.
      constraints: Further conditions, as phrases for the table in `docs/builtin_ops.md`.
      num_inputs: Least and greatest number of inputs.
      num_parameters: Number of inputs that are constants, and become attributes instead of operands; these inputs
        are the last ones.
      num_outputs: Least and greatest number of outputs.
      is_layout_agnostic: Whether the kernel accepts any dimension order, if all tensors of the same shape have the
        same order.
      has_parts: Whether the result contains the operands unchanged; see `parts`.
      fuses: Kinds of ops that can be fused into this op.
      is_view: Whether the result is operand 0 in another shape.
    """

    name: str
    ie_name: str
    types: tuple[ElementType, ...] = NUMBERS
    quantized: tuple[ElementType, ...] = ()
    precision: ElementType | None = None
    constraints: tuple[str, ...] = ()
    num_inputs: tuple[int, int] = (1, 1)
    num_outputs: tuple[int, int] = (1, 1)
    num_parameters: int = 0
    is_layout_agnostic: bool = False
    has_parts: bool = False
    is_view: bool = False
    fuses: tuple[Fusion, ...] = ()

    def refusal(self, op: Op) -> str:
        """Returns why the NPU cannot run an op with fixed shapes; "" if it can."""
        if reason := self.option_refusal(op):
            return reason
        tensors = [*self.operands(op), *op.outputs]
        views = [View.dense(t.element_type, t.shape) for t in tensors]
        return self.misfit(PlacedOp.of(views, len(op.outputs), self.attributes(op)))

    def misfit(self, call: PlacedOp) -> str:
        """Returns the result of `mismatch`, or why a tensor is too large for the firmware.

        Returns "" if a kernel exists.
        """
        largest = max(range_of(view.num_elements)[1] for view in call.tensors)
        if largest > MOST_ELEMENTS:
            return f"the op has a tensor of {largest} elements, but at most {MOST_ELEMENTS} are possible"
        return self.mismatch(call)

    def option_refusal(self, op: Op) -> str:
        """Returns why an op's options or number of tensors do not allow it to run on the NPU; "" if they do."""
        inputs = list(op.inputs)
        while inputs and inputs[-1] is None:
            inputs.pop()
        if None in inputs:
            return f"input {inputs.index(None)} is omitted, but the op needs it"
        if reason := self._count_mismatch(len(inputs), len(op.outputs), 0):
            return reason
        return self.parameter_refusal(op)

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        """Returns the shapes of the results, from the operands' shapes. Sizes may be traced (`traced_size.py`).

        Returns None if the operands do not fit. Also returns None if the op has no rule for its shapes; such an op
        takes only fixed shapes.
        """
        return None

    def shaped_like_result(self, attributes: Attributes) -> Sequence[int]:
        """Returns the indices of the operands that have the result's shape.

        The pass that made the layer has checked these shapes.
        """
        return ()

    def port_mismatch(self, num_inputs: int, num_outputs: int) -> str:
        """Returns why a layer of the op cannot have these numbers of operands and results; "" if it can."""
        return self._count_mismatch(num_inputs, num_outputs, self.num_parameters)

    def _count_mismatch(self, num_inputs: int, num_outputs: int, num_parameters: int) -> str:
        least, most = (max(1, number - num_parameters) for number in self.num_inputs)
        fewest, greatest = self.num_outputs
        if least <= num_inputs <= most and fewest <= num_outputs <= greatest:
            return ""
        found = f"{count_text(num_inputs, 'input')} and {count_text(num_outputs, 'output')}"
        expected = (
            f"{_range_text(least, most, 'input')} and {_range_text(fewest, greatest, 'output')}"
        )
        return f"the op has {found}, but must have {expected}"

    def operands(self, op: Op) -> Sequence[Tensor]:
        """Returns the inputs that are tensors at level IE."""
        tensors = [tensor for tensor in op.inputs if tensor is not None]
        return tensors[: max(1, len(tensors) - self.num_parameters)]

    def parameter_refusal(self, op: Op) -> str:
        """Returns why an op's inputs and options cannot become attributes of a layer; "" if they can."""
        return ""

    def attributes(self, op: Op) -> Attributes:
        """Returns the attributes of the op's layer; by default, these are scales and zero points."""
        return quantization_attributes([*self.operands(op), *op.outputs])

    @abstractmethod
    def mismatch(self, call: PlacedOp) -> str:
        """Returns why no kernel exists for the types, shapes and attributes of an op; "" if a kernel exists."""

    def parts(self, call: PlacedOp) -> Sequence[View]:
        """Returns the views of the operands in the result, for an op whose result contains its operands."""
        return ()

    def type_mismatch(self, call: PlacedOp) -> str:
        """Returns why the types of the tensors do not fit.

        For example, a type may be unsupported by the op, or integers may lack a scale. Returns "" if the types
        fit.
        """
        element_type, allowed = call.result.element_type, (*self.types, *self.quantized)
        for index, view in enumerate(call.tensors):
            is_converted = self.precision is not None and view.element_type in self.types
            if view.element_type is not element_type and not is_converted:
                return (
                    f"the tensors have types {view.element_type.name} and {element_type.name}, "
                    "which must be equal"
                )
            if element_type in self.quantized and call.scale(index) is None:
                return f"{_tensor_name(call, index)} of type {element_type.name} does not have exactly one scale"
        if element_type in allowed:
            return ""
        names = ", ".join(t.name for t in allowed)
        return f"the tensors have type {element_type.name}, but the library supports {self.name} only for {names}"

    def types_text(self) -> str:
        """Returns the types of the op's tensors, for the table in `docs/builtin_ops.md`."""
        quantized = f"quantized: {type_names(self.quantized)}" if self.quantized else ""
        return "; ".join(filter(None, (type_names(self.types), quantized)))

    @abstractmethod
    def kernel(self, call: PlacedOp) -> KernelSpec:
        """Returns the kernel for the layout of the tensors; the caller has checked that `mismatch` returns ""."""


class ElementwiseOp(LibraryOp):
    """An op that computes each element of the result from one element of each operand."""

    is_layout_agnostic = True

    @abstractmethod
    def formula(self, call: PlacedOp) -> Formula:
        """Returns the formula of the result; the caller has checked that `mismatch` returns ""."""

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        shape = broadcast_shape(shapes)
        return None if shape is None else [shape]

    def kernel(self, call: PlacedOp) -> KernelSpec:
        return self.formula(call).kernel(self.name)


@cache
def library_ops() -> Mapping[str, LibraryOp]:
    """Returns all ops of the library by their names in the schema.

    Each module in `ops/` has a list of its ops with the name `OPS`.
    """
    families = load_package(
        "vendor_reference.compiler.library.ops", "OPS", lambda ops: str(ops[0].name)
    )
    ops: list[LibraryOp] = [op for family in families.values() for op in family]
    for names in ([op.name for op in ops], [op.ie_name for op in ops]):
        check_unique([(name, "the op library") for name in names], "Rename one of them.")
    return MappingProxyType({op.name: op for op in sorted(ops, key=lambda op: op.name)})


def choose_ops(wanted: str) -> Mapping[str, LibraryOp]:
    """Returns the ops in the value of `--reference_ops`: names separated by commas, or `auto`, `all` or `none`.

    The case of letters is ignored.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if a name is not the name of an op of the library.
    """
    known = library_ops()
    names = [name.strip().upper() for name in wanted.split(",") if name.strip()]
    if len(names) == 1 and names[0].lower() in _WORDS:
        return {} if names[0].lower() == NONE else known
    if names == ["TRUE"]:  # a flag without a value
        names = []
    for name in names:
        if name not in known:
            raise _no_op(name, known)
    if not names:
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"--{REFERENCE_OPS} has no op names",
            "vendor 'Reference'",
            f"Write --{REFERENCE_OPS}={AUTO}, {ALL} or {NONE}, or names of builtin ops, separated by commas.",
        )
    return {name: known[name] for name in dict.fromkeys(names)}


def _no_op(name: str, known: Collection[str]) -> LiteRtError:
    """Returns the error about an unknown name in an option's value."""
    if name.lower() in _WORDS:
        what, hint = (
            f"'{name.lower()}' must be the only value",
            f"Remove '{name.lower()}' or the other values.",
        )
    else:
        what = f"the vendor's library has no builtin op '{name}'"
        hint = did_you_mean(
            name,
            [*known, *_WORDS],
            f"'{ALL}' selects all ops of the library; '{AUTO}' selects the ops that are expected to be faster on "
            f"the NPU. The library has {', '.join(known)}.",
        )
    return LiteRtError(
        Status.INVALID_TOOL_CONFIG, f"--{REFERENCE_OPS}: {what}", "vendor 'Reference'", hint
    )


def type_names(types: Sequence[ElementType]) -> str:
    """Returns a list of element types as text for the documentation."""
    return "any" if set(types) == set(NUMBERS) else ", ".join(t.name.lower() for t in types)


def integers_of(attributes: Attributes, name: str) -> tuple[int, ...]:
    """Returns an attribute that is a list of integers; empty for other attributes."""
    found = attributes.get(name)
    return tuple(int(n) for n in found) if isinstance(found, tuple) else ()


def integer_of(attributes: Attributes, name: str) -> int | None:
    """Returns an attribute that is an integer; None for other attributes."""
    found = attributes.get(name)
    return found if isinstance(found, int) else None


def count_from_front(dim: int, rank: int) -> int:
    """Returns a dimension's index from the front; a negative index counts from the end, as in the schema."""
    return dim + rank if dim < 0 else dim


def option(op: Op, field: str) -> int | float:
    """Returns a field of the op's builtin options; if the field is missing, returns the schema's default."""
    value = read_builtin_options(op)[field]
    assert isinstance(value, (int, float))
    return value


def activation_of(op: Op) -> str:
    """Returns the name of the op's fused activation: `NONE`, `RELU`, ..."""
    return enum_name("ActivationFunctionType", int(option(op, "fused_activation_function")))


def quantization_attributes(tensors: Sequence[Tensor]) -> Attributes:
    """Returns the attributes `scales` and `zero_points` of operands and results, if any of them is quantized."""
    return scale_attributes(
        [find_scale(t) if t.element_type in INTEGER_LIMITS else None for t in tensors]
    )


def scale_attributes(scales: Sequence[Scale | None]) -> Attributes:
    """Returns the attributes `scales` and `zero_points`; empty if no tensor is quantized."""
    if not any(scales):
        return {}
    return {
        SCALES: tuple(s.scale if s else 0.0 for s in scales),
        ZERO_POINTS: tuple(s.zero_point if s else 0 for s in scales),
    }


def find_scale(tensor: Tensor) -> Scale | None:
    """Returns the scale of a quantized tensor; None if the tensor has no scale, or several scales."""
    quantization = tensor.quantization
    if quantization is None or quantization.blockwise or len(quantization.scale) != 1:
        return None
    zero_points = list(quantization.zero_point) or [0]
    return Scale(float(quantization.scale[0]), int(zero_points[0]))


def find_integers(tensor: Tensor | None) -> tuple[int, ...] | None:
    """Returns the numbers in a constant of type INT32 or INT64; None for any other tensor."""
    sizes = {ElementType.INT32: 4, ElementType.INT64: 8}
    if tensor is None or not tensor.is_constant or tensor.element_type not in sizes:
        return None
    size, data = sizes[tensor.element_type], tensor.data
    return tuple(
        int.from_bytes(data[at : at + size], "little", signed=True)
        for at in range(0, len(data) - size + 1, size)
    )


def broadcast_mismatch(call: PlacedOp) -> str:
    """Returns why the operands cannot be broadcast to the result's shape: NumPy's rules or the firmware forbid it.

    Returns "" if they can.
    """
    if len(call.result.shape) > NUM_LOOPS:
        return f"the result has {len(call.result.shape)} dimensions, but at most {NUM_LOOPS} are possible"
    shape = broadcast_shape([view.shape for view in call.inputs])
    fits = shape is not None and len(shape) == len(call.result.shape)
    if not fits or not all(map(is_same, shape or (), call.result.shape)):
        return call.shape_mismatch()
    return ""


def broadcast_shape(shapes: Sequence[Shape]) -> Shape | None:
    """Returns the shape to which NumPy's rules broadcast the given shapes; None if that is not possible."""
    rank = max(map(len, shapes))
    made: Shape = (1,) * rank
    for shape in shapes:
        padded = (1,) * (rank - len(shape)) + shape
        sizes = [broadcast_size(*pair) for pair in zip(made, padded, strict=True)]
        if None in sizes:
            return None
        made = tuple(size for size in sizes if size is not None)
    return made


def result_mismatch(op: LibraryOp, call: PlacedOp) -> str:
    """Returns why the shapes of the results do not follow the op's rule; "" if they do."""
    expected = op.result_shapes([view.shape for view in call.inputs], call.attributes)
    found = [view.shape for view in call.results]
    if expected is None or len(expected) != len(found):
        return call.shape_mismatch()
    is_same_shape = all(map(is_shape, expected, found))
    return "" if is_same_shape else call.shape_mismatch()


def is_shape(shape: Shape, other: Shape) -> bool:
    """Returns whether two shapes are known to be equal in every run."""
    return len(shape) == len(other) and all(map(is_same, shape, other))


def common_shape(shapes: Sequence[Shape]) -> Shape | None:
    """Returns the shape that all given shapes must have; None if they cannot be equal.

    If the shapes are not known to be equal, each run checks them.
    """
    made = shapes[0]
    for shape in shapes[1:]:
        if len(shape) != len(made):
            return None
        sizes = [same_size(*pair) for pair in zip(made, shape, strict=True)]
        if None in sizes:
            return None
        made = tuple(size for size in sizes if size is not None)
    return made


def scale_mismatch(call: PlacedOp) -> str:
    """Returns why an op cannot copy quantized integers unchanged, namely that scales or zero points differ.

    Returns "" if it can.
    """
    for index, view in enumerate(call.tensors):
        if view.element_type in INTEGER_LIMITS and call.scale(index) != call.scale(0):
            return f"operand 0 and {_tensor_name(call, index)} have different scales or zero points"
    return ""


def _tensor_name(call: PlacedOp, index: int) -> str:
    if index < len(call.inputs):
        return f"operand {index}"
    return "the result" if len(call.results) == 1 else f"result {index - len(call.inputs)}"


def _range_text(least: int, most: int, noun: str) -> str:
    return count_text(most, noun) if least == most else f"{least} to {count_text(most, noun)}"
