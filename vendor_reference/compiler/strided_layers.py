"""Which operands of a custom layer's call on buffers may be views of larger ones."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute

from litert.core.errors import LiteRtError
from vendor_reference.compiler.ie.layer_op import DYNAMIC_INPUTS, DYNAMIC_OUTPUTS
from vendor_reference.compiler.ir.kernel_attribute import KERNEL
from vendor_reference.compiler.kernel_spec import InternalArgument, KernelSpec
from vendor_reference.compiler.kernel_view import asked_format, kernel_tensor
from vendor_reference.compiler.layer_kernels import count_outputs, function_spec
from vendor_reference.compiler.requirements import read_requirements
from vendor_reference.custom_layers.layout import Format

_STRIDES = ("IE.input_strides", "IE.output_strides")


@dataclass(frozen=True, slots=True)
class _Operand:
    """An input or output of a layer.

    Attributes:
      is_output: whether the layer writes it.
      wanted: the format that its kernel asks for.
    """

    is_output: bool
    wanted: Format


class StridedLayers:
    """The layers of a module whose kernels go by pitches and offset; each function is read once."""

    def __init__(self, module: ModuleOp) -> None:
        self._functions = {
            f.sym_name.data: f
            for f in module.body.block.ops
            if isinstance(f, FuncOp) and f.is_declaration
        }
        self._operands: dict[tuple[str, int], list[_Operand | None]] = {}

    def takes(self, call: CallOp, place: int, view: Attribute) -> bool:
        """Whether a call's operand may be that view: its function says so, and its kernel can be told of it."""
        operand = self._find(call, place)
        if operand is None:
            return False
        try:
            order = kernel_tensor(view, operand.wanted).view.memory_order
        except LiteRtError:
            return False  # it has no B, F, Y and X as it would lie
        return operand.wanted is Format.ANY or order == operand.wanted.value

    def writes(self, call: CallOp, place: int) -> bool:
        """Whether an operand that may be a view is an output."""
        operand = self._find(call, place)
        return operand is not None and operand.is_output

    def _find(self, call: CallOp, place: int) -> _Operand | None:
        name, count = call.callee.root_reference.data, len(call.arguments)
        if (name, count) not in self._operands:
            function = self._functions.get(name)
            operands = [] if function is None else _read_operands(function, count)
            self._operands[name, count] = operands
        found = self._operands[name, count]
        return found[place] if place < len(found) else None


def _read_operands(function: FuncOp, count: int) -> list[_Operand | None]:
    """A layer's inputs, then outputs; None for those that must be buffers of their own."""
    attributes = function.attributes
    is_dynamic = DYNAMIC_INPUTS in attributes or DYNAMIC_OUTPUTS in attributes
    if is_dynamic or KERNEL not in attributes or not any(name in attributes for name in _STRIDES):
        return []
    spec = function_spec(function)
    num_outputs = count_outputs(function, spec)
    num_scratch = sum(isinstance(a, InternalArgument) for a in spec.arguments)
    num_inputs = count - num_outputs - num_scratch
    if spec.cpu is not None or num_inputs < 0:
        return []
    asked = read_requirements(attributes, num_inputs, num_outputs)
    inputs = zip(_input_numbers(spec, num_inputs), asked.input_strides, strict=True)
    return [
        *(_operand(spec, False, index, taken) for index, taken in inputs),
        *(_operand(spec, True, index, taken) for index, taken in enumerate(asked.output_strides)),
    ]


def _input_numbers(spec: KernelSpec, count: int) -> list[int]:
    """The op's own numbers of the inputs that are passed."""
    total = count + len(spec.absent_inputs)
    return [index for index in range(total) if index not in spec.absent_inputs]


def _operand(spec: KernelSpec, is_output: bool, index: int, taken: bool) -> _Operand | None:
    if not taken or (not is_output and index in spec.flat_inputs):
        return None
    return _Operand(is_output, asked_format(spec, is_output, index))
