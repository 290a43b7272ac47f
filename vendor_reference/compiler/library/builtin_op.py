"""What the library knows of a builtin op: whether it can do it, and the kernel that does it.

An op's way: `refusal` while the host asks which ops the NPU takes; `operands` and `attributes` as it becomes a
layer on IE; `kernel` once its tensors lie somewhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from litert.core.element_type import ElementType
from litert.model.graph import Op, Tensor
from litert.model.schema import ENUMS
from vendor_reference.compiler.kernel_spec import KernelSpec
from vendor_reference.compiler.library.elementwise import Scale
from vendor_reference.compiler.library.kernel_text import INTEGER_LIMITS
from vendor_reference.compiler.library.view import View

Value: TypeAlias = "bool | int | float | str | tuple[int, ...] | tuple[float, ...]"
Attributes: TypeAlias = Mapping[str, Value]
"""What an op is beside its tensors; a layer on IE has the same."""

SCALES = "scales"
ZERO_POINTS = "zero_points"
"""Attributes of layers with quantized tensors: a number for each operand and result; a scale of 0 is none."""


@dataclass(frozen=True, slots=True)
class Call:
    """An op whose tensors lie somewhere.

    Attributes:
      inputs: its operands.
      attributes: as `BuiltinOp.attributes` made them, perhaps read from a text since.
    """

    inputs: tuple[View, ...]
    outputs: tuple[View, ...]
    attributes: Attributes

    def scale(self, index: int) -> Scale | None:
        """How the integers of an operand, or behind them a result, stand for real numbers."""
        scales, zero_points = self.attributes.get(SCALES), self.attributes.get(ZERO_POINTS)
        if not isinstance(scales, tuple) or not isinstance(zero_points, tuple) or not scales[index]:
            return None
        return Scale(float(scales[index]), int(zero_points[index]))


class BuiltinOp(ABC):
    """An operator of the TFLite schema, as the NPU does it.

    Attributes:
      name: in the schema: `ADD`.
      ie_name: of the layer on IE, without the dialect: `Add`.
      num_inputs: the fewest and the most that it can have; its result is one.
      is_layout_agnostic: whether its tensors may lie in any order, if it is the same for all that have one shape.
      is_in_place: whether the result can be written over operand 0.
      is_view: whether the result is operand 0, read in another shape.
    """

    name: str
    ie_name: str
    num_inputs: tuple[int, int] = (1, 1)
    is_layout_agnostic: bool = False
    is_in_place: bool = False
    is_view: bool = False

    def refusal(self, op: Op) -> str:
        """Why the NPU cannot do an op, whose shapes are known; "" where it can."""
        least, most = self.num_inputs
        if None in op.inputs:
            return f"input {list(op.inputs).index(None)} is left out"
        if not least <= len(op.inputs) <= most or len(op.outputs) != 1:
            return f"it has {len(op.inputs)} inputs and {len(op.outputs)} outputs"
        return self._refusal(op)

    @abstractmethod
    def _refusal(self, op: Op) -> str:
        """The same, for an op that has as many inputs and outputs as it should."""

    def operands(self, op: Op) -> Sequence[Tensor]:
        """The inputs that are tensors on IE; others are parameters, and in the attributes."""
        return [tensor for tensor in op.inputs if tensor is not None]

    def attributes(self, op: Op) -> Attributes:
        """What the op is beside its tensors."""
        return {}

    @abstractmethod
    def kernel(self, call: Call) -> KernelSpec:
        """The kernel for tensors that lie so.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where types, shapes or attributes are none that `refusal` lets pass.
        """


def option(op: Op, field: str) -> Value:
    """A field of the op's builtin options; the schema's default where it has none."""
    from litert.model.builtin_options import make_builtin_options

    table = op.options or op.options_2 or next(filter(None, make_builtin_options(op.name, {})))
    value: Value = table.get(field)
    return value


def activation_of(op: Op) -> str:
    """The name of the op's fused activation: `NONE`, `RELU`, ..."""
    number = option(op, "fused_activation_function")
    assert isinstance(number, int)
    return ENUMS["ActivationFunctionType"].get(number, str(number))


def quantization_attributes(tensors: Sequence[Tensor]) -> Attributes:
    """`scales` and `zero_points` of tensors, where one of them is quantized."""
    found = [find_scale(t) if t.element_type in INTEGER_LIMITS else None for t in tensors]
    if not any(found):
        return {}
    return {
        SCALES: tuple(s.scale if s else 0.0 for s in found),
        ZERO_POINTS: tuple(s.zero_point if s else 0 for s in found),
    }


def find_scale(tensor: Tensor) -> Scale | None:
    """The one scale of a tensor's integers; None where there is none, or several."""
    quantization = tensor.quantization
    if quantization is None or quantization.blockwise or len(quantization.scale) != 1:
        return None
    zero_points = list(quantization.zero_point) or [0]
    return Scale(float(quantization.scale[0]), int(zero_points[0]))


def type_refusal(
    op: Op,
    tensors: Sequence[Tensor],
    plain: Sequence[ElementType],
    quantized: Sequence[ElementType] = (),
) -> str:
    """Why an op on tensors of one type is not done: none of the types, or integers that have no scale."""
    element_type = tensors[0].element_type
    for tensor in tensors:
        if tensor.element_type is not element_type:
            return f"it has tensors of {element_type.name} and {tensor.element_type.name}"
        if element_type in quantized and not is_scaled(tensor):
            return f"'{tensor.name}' has not one scale for its {element_type.name}"
    if element_type in (*plain, *quantized):
        return ""
    allowed = ", ".join(t.name for t in (*plain, *quantized))
    return f"its tensors are {element_type.name}; the library does {op.name} of {allowed}"


def is_scaled(tensor: Tensor) -> bool:
    """Whether a tensor has one scale, of which kernels can make use."""
    scale = find_scale(tensor)
    return scale is not None and 0 < scale.scale < float("inf")


def one_scale_refusal(tensors: Sequence[Tensor]) -> str:
    """Why an op that does not change numbers is not done on quantized tensors: they mean different ones."""
    for tensor in tensors:
        if tensor.element_type in INTEGER_LIMITS and find_scale(tensor) != find_scale(tensors[0]):
            return f"'{tensors[0].name}' and '{tensor.name}' have different scales or zero points"
    return ""


def find_integers(tensor: Tensor | None) -> tuple[int, ...] | None:
    """The numbers of a constant of INT32 or INT64; None for anything else."""
    sizes = {ElementType.INT32: 4, ElementType.INT64: 8}
    if tensor is None or not tensor.is_constant or tensor.element_type not in sizes:
        return None
    size, data = sizes[tensor.element_type], tensor.data
    return tuple(
        int.from_bytes(data[at : at + size], "little", signed=True)
        for at in range(0, len(data) - size + 1, size)
    )
