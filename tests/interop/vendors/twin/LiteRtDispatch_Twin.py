"""Twin's driver: an op adds the number in its asset; the driver refuses byte code of other vendors."""

from __future__ import annotations

from collections.abc import Mapping

from dispatch.api import Dispatch, HostInvocationContext
from dispatch.mem_buffer import MemBuffer


class TwinDispatch(Dispatch[dict[str, float], HostInvocationContext]):
    """Twin's dispatch table; a device context maps each op to its number."""

    vendor_id = "Twin"

    def device_context_create(self, options: Mapping[str, str]) -> dict[str, float]:
        return {}

    def register_asset(
        self, device_context: dict[str, float], asset_name: str, asset_buffer: MemBuffer
    ) -> None:
        device_context[asset_name] = float(bytes(asset_buffer.view))

    def invoke(self, invocation_context: HostInvocationContext) -> None:
        vendor, op_name = bytes(invocation_context.byte_code.view).decode().split()
        assert vendor == "twin"
        number = invocation_context.device_context[op_name]
        invocation_context.outputs[0][...] = invocation_context.inputs[0] + number


DISPATCH = TwinDispatch()
