"""Small executables, and helpers to build and run them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dispatch.mem_buffer import MemBuffer
from dispatch.tensor_buffer import TensorBuffer
from litert.core.element_type import ElementType
from litert.core.sizes import Size
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from vendor_reference.executable.byte_code import write_executable
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    Constant,
    Dequantization,
    Executable,
    Function,
    KernelTask,
    Program,
    Source,
)
from vendor_reference.executable.kernel_signature import DeclaredArgument, KernelSignature

DOUBLE = """
__kernel void MyOp(__global const float* x, __global float* y) {
    const int i = get_global_id(0);
    y[i] = 2.0f * x[i];
}
"""

Array = np.ndarray[Any, np.dtype[Any]]


def floats(*shape: int) -> RankedTensorType:
    return RankedTensorType.of(ElementType.FLOAT32, shape)


def source(text: str | bytes, asset: str = "MyOp", file_name: str = "") -> Source:
    data = text.encode() if isinstance(text, str) else text
    return Source(asset, file_name or f"{asset}.cl", hashlib.sha256(data).hexdigest())


def in_(index: int = 0) -> Argument:
    return Argument(ArgumentKind.INPUT, index)


def out(index: int = 0) -> Argument:
    return Argument(ArgumentKind.OUTPUT, index)


def const(index: int) -> Argument:
    return Argument(ArgumentKind.CONSTANT, index)


def ddr(offset: int, size_bytes: int) -> Argument:
    return Argument(ArgumentKind.DDR, offset=offset, size_bytes=size_bytes)


def cmx(offset: int, size_bytes: int) -> Argument:
    return Argument(ArgumentKind.CMX, offset=offset, size_bytes=size_bytes)


def local(size_bytes: int) -> Argument:
    return Argument(ArgumentKind.LOCAL, size_bytes=size_bytes)


def scalar(data: bytes) -> Argument:
    return Argument(ArgumentKind.SCALAR, scalar=data)


def shape(index: int) -> Argument:
    return Argument(ArgumentKind.SHAPE, index)


def task(
    entry: str,
    arguments: Sequence[Argument],
    global_size: Sequence[Size],
    local_size: Sequence[Size] | None = None,
    program: int = 0,
    num_shaves: int = 0,
) -> KernelTask:
    return KernelTask("MyOp", program, entry, arguments, global_size, local_size, num_shaves)


def constant(array: Array, dequantization: Dequantization | None = None) -> Constant:
    tensor_type = RankedTensorType.of(ElementType.from_numpy(array.dtype), array.shape)
    return Constant(tensor_type, Blob(array.tobytes()), dequantization)


def executable(
    text: str,
    tasks: Sequence[KernelTask],
    inputs: Sequence[RankedTensorType],
    outputs: Sequence[RankedTensorType],
    constants: Sequence[Constant] = (),
    ddr_size: int = 0,
    options: str = "",
    cmx_size: int = 0,
) -> Executable:
    """Returns an executable with one function `f`, whose tasks use kernels of one source, the asset `MyOp`."""
    function = Function("f", inputs, outputs, tasks, ddr_size, cmx_size)
    return Executable("EMU8", [function], [Program("", [source(text)], options)], constants)


def doubling(size: int = 4, text: str = DOUBLE) -> Executable:
    """Returns an executable that computes `y = 2 * x` for `size` floats."""
    return executable(text, [task("MyOp", [in_(), out()], [size])], [floats(size)], [floats(size)])


def signature(
    *arguments: tuple[str, str, str] | tuple[str, str, str, bool], max_group_size: int = 64
) -> KernelSignature:
    """Returns a kernel's signature; an argument has a space, a type, a name, and whether its data are `const`."""
    return KernelSignature(tuple(DeclaredArgument(*a) for a in arguments), max_group_size)


def undeclared(num_arguments: int) -> KernelSignature:
    """Returns a kernel's signature from a driver that gives no information about arguments."""
    return signature(*[("", "", "")] * num_arguments)


def byte_code(made: Executable) -> MemBuffer:
    """Returns the byte code as the host passes it: in memory with the alignment that it has in a file."""
    data = bytes(write_executable(made).view)
    memory = TensorBuffer.allocate(RankedTensorType.of(ElementType.UINT8, (len(data),)))
    memory.view[:] = data
    _kept.append(memory)
    return MemBuffer.from_memory(memory.view)


def assets(**texts: str | bytes) -> Mapping[str, MemBuffer]:
    """Returns assets in memory buffers, by name."""
    return {
        name: MemBuffer.from_memory(text.encode() if isinstance(text, str) else text)
        for name, text in texts.items()
    }


_kept: list[object] = []
