"""Calls functions of the host's runtime context, and reads arguments that the host passes to an exported table."""

from __future__ import annotations

from functools import cache
from typing import Any

from dispatch.native.exported.memory_functions import MemoryFunctions
from dispatch.tensor_buffer import BufferType, TensorBuffer, TensorBufferRequirements
from litert.abi.definitions import ffi
from litert.abi.handles import address_of
from litert.abi.status_codes import check
from litert.abi.tensor_types import from_c
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status

_COMPILER_PLUGIN_DIR, _DISPATCH_DIR, _RUNTIME_DIR = 0, 1, 22  # LiteRtEnvOptionTag
_STRING = 8  # LiteRtAnyType


class Host:
    """Calls functions of the host's runtime context; handles are passed as numbers."""

    __slots__ = ("_context", "_size")

    def __init__(self, context: Any) -> None:
        """Stores a `LiteRtRuntimeContext*`, which must stay valid as long as the process."""
        if not context:
            raise LiteRtError(
                Status.INVALID_ARGUMENT, "the host passed NULL as the runtime context"
            )
        self._context = context
        self._size = int(context.abi_header.struct_size)

    def call(self, slot: str, *arguments: Any) -> None:
        """Calls a function of the host; arguments are cffi values, and handles are numbers.

        Raises:
          LiteRtError: UNSUPPORTED, if the host lacks the function; otherwise the error status that the function
            returns.
        """
        offset, types = _signature(slot)
        function = getattr(self._context, slot) if offset < self._size else None
        if not function:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"the host's LiteRT does not offer the function {slot} to dispatch libraries",
            )
        given = (
            ffi.cast(kind, value) if isinstance(value, int) and kind.kind == "pointer" else value
            for kind, value in zip(types, arguments, strict=True)
        )
        check(function(*given) or 0, f"the host's {slot} failed")

    def wrap_buffer(self, handle: int, memory: MemoryFunctions | None) -> TensorBuffer:
        """Returns a tensor buffer of the host, by handle; the host must keep the buffer while it is used.

        Args:
          handle: Handle of the host's tensor buffer.
          memory: Functions for the vendor's device memory; None if the vendor has no device memory.

        Raises:
          LiteRtError: UNSUPPORTED, if the buffer is neither in host memory nor in the vendor's memory;
            INVALID_ARGUMENT, if the buffer is smaller than its tensor.
        """
        kind = int(self._ask("LiteRtTensorBufferType", "get_tensor_buffer_type", handle)[0])
        own = memory if memory is not None and kind in memory.types else None
        if kind != BufferType.HOST_MEMORY and own is None:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"the tensor buffer has memory type {kind}, but the vendor supports only host memory "
                f"(type {int(BufferType.HOST_MEMORY)}) and its own memory",
                hint="Let the runtime allocate buffers from the buffer requirements.",
            )
        c_type = self._ask("LiteRtRankedTensorType", "get_tensor_buffer_tensor_type", handle)
        size = int(self._ask("size_t", "get_tensor_buffer_size", handle)[0])
        offset = int(self._ask("size_t", "get_tensor_buffer_offset", handle)[0])
        tensor_type = from_c(c_type)
        if own is not None:
            known = self._ask("void*", "get_tensor_buffer_custom_tensor_buffer_handle", handle)
            return own.buffer(tensor_type, kind, size, known[0])
        address = self._ask("void*", "get_tensor_buffer_host_memory", handle)
        bytes_there = size - offset
        if tensor_type.layout.is_static and bytes_there < tensor_type.size_bytes:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the tensor buffer has {bytes_there} bytes, but {tensor_type} needs "
                f"{tensor_type.size_bytes} bytes",
            )
        return TensorBuffer(tensor_type, address_of(address[0]) + offset, bytes_there)

    def create_requirements(
        self,
        requirements: TensorBufferRequirements,
        memory: MemoryFunctions | None,
        out: Any,
    ) -> None:
        """Creates the host's object for a vendor's buffer requirements, and writes its handle to `out`."""
        there = (BufferType.HOST_MEMORY, *(memory.types if memory is not None else ()))
        types = [kind for kind in requirements.supported_types if kind in there]
        if BufferType.HOST_MEMORY in types:
            types = [BufferType.HOST_MEMORY]  # stock's host takes the first
        if not types:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"the vendor supports only the buffer types {list(requirements.supported_types)}, "
                "but the host can only pass host memory and memory of the vendor's own handlers",
            )
        strides = list(requirements.strides)
        self.call(
            "create_tensor_buffer_requirements",
            len(types),
            ffi.new("LiteRtTensorBufferType[]", [int(kind) for kind in types]),
            requirements.size,
            len(strides),
            ffi.new("uint32_t[]", strides) if strides else ffi.NULL,
            ffi.cast("LiteRtTensorBufferRequirements*", out),
        )

    def read_environment(self, environment: int) -> EnvironmentOptions:
        """Returns the options of an environment; if its handle is NULL, returns default options."""
        if not environment:
            return EnvironmentOptions()
        options = self._ask("LiteRtEnvironmentOptions", "get_environment_options", environment)
        return self.read_environment_options(address_of(options[0]))

    def read_environment_options(self, options: int) -> EnvironmentOptions:
        """Returns the environment options to which a handle refers; for NULL, returns the default options."""
        if not options:
            return EnvironmentOptions()
        return EnvironmentOptions(
            self._text_option(options, _RUNTIME_DIR) or None,
            self._text_option(options, _COMPILER_PLUGIN_DIR),
            self._text_option(options, _DISPATCH_DIR),
        )

    def read_payload(self, options: int, identifier: str) -> str:
        """Returns the C string of an identifier in the opaque options of a model or run; "" if there is none."""
        if not options:
            return ""
        opaque, payload = ffi.new("LiteRtOpaqueOptions*"), ffi.new("void**")
        name = ffi.new("char[]", identifier.encode())
        if self._finds("get_opaque_options", options, opaque) and opaque[0]:
            self._finds("find_opaque_options_data", opaque[0], name, payload)
        return _text(ffi.cast("const char*", payload[0]))

    def _text_option(self, options: int, tag: int) -> str:
        value = ffi.new("LiteRtAny*")
        is_there = self._finds("get_environment_options_value", options, tag, value)
        return _text(value.str_value) if is_there and value.type == _STRING else ""

    def _ask(self, c_type: str, slot: str, handle: int) -> Any:
        """Calls a getter of the host with a handle, and returns a pointer to the result."""
        answer = ffi.new(f"{c_type}*")
        self.call(slot, handle, answer)
        return answer

    def _finds(self, slot: str, *arguments: Any) -> bool:
        """Calls a function of the host that may have no result; returns whether it has a result."""
        try:
            self.call(slot, *arguments)
        except LiteRtError as error:
            if error.status not in (Status.NOT_FOUND, Status.UNSUPPORTED):
                raise
            return False
        return True


def _text(pointer: Any) -> str:
    return str(ffi.string(pointer), "utf-8", "surrogateescape") if pointer else ""


@cache
def _signature(slot: str) -> tuple[int, tuple[Any, ...]]:
    table = ffi.typeof("LiteRtRuntimeContext")
    return ffi.offsetof(table, slot), dict(table.fields)[slot].type.args


def need(pointer: Any, what: str = "the pointer to memory for the result") -> Any:
    """Returns a pointer that must not be NULL; the error for NULL calls the pointer `what`."""
    if not pointer:
        raise LiteRtError(Status.INVALID_ARGUMENT, f"the host passed NULL as {what}")
    return pointer


def read_text(pointer: Any, what: str) -> str:
    """Converts a C string to a str; the error for NULL calls the string `what`."""
    return _text(need(pointer, what))
