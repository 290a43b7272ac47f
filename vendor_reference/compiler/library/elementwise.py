"""Makes the firmware commands of element-wise ops, for all types, layouts and views.

Each op has an expression (`steps.py`), which is compiled to a program that the firmware runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from litert.core.element_type import ElementType
from vendor_reference.compiler.library.steps import OPERANDS, Port, Scale, lane_of, write_program
from vendor_reference.compiler.library.traced_size import is_same
from vendor_reference.compiler.library.views import Loops, View, plan_loops
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    KernelArgument,
    KernelSpec,
    TensorArgument,
)
from vendor_reference.firmware.instructions import Command, FieldValue


@dataclass(frozen=True, slots=True)
class KernelOperand:
    """A tensor that a command reads or writes.

    Attributes:
      view: View of the operand, already broadcast to the result's shape.
      scale: Scale of quantized integers; None if the operand is not quantized.
      argument: Kernel argument that is bound to the operand; None if the operand is the op's input of the same
        index.
    """

    view: View
    scale: Scale | None = None
    argument: KernelArgument | None = None

    @property
    def port(self) -> Port:
        """Returns the operand in the form in which a program loads or stores it."""
        return Port(self.view.element_type, self.scale)


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression that is computed for each element of a result.

    Attributes:
      text: Expression of `a`, `b`, ...; see `steps.py`.
      operands: Operands; there is at least one, and there are at most `NUM_OPERANDS`.
      result: Output 0 of the op; the result can overwrite operand 0 if both have the same layout.
    """

    text: str
    operands: Sequence[KernelOperand]
    result: KernelOperand

    def program(self) -> bytes:
        """Returns the program that the firmware runs.

        Raises ValueError if the firmware does not support the expression, or if the expression needs too many
        registers.
        """
        return write_program(self.text, [o.port for o in self.operands], self.result.port)

    def kernel(self, title: str) -> KernelSpec:
        """Returns the kernel with the command; `title` is the layer's title."""
        operands, result = self.operands, self.result
        arguments: list[KernelArgument] = [
            operand.argument or TensorArgument(is_output=False, index=index)
            for index, operand in enumerate(operands)
        ]
        arguments.append(TensorArgument(is_output=True, index=0))
        arguments.append(ConstantArgument(ElementType.UINT32, self.program()))
        places = [*OPERANDS[: len(operands)], "result", "program"]
        loops = plan_loops([*(operand.view for operand in operands), result.view])
        fields = {**{name: i for i, name in enumerate(places)}, **loop_fields(loops)}
        command = Command.of("Elementwise", **fields)
        in_place = _lies_alike(operands[0], result)
        return KernelSpec(title, tuple(arguments), commands=(command,), in_place=in_place)


def _lies_alike(operand: KernelOperand, result: KernelOperand) -> bool:
    """Returns whether each element of the result replaces the bytes of the operand's element."""
    first, second = operand.view, result.view
    same_size = first.element_type.bits == second.element_type.bits
    places = zip((*first.strides, first.offset), (*second.strides, second.offset), strict=True)
    return same_size and all(is_same(one, other) for one, other in places)


def loop_fields(loops: Loops) -> Mapping[str, FieldValue]:
    """Returns the instruction's fields for the layout of operands and result.

    The last view of `loops` belongs to the result.
    """
    strides = [loops.strides[-1], *loops.strides[:-1]]
    return {
        "num_loops": len(loops.sizes),
        "sizes": loops.sizes,
        "offsets": (loops.offsets[-1], *loops.offsets[:-1]),
        "strides": tuple(number for row in strides for number in row),
    }


_E = ElementType

_LEAST = {_E.INT8: -(2**7), _E.INT16: -(2**15), _E.INT32: -(2**31), _E.INT64: -(2**63)}
"""Least values of signed integer types; for unsigned types, the least value is 0.

The types float and double can represent these values exactly.
"""

_MOST = {
    _E.INT8: 2**7 - 1, _E.UINT8: 2**8 - 1, _E.INT16: 2**15 - 1, _E.UINT16: 2**16 - 1,
    _E.INT32: 2**31 - 1, _E.UINT32: 2**32 - 1, _E.INT64: 2**63 - 1, _E.UINT64: 2**64 - 1,
}  # fmt: skip
"""Greatest values of integer types.

If one is added to any of these values, the types float and double can represent the sum exactly.
"""


def cast_expression(source: ElementType, result: ElementType) -> str:
    """Returns the expression that converts an element to another type.

    In a conversion to booleans, all numbers except zero become true; in a conversion to integers, NaN becomes the
    greatest integer.
    """
    from_lane, to_lane = lane_of(source), lane_of(result)
    if result is _E.BOOL:
        return "a != 0"
    if from_lane in ("float", "double") and result in _MOST:
        most = _MOST[result]
        return f"{to_lane}(max({_LEAST.get(result, 0)}, a)) if a < {most + 1} else {most}"
    return "a" if from_lane == to_lane else f"{to_lane}(a)"


def cast(source: View, result: View) -> Formula:
    """Returns the formula that converts the elements of input 0 to the result's type."""
    text = cast_expression(source.element_type, result.element_type)
    return Formula(text, [KernelOperand(source)], KernelOperand(result))
