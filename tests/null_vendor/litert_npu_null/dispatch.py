"""Null's driver: a run copies input 0 to output 0. The other methods have defaults for buffers in host memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dispatch.api import Dispatch, ExecutableType, HostInvocationContext, MemBuffer
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert_npu_null.byte_code import read_byte_code


@dataclass
class NullContext:
    """The state of Null's device for one loaded model."""

    assets: dict[str, MemBuffer] = field(default_factory=dict)


class NullDispatch(Dispatch[NullContext, HostInvocationContext]):
    """Null's dispatch table."""

    vendor_id = "Null"
    build_id = "0.1.0"

    def device_context_create(self, options: Mapping[str, str]) -> NullContext:
        return NullContext()

    def register_asset(self, context: NullContext, name: str, buffer: MemBuffer) -> None:
        context.assets[name] = buffer  # fd, offset, size, view; valid as long as the context

    def invocation_context_create(
        self,
        device_context: NullContext,
        executable_type: ExecutableType,
        byte_code: MemBuffer,
        function_name: str,
        num_inputs: int,
        num_outputs: int,
    ) -> HostInvocationContext:
        functions = read_byte_code(byte_code.view)
        if function_name not in functions:
            raise LiteRtError(
                Status.NOT_FOUND, f"the byte code has only {', '.join(functions)}", function_name
            )
        return super().invocation_context_create(
            device_context, executable_type, byte_code, function_name, num_inputs, num_outputs
        )

    def invoke(self, call: HostInvocationContext) -> None:
        call.outputs[0][...] = call.inputs[0]


DISPATCH = NullDispatch()
