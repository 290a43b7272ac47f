"""At compile time, describes ops to the libraries of CPU layers, and asks the libraries for shapes.

The libraries run in a child process, so that a crash or hang does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from litert.core.checked_json import JsonNode
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.builtin_options import read_builtin_options
from litert.model.graph import Op, Tensor
from vendor_reference.compiler.shape_rules import alike_input
from vendor_reference.cpu_layer.asking import ask, check_allowed
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.executable.cpu_op import CPU_OP, MAX_RANK, MOST_DIM, CpuOp, CpuOperand

_REFUSALS = (Status.INVALID_ARGUMENT, Status.UNSUPPORTED)


def ask_library(
    layer: CustomLayer, function: str, request: Mapping[str, object]
) -> Iterator[JsonNode]:
    """Sends a request to a layer's library; see `ask`."""
    (library,) = layer.sources
    named = {"op_name": layer.op_name, **request}
    return ask(function, library.data, layer.file_name, where_of(layer), named)


def where_of(layer: CustomLayer) -> str:
    """Returns the description of a layer for messages."""
    return f"{layer.file_name}, op '{layer.op_name}'"


def make_cpu_op(op: Op, shapes: Mapping[Tensor, Sequence[int]]) -> CpuOp:
    """Returns the description of an op for a library; the library chooses the layer for the op.

    `shapes` holds the largest shapes of the op's tensors. For a tensor without such a shape, unknown dimensions
    become 0.
    """
    inputs = tuple(None if tensor is None else _operand(tensor, shapes) for tensor in op.inputs)
    outputs = tuple(_operand(tensor, shapes) for tensor in op.outputs)
    return CpuOp("", op.outputs[0].name, inputs, outputs, _options(op))


def _operand(tensor: Tensor, shapes: Mapping[Tensor, Sequence[int]]) -> CpuOperand:
    shape = shapes.get(tensor) or [max(d, 0) for d in tensor.type.shape]
    tensor_type = RankedTensorType.of(tensor.element_type, tuple(shape))
    producer = tensor.producer
    is_constant = tensor.is_constant or (
        producer is not None and producer.name == "DEQUANTIZE" and not producer.is_custom
        and producer.inputs[0] is not None and producer.inputs[0].is_constant
    )  # fmt: skip
    quantization = tensor.quantization
    if quantization is None or quantization.blockwise or not quantization.scale:
        return CpuOperand(tensor_type, is_constant)
    scales = tuple(float(scale) for scale in quantization.scale)
    zero_points = tuple(int(z) for z in quantization.zero_point) or (0,) * len(scales)
    dimension = quantization.quantized_dimension if len(scales) > 1 else 0
    return CpuOperand(tensor_type, is_constant, scales, zero_points, dimension)


def _options(op: Op) -> bytes:
    """Returns the options of a custom op unchanged, and the options of a builtin op as a FlexBuffer map."""
    if op.is_custom:
        return bytes(op.custom_options) if op.custom_options else b""
    from flatbuffers import flexbuffers  # type: ignore[import-untyped]  # here: it imports NumPy

    return bytes(flexbuffers.Dumps(dict(read_builtin_options(op))))


class CpuLayerShapes:
    """The shapes that libraries of CPU layers return; each library is asked once for each op."""

    def __init__(self, allow_native_assets: bool) -> None:
        """Makes an empty object; `allow_native_assets` says whether libraries may run."""
        self._allow_native_assets = allow_native_assets
        self._known: dict[tuple[str, CpuOp], Sequence[tuple[int, ...] | str]] = {}

    def find(
        self, op: Op, layer: CustomLayer, inputs: Mapping[Tensor, Sequence[int]]
    ) -> Sequence[tuple[int, ...] | str]:
        """Returns the largest shape of each output, or the reason why the shape is unknown.

        `inputs` holds the largest shapes of the op's inputs.

        Raises:
          LiteRtError: INVALID_TOOL_CONFIG, if the user has not allowed the library to run; other statuses, if the
            library crashes or hangs.
        """
        check_allowed(self._allow_native_assets, where_of(layer))
        asked = make_cpu_op(op, {t: inputs[t] for t in op.inputs if t is not None})
        key = (layer.sources[0].digest, asked)
        if key not in self._known:
            self._known[key] = self._ask(op, layer, asked, inputs)
        return self._known[key]

    @staticmethod
    def _ask(
        op: Op, layer: CustomLayer, asked: CpuOp, inputs: Mapping[Tensor, Sequence[int]]
    ) -> Sequence[tuple[int, ...] | str]:
        patterns = [list(tensor.type.shape) for tensor in op.outputs]
        request = {"op": CPU_OP.dump(asked), "outputs": patterns}
        try:
            (answer,) = ask_library(layer, "ask_shapes", request)
        except LiteRtError as error:
            if error.status not in _REFUSALS:
                raise
            return [
                (f"{layer.file_name} cannot compute the shape of the output: {error.what}")
            ] * len(op.outputs)
        if answer.value is None:
            return [_alike(op, layer, index, inputs) for index in range(len(op.outputs))]
        return [
            tuple(n.integer(0, MOST_DIM) for n in shape.items(0, MAX_RANK))
            for shape in answer.items(len(op.outputs), len(op.outputs))
        ]


def _alike(
    op: Op, layer: CustomLayer, index: int, inputs: Mapping[Tensor, Sequence[int]]
) -> tuple[int, ...] | str:
    same = alike_input(op, index)
    tensor = op.inputs[same.input] if same is not None else None
    if tensor is None:
        return f"{layer.file_name} has no get_output_shapes, and the output's shape is not the shape of an input"
    return tuple(inputs[tensor])
