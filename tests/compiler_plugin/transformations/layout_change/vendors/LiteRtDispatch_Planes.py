"""The dispatch library of Planes: runs stock LiteRT, with TRANSPOSE around ops that TFLite has only in NHWC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ai_edge_litert.interpreter import Interpreter, OpResolverType

from dispatch.api import Dispatch, ExecutableType, MemBuffer
from dispatch.tensor_buffer import TensorBuffer
from litert.model.reader import read_model
from litert.model.writer import to_bytes
from tests.compiler_plugin.transformations.layout_change.stock_form import to_stock_form


class Call:
    """An invocation context."""

    def __init__(self, byte_code: MemBuffer, num_inputs: int, num_outputs: int) -> None:
        model = read_model(bytes(byte_code.view))
        to_stock_form(model)
        self.interpreter: Any = Interpreter(
            model_content=to_bytes(model),
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        self.interpreter.allocate_tensors()
        self.inputs: list[Any] = [None] * num_inputs
        self.outputs: list[Any] = [None] * num_outputs


class PlanesDispatch(Dispatch[str, Call]):
    vendor_id = "Planes"

    def device_context_create(self, options: Mapping[str, str]) -> str:
        return "open"

    def register_asset(self, context: str, asset_name: str, asset_buffer: MemBuffer) -> None:
        raise AssertionError("it takes no custom ops")

    def invocation_context_create(
        self,
        device_context: str,
        executable_type: ExecutableType,
        byte_code: MemBuffer,
        function_name: str,
        num_inputs: int,
        num_outputs: int,
    ) -> Call:
        return Call(byte_code, num_inputs, num_outputs)

    def register_tensor_buffer(self, context: str, tensor_buffer: TensorBuffer) -> TensorBuffer:
        return tensor_buffer

    def attach_input(self, call: Call, index: int, handle: TensorBuffer) -> None:
        call.inputs[index] = handle

    def attach_output(self, call: Call, index: int, handle: TensorBuffer) -> None:
        call.outputs[index] = handle

    def detach_input(self, call: Call, index: int, handle: TensorBuffer) -> None:
        call.inputs[index] = None

    def detach_output(self, call: Call, index: int, handle: TensorBuffer) -> None:
        call.outputs[index] = None

    def invoke(self, call: Call) -> None:
        interpreter = call.interpreter
        for detail, buffer in zip(interpreter.get_input_details(), call.inputs, strict=True):
            interpreter.set_tensor(detail["index"], buffer.array())
        interpreter.invoke()
        for detail, buffer in zip(interpreter.get_output_details(), call.outputs, strict=True):
            buffer.array()[...] = interpreter.get_tensor(detail["index"])


DISPATCH = PlanesDispatch()
