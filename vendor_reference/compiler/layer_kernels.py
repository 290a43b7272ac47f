"""Finds the kernel of a layer at any IR level.

The kernel is in an attribute of a function, or the op's class makes the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from litert.core.errors import LiteRtError
from litert.core.sizes import multiply
from litert.core.status import Status
from vendor_reference.compiler.ir.kernel_attribute import KERNEL, read_kernel
from vendor_reference.compiler.ir.names import functions_of
from vendor_reference.compiler.ir.types import IrType, memref_type, shape_of
from vendor_reference.compiler.levels.ie import TransferOp
from vendor_reference.compiler.levels.layer import LayerOp
from vendor_reference.compiler.levels.vpuip import TaskOp
from vendor_reference.compiler.transfer_kernels import dynamic_transfer_kernel, transfer_kernel
from vendor_reference.compiler.work_items import OpShapes, memory_elements
from vendor_reference.custom_layers.kernel_spec import InternalArgument, KernelSpec

_Input = TypeVar("_Input")


@lru_cache(maxsize=4096)
def layer_spec(
    layer: type[LayerOp],
    inputs: tuple[IrType, ...],
    outputs: tuple[IrType, ...],
    attributes: DictionaryAttr,
    is_dynamic: bool = False,
) -> KernelSpec:
    """Returns the kernel of a builtin op for tensors or buffers of the given types.

    If `is_dynamic` is true, the types have the largest shapes, and the kernel gets run-time shapes as arguments.

    Raises:
      LiteRtError: UNSUPPORTED, if no kernel supports these types.
    """
    if issubclass(layer, TransferOp):
        make_transfer = dynamic_transfer_kernel if is_dynamic else transfer_kernel
        return make_transfer(layer.name.removeprefix("IE."), inputs[0], outputs[0])
    make = layer.dynamic_kernel_spec if is_dynamic else layer.kernel_spec
    return make(inputs, outputs, attributes.data)


def function_spec(function: FuncOp) -> KernelSpec:
    """Returns the kernel that an external function represents.

    Raises INVALID_ARGUMENT if the function has no kernel.
    """
    if KERNEL not in function.attributes:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the IR text calls function '{function.sym_name.data}', but the function has no attribute {KERNEL}",
            hint="Describe the layer's kernel in this attribute.",
        )
    return read_kernel(function.attributes)


class TaskKernels:
    """The kernels of a module's tasks."""

    def __init__(self, module: ModuleOp) -> None:
        self._functions = {
            name: function_spec(function)
            for name, function in functions_of(module).items()
            if KERNEL in function.attributes
        }

    def find(self, op: TaskOp) -> KernelSpec | None:
        """Returns the kernel of a task, as the task's function or precompiled code describes it.

        Returns None if neither of them describes the kernel.
        """
        if op.callee is not None:
            return self._functions.get(op.callee.root_reference.data)
        return read_kernel(op.attributes) if KERNEL in op.attributes else None


def op_shapes(
    spec: KernelSpec, inputs: Sequence[Attribute], outputs: Sequence[Attribute]
) -> OpShapes:
    """Returns the shapes of an op's inputs and outputs, computed from the types of the layer's tensors."""
    return OpShapes(
        tuple(None if t is None else shape_of(t) for t in all_inputs(spec, inputs)),
        tuple(shape_of(t) for t in outputs),
    )


def all_inputs(spec: KernelSpec, inputs: Sequence[_Input]) -> Sequence[_Input | None]:
    """Returns one entry for each input of the op, in order; the entry of an omitted input is None."""
    if not spec.absent_inputs:
        return inputs
    given = iter(inputs)
    count = len(inputs) + len(spec.absent_inputs)
    return [None if index in spec.absent_inputs else next(given) for index in range(count)]


def scratch_types(
    spec: KernelSpec, inputs: Sequence[Attribute], outputs: Sequence[Attribute]
) -> list[Attribute]:
    """Returns the temporary buffers that a kernel needs in a run, in the order of its arguments.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the size of a buffer cannot be computed, or is 0 although the op's outputs
        have elements.
    """
    arguments = [a for a in spec.arguments if isinstance(a, InternalArgument)]
    if not arguments:
        return []
    shapes = op_shapes(spec, inputs, outputs)
    try:
        sizes = [memory_elements(argument, spec, shapes) for argument in arguments]
        if 0 in sizes and any(multiply(shape) for shape in shapes.outputs):
            what = f"internal memory of size '{arguments[sizes.index(0)].size}' has 0 elements"
            hint = "Give the internal memory at least 1 element, or remove the memory."
            raise LiteRtError(Status.INVALID_ARGUMENT, what, hint=hint)
        return [
            memref_type(argument.element_type, (size,))
            for argument, size in zip(arguments, sizes, strict=True)
            if argument.element_type is not None
        ]
    except LiteRtError as error:
        raise at_layer(error, spec) from error


def at_layer(error: LiteRtError, spec: KernelSpec) -> LiteRtError:
    """Adds the asset and the op to an error, and returns the error."""
    return LiteRtError(error.status, error.what, spec.location, error.hint)


def check_static(types: Sequence[Attribute], where: str) -> None:
    """Rejects types whose shape is known only at run time."""
    for ir_type in types:
        if any(dim < 0 for dim in shape_of(ir_type)):
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"a tensor has type {ir_type}, but this kernel needs fixed shapes",
                where,
                "Give the tensor a largest shape (--shape_bounds=NAME:SIZES), or convert the model with fixed "
                "shapes.",
            )
