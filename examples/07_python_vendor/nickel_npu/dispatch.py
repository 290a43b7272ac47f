"""Nickel's dispatch table, whose NPU multiplies and subtracts with NumPy.

The asset of op Gain is a text file with a number. The docstrings in `dispatch/api.py` of litert-npu are the rules
for each function, and list the order of calls. Methods that a table does not override have defaults for buffers in
host memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dispatch.api import Dispatch, ExecutableType, HostInvocationContext, MemBuffer
from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from nickel_npu.byte_code import read_byte_code

COMPUTE: Mapping[str, Callable[..., object]] = {
    "MUL": np.multiply,
    "SUB": np.subtract,
    "Gain": np.multiply,
}
"""YOUR OPS: the function for each op, called with the op's inputs; Gain also gets the number in its asset."""


@dataclass
class NickelDevice:
    """YOUR DEVICE: the state of the device for one loaded model."""

    assets: dict[str, MemBuffer] = field(default_factory=dict)


@dataclass
class NickelCall(HostInvocationContext):
    """One function of the byte code, ready to run."""

    op: str = ""
    operands: Sequence[int] = ()
    gain: float | None = None


class NickelDispatch(Dispatch[NickelDevice, NickelCall]):
    """Nickel's dispatch table."""

    vendor_id = "Nickel"
    build_id = "1.0"

    def device_context_create(self, options: Mapping[str, str]) -> NickelDevice:
        return NickelDevice()

    def register_asset(
        self, device_context: NickelDevice, asset_name: str, asset_buffer: MemBuffer
    ) -> None:
        device_context.assets[asset_name] = (
            asset_buffer  # valid until the device context is destroyed
        )

    def invocation_context_create(
        self,
        device_context: NickelDevice,
        executable_type: ExecutableType,
        byte_code: MemBuffer,
        function_name: str,
        num_inputs: int,
        num_outputs: int,
    ) -> NickelCall:
        functions = read_byte_code(byte_code.view)
        function = functions.get(function_name)
        if function is None:
            raise LiteRtError(
                Status.NOT_FOUND,
                f"the byte code has no function '{function_name}', only {', '.join(functions)}",
            )
        if (num_inputs, num_outputs) != (function.num_inputs, 1):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the call has {count_text(num_inputs, 'input')} and {count_text(num_outputs, 'output')}, "
                f"but the function has {count_text(function.num_inputs, 'input')} and 1 output",
            )
        gain = _read_gain(device_context) if function.op == "Gain" else None
        inputs, outputs = [None] * num_inputs, [None] * num_outputs
        return NickelCall(
            device_context,
            byte_code,
            function_name,
            inputs,
            outputs,
            op=function.op,
            operands=function.operands,
            gain=gain,
        )

    def invoke(self, invocation_context: NickelCall) -> None:
        """YOUR RUN: computes the call's op on arrays that are views of the attached buffers."""
        call = invocation_context
        if any(array is None for array in (*call.inputs, *call.outputs)):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"an input or output of the call of function '{call.function_name}' has no buffer",
            )
        operands = [call.inputs[index] for index in call.operands]
        if call.gain is not None:
            operands.append(np.float32(call.gain))
        COMPUTE[call.op](*operands, out=call.outputs[0])


def _read_gain(device: NickelDevice) -> float:
    """YOUR ASSETS: returns the number in Gain's asset."""
    if "Gain" not in device.assets:
        raise LiteRtError(
            Status.NOT_FOUND,
            "the compiled file contains no asset for op Gain",
            hint="Compile the model again, with --npu_custom_op_info=Gain,FILE.",
        )
    try:
        gain = float(bytes(device.assets["Gain"].view))
    except ValueError:
        gain = math.nan
    if not math.isfinite(gain):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            "the asset of op Gain is not a number",
            hint="Write a number into the asset's file, and compile the model again.",
        )
    return gain


DISPATCH = NickelDispatch()
