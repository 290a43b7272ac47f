"""Checks that a built kernel accepts the arguments and the work group size of its task.

A combination that cannot be intended is an error, for example a pointer argument for a number, or `float*` for a
tensor of bytes. Some kernels read a tensor's bits as another type on purpose, so other differences between types
only produce a note.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from vendor_reference.custom_layers.cl_types import CL_TYPES
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    InternalArgument,
    KernelArgument,
    ScalarArgument,
    ShapeArgument,
    TensorArgument,
)
from vendor_reference.executable.executable import KernelTask
from vendor_reference.executable.kernel_signature import BY_VALUE, DeclaredArgument, KernelSignature

_BITS = {
    "bool": 8, "char": 8, "uchar": 8, "short": 16, "ushort": 16, "half": 16, "int": 32, "uint": 32,
    "float": 32, "long": 64, "ulong": 64, "double": 64,
}  # fmt: skip
_FLOATS = ("half", "float", "double")
_HALF_HINT = (
    " If the tensor is float16 in the model, and the kernel needs half, set --reference_fp16=half, or set the "
    "tensor's type in the layer's description."
)
_KNOWN_TYPE = re.compile(rf"({'|'.join(_BITS)})(2|3|4|8|16)?(\*?)")


class Access(Enum):
    """How a kernel gets the value of an argument; the strings are for messages."""

    MEMORY = "a __global or __constant pointer"
    WRITTEN = "a __global pointer without const"
    LOCAL = "a __local pointer"
    VALUE = "an argument by value"


@dataclass(frozen=True, slots=True)
class BoundArgument:
    """Data that a task binds to a kernel argument.

    Attributes:
      what: Description of the data, such as `input 0, tensor<4xi8>`.
      access: How the kernel gets the data.
      element_type: Element type; None for scratch memory, whose type the kernel chooses.
      is_number: Whether the data is a number whose type is given in the layer's description; the kernel then must
        not read the bytes as another type.
      define: Name of the define for the type in C, such as `INPUT0_TYPE`; "" if there is no define.
    """

    what: str
    access: Access
    element_type: ElementType | None = None
    is_number: bool = False
    define: str = ""


def describe_argument(
    argument: KernelArgument,
    inputs: Sequence[RankedTensorType | None],
    outputs: Sequence[RankedTensorType],
) -> BoundArgument:
    """Describes a kernel argument, for checks and messages.

    `inputs` holds the types in which the kernel gets the op's inputs; None for omitted inputs.
    """
    if isinstance(argument, TensorArgument):
        tensor = (outputs if argument.is_output else inputs)[argument.index]
        assert tensor is not None  # the binding is complete already
        define = f"{'OUTPUT' if argument.is_output else 'INPUT'}{argument.index}_TYPE"
        what = f"{argument} of type {tensor}"
        access = Access.WRITTEN if argument.is_output else Access.MEMORY
        return BoundArgument(what, access, tensor.element_type, define=define)
    if isinstance(argument, ShapeArgument):
        kind = "output" if argument.is_output else "input"
        what = f"the shape of {kind} {argument.index}"
        # Another kernel may have written the shape of an output.
        return BoundArgument(what, Access.MEMORY, ElementType.UINT32)
    if isinstance(argument, ScalarArgument):
        what = f"a scalar of type {argument.element_type.name.lower()}"
        return BoundArgument(what, Access.VALUE, argument.element_type, True)
    if isinstance(argument, ConstantArgument):
        what = f"a constant of type {argument.element_type.name.lower()}"
        return BoundArgument(what, Access.MEMORY, argument.element_type, True)
    if isinstance(argument, InternalArgument):
        return BoundArgument("internal memory", Access.WRITTEN)
    return BoundArgument("local memory", Access.LOCAL)


def check_bindings(
    entry: str,
    kernel: KernelSignature,
    task: KernelTask,
    bindings: Sequence[BoundArgument],
    where: str,
) -> list[str]:
    """Checks that the arguments of a built kernel fit its task, which must bind the same number of arguments.

    Returns:
      Sentences about arguments that are legal, but may be mistakes.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a kernel argument does not fit the bound data; the message names the
        argument.
    """
    notes = []
    for index, (argument, binding) in enumerate(zip(kernel.arguments, bindings, strict=True)):
        if not argument.space:
            continue  # the driver does not report the declaration
        declared = (
            f"the code declares argument {index} of kernel '{entry}' as '{argument}', but the layer binds it to "
            f"{binding.what}"
        )
        if not _is_reached(argument, binding.access):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{declared}, which needs {binding.access.value}",
                where,
                "Correct the declaration in the code, or the order of the arguments in the layer's description "
                "(.json). Without a description, the arguments are the op's inputs, then its outputs.",
            )
        mismatch = _find_mismatch(argument, binding)
        if mismatch is not _Mismatch.NONE:
            assert binding.element_type is not None
            c_type = CL_TYPES[binding.element_type]
            what = f"{declared}, whose type in C is {c_type}"
            if mismatch is _Mismatch.ERROR:
                star = "" if binding.access is Access.VALUE else "*"
                names = [f"{name}{star}" for name in (c_type, binding.define) if name]
                hint = f"In the code, declare the argument as {' or '.join(names)}."
                if _is_half_as_float(argument, binding):
                    what = f"{declared}, which the kernel gets as {c_type}"
                    hint += _HALF_HINT
                raise LiteRtError(Status.INVALID_ARGUMENT, what, where, hint)
            notes.append(f"{where}: {what}: the kernel gets the bytes without a conversion.")
    _check_group(entry, kernel, task, where)
    return notes


def _check_group(entry: str, kernel: KernelSignature, task: KernelTask, where: str) -> None:
    items = prod(s for s in task.local_size or () if isinstance(s, int))
    if items > kernel.max_group_size:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"local size {list(task.local_size or ())} of kernel '{entry}' makes work groups of {items} work "
            f"items, but the device supports at most {kernel.max_group_size}",
            where,
            "Choose a smaller local size, or omit the local size.",
        )


class _Mismatch(Enum):
    NONE = 0
    NOTE = 1
    ERROR = 2


def _is_reached(argument: DeclaredArgument, access: Access) -> bool:
    if access is Access.VALUE:
        return argument.space == BY_VALUE
    # An image lies in global memory, but is not a pointer.
    spaces = {Access.LOCAL: ("__local",), Access.WRITTEN: ("__global",)}
    is_space = argument.space in spaces.get(access, ("__global", "__constant"))
    is_writable = access is not Access.WRITTEN or not argument.is_const
    return is_space and is_writable and argument.type_name.endswith("*")


def _is_half_as_float(argument: DeclaredArgument, binding: BoundArgument) -> bool:
    """Returns whether the model's tensor can be float16, and float only for the kernel."""
    is_half = argument.type_name.startswith("half")
    return is_half and binding.element_type is ElementType.FLOAT32 and bool(binding.define)


def _find_mismatch(argument: DeclaredArgument, binding: BoundArgument) -> _Mismatch:
    """Returns how a declared type differs; a type that the source defines itself, or `void`, is accepted."""
    if argument.is_struct and binding.is_number:
        return _Mismatch.ERROR
    found = _KNOWN_TYPE.fullmatch(argument.type_name)
    if binding.element_type is None or found is None:
        return _Mismatch.NONE
    declared, bound = found[1], CL_TYPES[binding.element_type]
    is_float, bits = declared in _FLOATS, _BITS[declared]
    same_kind = is_float == (bound in _FLOATS)
    same_size = bits == _BITS[bound]
    if binding.is_number:
        is_one = bool(found[3]) or not found[2]  # a vector by value has several numbers
        fits = same_kind and same_size and is_one
        return _Mismatch.NONE if fits else _Mismatch.ERROR
    if declared == bound or (same_size and (bound == "half" or declared == "bool")):
        return _Mismatch.NONE  # a half is handled by its bits if there is no fp16
    if binding.element_type is ElementType.BOOL and same_size:
        return _Mismatch.NONE
    return _Mismatch.ERROR if is_float and not same_size else _Mismatch.NOTE
