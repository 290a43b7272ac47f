"""Whether a kernel takes what its task binds: number of arguments, address spaces, sizes."""

from __future__ import annotations

import pyopencl as cl

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.executable.executable import Argument, ArgumentKind, KernelTask

_SPACES = {
    cl.kernel_arg_address_qualifier.GLOBAL: "__global",
    cl.kernel_arg_address_qualifier.CONSTANT: "__constant",
    cl.kernel_arg_address_qualifier.LOCAL: "__local",
    cl.kernel_arg_address_qualifier.PRIVATE: "by value",
}
_HINT = "Bind arguments in the kernel's order: inputs, then outputs, or as the description says."


def check_arguments(kernel: cl.Kernel, task: KernelTask, where: str) -> None:
    """Compares a kernel with its task.

    Raises:
      LiteRtError: INVALID_ARGUMENT, which names the argument.
    """
    if kernel.num_args != len(task.arguments):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"arguments of the kernel: {kernel.num_args}, bound: {len(task.arguments)}",
            where,
            _HINT,
        )
    for index, argument in enumerate(task.arguments):
        space = _space(kernel, index)
        if space and space not in _allowed(argument):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{describe_argument(kernel, index)} is {space}, and what is bound to it "
                f"({argument.kind.value}) is {' or '.join(_allowed(argument))}",
                where,
                _HINT,
            )


def describe_argument(kernel: cl.Kernel, index: int) -> str:
    """An argument's number, type and name, as far as the driver knows them."""
    try:
        type_name = kernel.get_arg_info(index, cl.kernel_arg_info.TYPE_NAME)
        name = kernel.get_arg_info(index, cl.kernel_arg_info.NAME)
    except cl.Error:
        return f"argument {index}"
    return f"argument {index} '{type_name} {name}'"


def _space(kernel: cl.Kernel, index: int) -> str:
    """Where the kernel has an argument; "" where the driver does not say."""
    try:
        space = kernel.get_arg_info(index, cl.kernel_arg_info.ADDRESS_QUALIFIER)
    except cl.Error:
        return ""
    for known, name in _SPACES.items():
        if space == known:
            return name
    return ""


def _allowed(argument: Argument) -> tuple[str, ...]:
    if argument.kind is ArgumentKind.LOCAL:
        return ("__local",)
    if argument.kind is ArgumentKind.SCALAR:
        return ("by value",)
    return ("__global", "__constant")
