"""Reads a kernel's declared arguments, and checks the number and the address spaces of the bound arguments."""

from __future__ import annotations

from dataclasses import replace

import pyopencl as cl

from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.custom_layers.cl_types import CL_TYPES
from vendor_reference.custom_layers.kernel_source import struct_names
from vendor_reference.executable.executable import Argument, ArgumentKind, KernelTask
from vendor_reference.executable.kernel_signature import BY_VALUE, DeclaredArgument, KernelSignature

_SPACES = {
    cl.kernel_arg_address_qualifier.GLOBAL: "__global",
    cl.kernel_arg_address_qualifier.CONSTANT: "__constant",
    cl.kernel_arg_address_qualifier.LOCAL: "__local",
    cl.kernel_arg_address_qualifier.PRIVATE: BY_VALUE,
}
_NUMBERS = frozenset(CL_TYPES.values())
_HINT = "Bind the arguments in the order in which the kernel declares them."


def read_signature(kernel: cl.Kernel, device: cl.Device, text: str) -> KernelSignature:
    """Returns a kernel's declared arguments and largest group size; what the driver does not report is ""."""
    arguments = tuple(_read_argument(kernel, index) for index in range(kernel.num_args))
    if any(a.space == BY_VALUE and a.type_name not in _NUMBERS for a in arguments):
        structs = struct_names(text)
        arguments = tuple(
            replace(a, type_name=f"struct {a.type_name}") if a.type_name in structs else a
            for a in arguments
        )
    most = kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device)
    return KernelSignature(arguments, most)


def check_arguments(kernel: KernelSignature, task: KernelTask, where: str) -> None:
    """Raises INVALID_ARGUMENT if a kernel's declared arguments differ from the arguments that its task binds."""
    if len(kernel.arguments) != len(task.arguments):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the kernel declares {count_text(len(kernel.arguments), 'argument')}, but the layer binds "
            f"{count_text(len(task.arguments), 'argument')}",
            where,
            _HINT,
        )
    pairs = zip(kernel.arguments, task.arguments, strict=True)
    for index, (declared, argument) in enumerate(pairs):
        if (
            declared.is_struct and argument.kind is ArgumentKind.SCALAR
        ):  # not every driver checks the number of bytes
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{describe_argument(kernel, index)} is a struct, but the bound value is a number of "
                f"{len(argument.scalar)} bytes",
                where,
                "Declare a separate kernel argument for each number.",
            )
        if declared.space and declared.space not in _allowed(argument):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{describe_argument(kernel, index)} is declared {declared.space}, but the bound value "
                f"({argument.kind.value}) needs {' or '.join(_allowed(argument))}",
                where,
                _HINT,
            )


def describe_argument(kernel: KernelSignature, index: int) -> str:
    """Returns an argument's number as text, and its type and name if the driver reports them."""
    argument = kernel.arguments[index]
    if not argument.type_name:
        return f"argument {index}"
    return f"argument {index} '{argument.type_name} {argument.name}'"


def _read_argument(kernel: cl.Kernel, index: int) -> DeclaredArgument:
    """Reads the declaration of an argument; fields are "" if the driver does not report them."""
    try:
        type_name = kernel.get_arg_info(index, cl.kernel_arg_info.TYPE_NAME)
        name = kernel.get_arg_info(index, cl.kernel_arg_info.NAME)
    except cl.Error:
        return DeclaredArgument("", "", "")
    try:
        found = kernel.get_arg_info(index, cl.kernel_arg_info.ADDRESS_QUALIFIER)
        space = next((space for known, space in _SPACES.items() if known == found), "")
    except cl.Error:
        space = ""
    try:
        qualifiers = kernel.get_arg_info(index, cl.kernel_arg_info.TYPE_QUALIFIER)
        assert isinstance(qualifiers, int)
        is_const = bool(qualifiers & cl.kernel_arg_type_qualifier.CONST)
    except cl.Error:
        is_const = False
    return DeclaredArgument(space, str(type_name), str(name), is_const)


def _allowed(argument: Argument) -> tuple[str, ...]:
    places = {ArgumentKind.LOCAL: ("__local",), ArgumentKind.SCALAR: (BY_VALUE,)}
    return places.get(argument.kind, ("__global", "__constant"))
