"""Acme's driver: each op multiplies by the `gain` that its asset has. What is not overridden has a default."""

from __future__ import annotations

import json
from collections.abc import Mapping

from dispatch.api import Dispatch, HostInvocationContext
from dispatch.mem_buffer import MemBuffer


class AcmeDispatch(Dispatch[dict[str, float], HostInvocationContext]):
    """Acme's dispatch table. A device context is the gain of each op."""

    vendor_id = "Acme"

    def device_context_create(self, options: Mapping[str, str]) -> dict[str, float]:
        return {}

    def register_asset(
        self, device_context: dict[str, float], asset_name: str, asset_buffer: MemBuffer
    ) -> None:
        device_context[asset_name] = json.loads(bytes(asset_buffer.view))["gain"]

    def invoke(self, invocation_context: HostInvocationContext) -> None:
        functions = json.loads(bytes(invocation_context.byte_code.view))
        gain = invocation_context.device_context[functions[invocation_context.function_name]]
        invocation_context.outputs[0][...] = gain * invocation_context.inputs[0]


DISPATCH = AcmeDispatch()
