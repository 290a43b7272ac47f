"""CPU layers for the ops of partitions; libraries are asked in a child process, where they may crash or hang."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from litert.core.checked_json import JsonNode
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.host.child import call_in_child
from litert.model.builtin_options import read_builtin_options
from litert.model.graph import Op, Subgraph, Tensor
from vendor_reference.compiler.kernel_spec import CpuKernel
from vendor_reference.compiler.overriding import find_layer
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerType
from vendor_reference.executable.cpu_op import CpuOp, CpuOperand
from vendor_reference.executable.cpu_op_json import dump_op, parse_config

ASK_TIMEOUT_S = 60.0
"""For all that a library is asked; a good one needs milliseconds."""

_CHILD = "vendor_reference.cpu_layer.worker:ask"
_HINT = "Its functions are called while a model is compiled, see litert_npu/cpu_layer.h."


@dataclass(frozen=True, slots=True)
class CpuLayers:
    """What libraries have for the ops of partitions.

    Attributes:
      kernels: for each op of a CPU layer.
      notes: sentences for the report: what was chosen.
    """

    kernels: Mapping[Op, CpuKernel]
    notes: Sequence[str]


def choose_cpu_layers(
    partitions: Sequence[Subgraph], layers: Mapping[str, CustomLayer], allow_native_assets: bool
) -> CpuLayers:
    """Chooses an implementation and configuration for each op of a CPU layer.

    Args:
      partitions: of static shapes.
      layers: by the ops' names.
      allow_native_assets: whether libraries may run.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if they may not; UNSUPPORTED, for an op that its library cannot do; others
        with file and reason, also where it crashes or hangs.
    """
    ops: dict[str, list[Op]] = {}
    for partition in partitions:
        for op in partition.ops:
            layer = find_layer(op, layers)
            if layer is not None and layer.type is LayerType.CPP:
                ops.setdefault(op.name, []).append(op)
    kernels: dict[Op, CpuKernel] = {}
    notes: list[str] = []
    for name, asked in ops.items():
        if not allow_native_assets:
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                "a shared object is machine code, which may not run here",
                f"{layers[name].file_name}, op '{name}'",
                "If you trust it, allow it with --allow_native_assets, here and where the model runs.",
            )
        kernels.update(_ask(layers[name], asked, notes))
    return CpuLayers(kernels, list(dict.fromkeys(notes)))


def _ask(layer: CustomLayer, ops: Sequence[Op], notes: list[str]) -> Mapping[Op, CpuKernel]:
    asked = [_cpu_op(op) for op in ops]
    places = {op: index for index, op in enumerate(ops)}
    answers: list[JsonNode] = []
    (library,) = layer.sources
    with tempfile.NamedTemporaryFile(prefix="litert-npu-", suffix=".so") as file:
        file.write(library.data)
        file.flush()
        request = {
            "path": file.name,
            "sha256": library.digest,
            "file_name": layer.file_name,
            "op_name": layer.op_name,
            "ops": [dump_op(op) for op in asked],
            "producers": [list(_producers(op, places)) for op in ops],
        }
        subject = f"the library of CPU layers in {layer.file_name}"
        try:
            for answer in call_in_child(_CHILD, request, timeout_s=ASK_TIMEOUT_S, subject=subject):
                answers.append(JsonNode(answer, "$", _CHILD, Status.RUNTIME_FAILURE))
        except LiteRtError as error:
            if error.where != _CHILD:
                raise
            where = f"{layer.file_name}, op '{layer.op_name}'"
            raise LiteRtError(error.status, error.what, where, _HINT) from error
    about = answers[0].fields(("library", "layer_types", "layer_type"))
    layer_type = about["layer_type"].text()
    found: dict[Op, CpuKernel] = {}
    for op, cpu_op, answer in zip(ops, asked, answers[1:], strict=True):
        fields = answer.fields(("implementation", "name", "config", "reorders"))
        named = CpuOp(layer_type, cpu_op.name, cpu_op.inputs, cpu_op.outputs, cpu_op.options)
        found[op] = CpuKernel(
            named,
            fields["implementation"].integer(0, 2**31 - 1),
            parse_config(fields["config"], named),
        )
        reorders = fields["reorders"].integer(0, len(op.inputs) + len(op.outputs))
        cost = f", with {reorders} of its tensors reordered" if reorders else ""
        notes.append(
            f"{op.name} runs as machine code on the host: '{fields['name'].text()}' of "
            f"{about['library'].text()}{cost}"
        )
    return found


def _cpu_op(op: Op) -> CpuOp:
    """What a library is told of an op; it says itself which of its layers that is."""
    inputs = tuple(None if tensor is None else _operand(tensor) for tensor in op.inputs)
    outputs = tuple(_operand(tensor) for tensor in op.outputs)
    return CpuOp("", op.outputs[0].name, inputs, outputs, _options(op))


def _operand(tensor: Tensor) -> CpuOperand:
    tensor_type = RankedTensorType.of(tensor.element_type, tensor.shape)
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
    """A custom op's options as they are; those of a builtin op as a FlexBuffer map of the schema's names."""
    if op.is_custom:
        return bytes(op.custom_options) if op.custom_options else b""
    from flatbuffers import flexbuffers  # type: ignore[import-untyped]  # here: it imports NumPy

    return bytes(flexbuffers.Dumps(dict(read_builtin_options(op))))


def _producers(op: Op, places: Mapping[Op, int]) -> Iterator[Sequence[int] | None]:
    """For each input the op before, of the same library, and which of its outputs it is."""
    for tensor in op.inputs:
        producer = tensor.producer if tensor is not None else None
        if tensor is None or producer is None or producer not in places:
            yield None
        else:
            yield [places[producer], list(producer.outputs).index(tensor)]
