"""Acme's driver: each op multiplies its input by the number `gain` in the op's asset."""

from __future__ import annotations

import json
from collections.abc import Mapping

from dispatch.api import Dispatch, ExecutableType, HostInvocationContext
from dispatch.mem_buffer import MemBuffer
from litert.core.errors import LiteRtError
from litert.core.status import Status


class AcmeDispatch(Dispatch[dict[str, MemBuffer], HostInvocationContext]):
    """Acme's dispatch table, in which a device context is a dictionary of the ops' assets."""

    vendor_id = "Acme"

    def device_context_create(self, options: Mapping[str, str]) -> dict[str, MemBuffer]:
        return {}

    def register_asset(
        self, device_context: dict[str, MemBuffer], asset_name: str, asset_buffer: MemBuffer
    ) -> None:
        device_context[asset_name] = asset_buffer  # valid until the device context is destroyed

    def invocation_context_create(
        self,
        device_context: dict[str, MemBuffer],
        executable_type: ExecutableType,
        byte_code: MemBuffer,
        function_name: str,
        num_inputs: int,
        num_outputs: int,
    ) -> HostInvocationContext:
        if function_name not in read_functions(byte_code) or (num_inputs, num_outputs) != (1, 1):
            raise LiteRtError(
                Status.NOT_FOUND,
                f"the byte code has no function '{function_name}' with one input and one output",
            )
        return super().invocation_context_create(
            device_context, executable_type, byte_code, function_name, num_inputs, num_outputs
        )

    def invoke(self, invocation_context: HostInvocationContext) -> None:
        op = read_functions(invocation_context.byte_code)[invocation_context.function_name]
        gain = json.loads(bytes(invocation_context.device_context[op].view))["gain"]
        invocation_context.outputs[0][...] = gain * invocation_context.inputs[0]


def read_functions(byte_code: MemBuffer) -> Mapping[str, str]:
    """Returns the name of each function's custom op, by the function's name.

    Raises:
      LiteRtError: INCOMPATIBLE_BYTE_CODE_VERSION, for bytes that Acme's compiler did not write.
    """
    try:
        functions: Mapping[str, str] = json.loads(bytes(byte_code.view))
    except ValueError as error:
        raise LiteRtError(
            Status.INCOMPATIBLE_BYTE_CODE_VERSION,
            f"the byte code was not written by Acme's compiler, because it is not JSON: {error}",
            hint="Compile the model again, for Acme.",
        ) from error
    return functions


DISPATCH = AcmeDispatch()
