"""Represents all kinds of IE layers in the same form for passes.

This form contains the layer's input tensors, output tensors, and requirements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation, OpResult

from litert.core.counts import index_range
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.kernel_attribute import KERNEL, read_kernel
from vendor_reference.compiler.ir.names import at_function, functions_of
from vendor_reference.compiler.ir.types import shape_of
from vendor_reference.compiler.levels.ie import CustomBinaryLayerOp
from vendor_reference.compiler.levels.layer import LayerOp
from vendor_reference.compiler.tensor_requirements import (
    NAMES,
    Requirements,
    TensorRequirement,
    check_requirements,
    read_requirements,
)
from vendor_reference.custom_layers.kernel_spec import ShapeArgument, TensorArgument


@dataclass(frozen=True, slots=True)
class LayerPorts:
    """The tensors of a layer, with the layer's requirements for them.

    Attributes:
      op: A `LayerOp`, a custom binary layer, or the call of an external function that represents a layer.
      inputs: Positions of input tensors among the operands, with the layer's requirements for them.
      outputs: Results that are tensors, with the layer's requirements for them.
    """

    op: Operation
    inputs: Sequence[tuple[int, TensorRequirement]]
    outputs: Sequence[tuple[OpResult, TensorRequirement]]

    @classmethod
    def of(cls, op: Operation, places: Sequence[int], asked: Requirements) -> LayerPorts:
        """Makes an object for an op whose input tensors are the operands at the given positions."""
        results = [result for result in op.results if isinstance(result.type, TensorType)]
        inputs = list(zip(places, asked.inputs, strict=True))
        return cls(op, inputs, list(zip(results, asked.outputs, strict=True)))


class LayerFinder:
    """Finds the layers of a module, and reads the requirements of each external function only once."""

    def __init__(self, module: ModuleOp) -> None:
        self._functions = functions_of(module)
        self._requirements: dict[str, Requirements] = {}

    def find(self, op: Operation) -> LayerPorts | None:
        """Returns the layer of an op; None if the op is not a layer."""
        if isinstance(op, LayerOp):
            return LayerPorts.of(op, range(len(op.inputs)), op.requirements())
        if isinstance(op, CustomBinaryLayerOp):
            requirements = op.requirements()
            check_requirements(requirements, op.inputs.types, op.outputs.types, op.name)
            return LayerPorts.of(op, range(1, 1 + len(op.inputs)), requirements)
        if isinstance(op, CallOp):
            return self._find_called(op)
        return None

    def _find_called(self, op: CallOp) -> LayerPorts | None:
        name = op.callee.root_reference.data
        function = self._functions.get(name)
        if function is None or not is_layer(function):
            return None
        inputs = [i for i, value in enumerate(op.operands) if isinstance(value.type, TensorType)]
        made = [t for t in op.results.types if isinstance(t, TensorType)]
        if not inputs and not made:
            return None  # the layer has only shapes
        if name not in self._requirements:
            read = [op.operands[i].type for i in inputs]
            requirements = read_requirements(function.attributes, len(read), len(made))
            check_requirements(requirements, read, made, f"function '{name}'")
            _check_arguments(function, len(read), len(made))
            self._requirements[name] = requirements
        return LayerPorts.of(op, inputs, self._requirements[name])


def _check_arguments(function: FuncOp, inputs: int, outputs: int) -> None:
    """Checks that a kernel's arguments are tensors of the layer."""
    if KERNEL not in function.attributes:
        return
    spec = read_kernel(function.attributes)
    for place, argument in enumerate(spec.arguments):
        if not isinstance(argument, (TensorArgument, ShapeArgument)):
            continue
        kind = "output" if argument.is_output else "input"
        count = outputs if argument.is_output else inputs + len(spec.absent_inputs)
        if argument.index >= count:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"argument {place} of the kernel is bound to {kind} {argument.index}, but in the layer, "
                f"{index_range(kind, count)}",
                at_function(function),
                f"Correct the argument in {KERNEL} of the function.",
            )


def agnostic_ports(op: LayerOp) -> list[int]:
    """Returns the positions of those inputs of a `LayoutAgnostic` op that have the layout of the results.

    Inputs of a lower rank, which are broadcast to the results' shape, keep their own layout.
    """
    rank = len(shape_of(op.results[0].type))
    tensors = [(i, t) for i, t in enumerate(op.operand_types) if isinstance(t, TensorType)]
    return [place for place, ir_type in tensors if len(shape_of(ir_type)) == rank]


def is_layer(function: FuncOp) -> bool:
    """Returns whether an external function represents a layer.

    Such a function has attributes with requirements, with a kernel, or with the kind of task.
    """
    marks = ("VPUIP.task", "VPUIP.kernel", *(f"IE.{name}" for name in NAMES))
    return function.is_declaration and any(mark in function.attributes for mark in marks)
