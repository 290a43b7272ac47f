"""Checks and reports builtin ops that a custom layer overrides, and what is lost by overriding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from litert.model.builtin_options import read_builtin_options
from litert.model.graph import Op, Tensor
from litert.model.schema_types import enum_name
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.kernel_spec import ConstantArgument, ScalarArgument
from vendor_reference.custom_layers.value_sources import FlexOption, ValueSource

_ACTIVATION = "fused_activation_function"


def find_layer(op: Op, layers: Mapping[str, CustomLayer]) -> CustomLayer | None:
    """Returns the layer for an op: a custom op's layer, or a layer that overrides a builtin op.

    A layer never overrides a DEQUANTIZE of a constant, which takes no time in a run.
    """
    first = op.inputs[0] if op.inputs else None
    is_constant = first is not None and first.is_constant
    if is_constant and op.name == "DEQUANTIZE" and not op.is_custom:
        return None
    return layers.get(op.name)


def activation_refusal(op: Op, layer: CustomLayer) -> str:
    """Returns why a layer cannot replace an op with a fused activation.

    Returns "" if the op has no fused activation, or if the layer reads the activation's name.
    """
    if op.is_custom:
        return ""
    activation = read_builtin_options(op).get(_ACTIVATION, 0)
    if not activation or _reads(layer, _ACTIVATION):
        return ""
    assert isinstance(activation, int)
    name = enum_name("ActivationFunctionType", activation)
    return (
        f"the op has a fused {name}, which {layer.file_name} would skip: the kernel must compute "
        f"the activation, and read the activation's name from the option '{_ACTIVATION}'"
    )


def overriding_notes(taken: Sequence[Op], layers: Mapping[str, CustomLayer]) -> Iterator[str]:
    """Yields a sentence for each kind of op that is overridden on the NPU; the sentence gives the cost."""
    overridden: dict[str, list[Op]] = {}
    on_npu = set(taken)
    for op in taken:
        if not op.is_custom and find_layer(op, layers) is not None:
            overridden.setdefault(op.name, []).append(op)
    for name, ops in overridden.items():
        layer = layers[name]
        title = f" '{layer.kernel.title}'" if layer.kernel.title else ""
        count = f"{len(ops)} builtin ops are" if len(ops) > 1 else "1 builtin op is"
        neighbours, crossing = _surroundings(ops, on_npu)
        fused = f", and their fusing with {', '.join(neighbours)}" if neighbours else ""
        tensors = "1 tensor passes" if crossing == 1 else f"{crossing} tensors pass"
        hand_over = (
            f" {tensors} between CPU and NPU because the ops are on the NPU." if crossing else ""
        )
        yield (
            f"{name}: {count} overridden by layer{title} of {layer.file_name}. This loses the "
            f"CPU's own kernels (XNNPACK){fused}.{hand_over} Override ops only if the model "
            "becomes faster: litert-npu benchmark measures how fast the model is."
        )


def _surroundings(ops: Sequence[Op], on_npu: AbstractSet[Op]) -> tuple[list[str], int]:
    """Returns the names of neighbours on the CPU, and the number of tensors between them and the ops."""
    names: dict[str, None] = {}
    tensors: set[Tensor] = set()
    for op in ops:
        for tensor in op.inputs:
            producer = tensor.producer if tensor is not None else None
            if tensor is not None and producer is not None and producer not in on_npu:
                names[producer.name] = None
                tensors.add(tensor)
        for output in op.outputs:
            readers = [use for use in output.uses if use not in on_npu]
            names.update(dict.fromkeys(use.name for use in readers))
            if readers:
                tensors.add(output)
    return list(names), len(tensors)


def value_sources(layer: CustomLayer) -> Iterator[ValueSource]:
    """Yields the source of the value of each define and argument of a layer."""
    yield from (define.source for define in layer.defines)
    for argument in layer.kernel.arguments:
        if isinstance(argument, (ScalarArgument, ConstantArgument)):
            yield argument.source


def _reads(layer: CustomLayer, option: str) -> bool:
    for source in value_sources(layer):
        if isinstance(source, FlexOption) and source.key == option:
            return True
    name = f"PARAM_{option}".encode()
    return layer.defines_options and any(name in file.data for file in layer.files())
