"""Dispatch tables in Python for the byte code of `plugin.c`; they multiply tensors, and most break one rule."""

from __future__ import annotations

import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dispatch.api import (
    AsyncInterface,
    BufferHandlers,
    Capability,
    Dispatch,
    Event,
    HostInvocationContext,
    LockMode,
    TensorBufferRequirements,
)
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType

_MAGIC = 0x314B5242
_FUNCTION = struct.Struct("24sIII")


class Table(Dispatch[object, HostInvocationContext]):
    """Multiplies without breaking a rule."""

    vendor_id = "Broken"

    def device_context_create(self, options: Mapping[str, str]) -> object:
        return object()

    def register_asset(self, device_context: object, asset_name: str, asset_buffer: Any) -> None:
        """Ignores the asset, because this table does not support Gain."""

    def invocation_context_create(
        self,
        device_context: object,
        executable_type: Any,
        byte_code: Any,
        function_name: str,
        num_inputs: int,
        num_outputs: int,
    ) -> HostInvocationContext:
        if read_functions(byte_code.view).get(function_name) != num_inputs or num_outputs != 1:
            raise LiteRtError(Status.NOT_FOUND, "no such function", function_name)
        return super().invocation_context_create(
            device_context, executable_type, byte_code, function_name, num_inputs, num_outputs
        )

    def invoke(self, invocation_context: HostInvocationContext) -> None:
        inputs, outputs = invocation_context.inputs, invocation_context.outputs
        np.multiply(inputs[0], inputs[-1], out=outputs[0])


class NothingWritten(Table):
    """Computes the results, but does not write them to the outputs."""

    def invoke(self, invocation_context: HostInvocationContext) -> None:
        np.multiply(invocation_context.inputs[0], invocation_context.inputs[-1])


class Asleep(Table):
    """Reports an error with a reason in each run."""

    def invoke(self, invocation_context: HostInvocationContext) -> None:
        raise LiteRtError(Status.TIMEOUT_EXPIRED, "the NPU sleeps")


class OneScratch(Table):
    """Computes the results in an array that all contexts share, so that parallel runs overwrite each other."""

    scratch: Any = None

    def invoke(self, invocation_context: HostInvocationContext) -> None:
        OneScratch.scratch = invocation_context.inputs[0] * invocation_context.inputs[-1]
        threading.Event().wait(0.01)
        invocation_context.outputs[0][...] = OneScratch.scratch


class _Memories(BufferHandlers[Any]):
    """Memory of the vendor's own kind.

    Attributes:
      breaks: `shared`, if all buffers use the same memory; `forgets`, if `unlock` clears the memory; `early`, if
        `destroy` fails because the device is already closed; "" to break no rule.
    """

    supported_types = (123,)

    def __init__(self, breaks: str = "") -> None:
        self.breaks = breaks
        self._one = np.zeros(1 << 16, np.uint8)

    def create(self, tensor_type: RankedTensorType, buffer_type: int, size: int) -> Any:
        return self._one if self.breaks == "shared" else np.zeros(size, np.uint8)

    def destroy(self, memory: Any) -> None:
        if self.breaks == "early":
            raise LiteRtError(Status.RUNTIME_FAILURE, "the device is closed")

    def lock(self, memory: Any, mode: LockMode) -> int:
        return int(memory.ctypes.data)

    def unlock(self, memory: Any) -> None:
        if self.breaks == "forgets":
            memory[:] = 0


class OwnMemory(Table):
    """Uses only memory of the vendor's own kind, which breaks the rule that `breaks` names, if any."""

    def __init__(self, breaks: str = "") -> None:
        self.buffer_handlers = _Memories(breaks)

    def get_input_requirements(
        self, invocation_context: Any, input_index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        return TensorBufferRequirements(tensor_type.size_bytes, _Memories.supported_types)

    def get_output_requirements(
        self, invocation_context: Any, output_index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        return self.get_input_requirements(invocation_context, output_index, tensor_type)

    def attach_input(
        self, invocation_context: HostInvocationContext, index: int, handle: Any
    ) -> None:
        invocation_context.inputs[index] = self._look(handle)
        invocation_context.attached["input", index] = handle

    def attach_output(
        self, invocation_context: HostInvocationContext, index: int, handle: Any
    ) -> None:
        invocation_context.outputs[index] = self._look(handle)
        invocation_context.attached["output", index] = handle

    def _look(self, buffer: Any) -> Any:
        count = buffer.tensor_type.num_elements
        if buffer.memory.nbytes < 4 * count:
            raise LiteRtError(Status.INVALID_ARGUMENT, "the memory is too small")
        return buffer.memory[: 4 * count].view(np.float32).reshape(buffer.tensor_type.shape)


class _Later(AsyncInterface[HostInvocationContext]):
    """Runs the call in a thread, which signals the event after the run, or before the run if `is_early`."""

    def __init__(self, table: Table, *, is_early: bool) -> None:
        self._table = table
        self._is_early = is_early

    def attach_input_event(self, context: HostInvocationContext, index: int, event: Event) -> None:
        event.wait()

    def invoke_async(self, context: HostInvocationContext) -> Sequence[Event]:
        event = Event()

        def run() -> None:
            if self._is_early:
                event.signal()
            threading.Event().wait(0.05)
            if context.outputs[0] is not None:  # the host may have detached it
                self._table.invoke(context)
            if not self._is_early:
                event.signal()

        threading.Thread(target=run).start()
        return [event]


class Asynchronous(Table):
    """Runs asynchronously without breaking a rule."""

    capabilities = Capability.BASIC | Capability.ASYNC
    async_interface = _Later(Table(), is_early=False)


class EarlyEvent(Asynchronous):
    """Signals the event before it writes the outputs."""

    async_interface = _Later(Table(), is_early=True)


def read_functions(byte_code: memoryview) -> dict[str, int]:
    """Returns the number of inputs of each function, by the function's name.

    Raises:
      LiteRtError: INCOMPATIBLE_BYTE_CODE_VERSION, if the bytes are not byte code of `plugin.c`.
    """
    size = 8 + 64 * _FUNCTION.size
    if len(byte_code) != size or struct.unpack_from("<I", byte_code)[0] != _MAGIC:
        raise LiteRtError(Status.INCOMPATIBLE_BYTE_CODE_VERSION, "no byte code of the vendor's")
    number = struct.unpack_from("<I", byte_code, 4)[0]
    functions = [_FUNCTION.unpack_from(byte_code, 8 + i * _FUNCTION.size) for i in range(number)]
    return {name.rstrip(b"\0").decode(): inputs for name, _, inputs, _ in functions}


TABLE = Table()
ASLEEP = Asleep()
NOTHING_WRITTEN = NothingWritten()
ONE_SCRATCH = OneScratch()
ASYNCHRONOUS = Asynchronous()
EARLY_EVENT = EarlyEvent()
OWN_MEMORY = OwnMemory()
SHARED_MEMORY = OwnMemory("shared")
FORGETFUL_MEMORY = OwnMemory("forgets")
MEMORY_OF_THE_DEVICE = OwnMemory("early")
