"""Selects the ops of a subgraph that run on the reference NPU, and gives the reason for each other op.

The NPU takes custom ops that have a layer, and DEQUANTIZE ops of constants if only ops on the NPU read their
results. The NPU also takes a builtin op that a layer overrides; this is the case if the layer is for ops with the
builtin op's name, and no custom op of the subgraph has that name. The NPU takes other builtin ops if the library
supports them, and the user selects them or they are expected to save time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from litert.core.element_type import ElementType
from litert.model.graph import Op, Subgraph, Tensor
from litert.model.sparsity import find_sparsity_mistake
from vendor_reference.compiler.auto_selection import find_losses
from vendor_reference.compiler.largest_shapes import NO_BOUNDS, Bounds, bound_hint
from vendor_reference.compiler.library.dynamic_kernel import dynamic_refusal
from vendor_reference.compiler.library.library_op import LibraryOp, library_ops
from vendor_reference.compiler.op_times import OpTimes
from vendor_reference.compiler.overriding import activation_refusal, find_layer
from vendor_reference.compiler.shape_rules import shapes_misfit, shapes_refusal
from vendor_reference.compiler.unpacked_constants import unpacked_constant
from vendor_reference.custom_layers.cl_types import CL_TYPES
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerType
from vendor_reference.custom_layers.kernel_spec import TensorArgument
from vendor_reference.executable.cpu_op import MAX_RANK
from vendor_reference.executable.executable import DEQUANTIZED_INTEGERS

_IN_LIBRARY = "a builtin op; use --reference_ops or an asset to move the op to the NPU"
_NOT_IN_LIBRARY = (
    "a builtin op that the reference vendor does not implement; use an asset to move the op to "
    "the NPU"
)

NO_LIBRARY: Mapping[str, LibraryOp] = MappingProxyType({})
"""No builtin ops, for a compilation without `--reference_ops`."""

_INDEX_PAIRS = (("MaxPoolingWithArgmax2D", "MaxUnpooling2D"),)
"""Pairs of MediaPipe ops: the second op reads indices that the first op writes.

Stock LiteRT's CPU kernels encode these indices differently from MediaPipe's definition. If one op of a pair ran on
the CPU and the other op on the NPU, the results would be wrong without an error.
"""


@dataclass(slots=True)
class Selected:
    """The ops of a subgraph that run on the NPU, in execution order, and the reason for each other op."""

    taken: list[Op] = field(default_factory=list)
    refused: dict[Op, str] = field(default_factory=dict)


def select_ops(
    subgraph: Subgraph,
    layers: Mapping[str, CustomLayer],
    library: Mapping[str, LibraryOp] = NO_LIBRARY,
    bounds: Bounds = NO_BOUNDS,
    times: OpTimes | None = None,
) -> Selected:
    """Selects the ops of a subgraph that run on the NPU.

    Args:
      subgraph: Subgraph to partition.
      layers: Custom layers by the custom code of their op.
      library: Builtin ops that the NPU may take.
      bounds: Largest shapes of tensors of dynamic shape.
      times: Expected times of ops; with them, only builtin ops that save time move to the NPU. None to move all
        supported builtin ops.
    """
    refused: dict[Op, str] = {}
    taken: set[Op] = set()
    by_layer: set[Op] = set()
    dequantize: list[Op] = []
    custom = {op.name for op in subgraph.ops if op.is_custom}
    for op in subgraph.ops:
        is_free = op.is_custom or op.name not in custom
        if unpacked_constant(op) is not None:
            dequantize.append(op)
        elif reason := find_refusal(op, layers if is_free else {}, library, bounds):
            refused[op] = reason
        else:
            taken.add(op)
            if op.is_custom or (is_free and find_layer(op, layers) is not None):
                by_layer.add(op)
    _keep_pairs_together(subgraph.ops, taken, refused)
    if times is not None:
        losses = find_losses(subgraph, taken, by_layer, times)
        refused.update(losses)
        taken -= losses.keys()
    outputs = set(subgraph.outputs)
    for op in reversed(dequantize):  # a DENSIFY in front of the DEQUANTIZE that reads it
        if reason := _dequantize_refusal(op, taken, outputs):
            refused[op] = reason
        else:
            taken.add(op)
    return Selected([op for op in subgraph.ops if op in taken], refused)


def find_refusal(
    op: Op,
    layers: Mapping[str, CustomLayer],
    library: Mapping[str, LibraryOp] = NO_LIBRARY,
    bounds: Bounds = NO_BOUNDS,
) -> str:
    """Returns why the NPU cannot run an op, independently of other ops; "" if it can."""
    if op.is_custom or find_layer(op, layers) is not None:
        return _layer_refusal(op, layers.get(op.name), bounds)
    stored = unpacked_constant(op)
    if stored:
        return _conversion_refusal(stored, op.outputs[0])
    return _builtin_refusal(op, library, bounds)


def is_builtin(op: Op, library: Mapping[str, LibraryOp]) -> bool:
    """Returns whether an op is a builtin op that runs as a library kernel.

    A DEQUANTIZE of a constant does not run as a kernel: the device dequantizes the constant at load.
    """
    return op.name in library and not op.is_custom and unpacked_constant(op) is None


def _builtin_refusal(op: Op, library: Mapping[str, LibraryOp], bounds: Bounds) -> str:
    """Returns why the library cannot run an op; "" if it can."""
    if op.name not in library:
        constant = "the op does not dequantize a constant; " if op.name == "DEQUANTIZE" else ""
        return constant + (_IN_LIBRARY if op.name in library_ops() else _NOT_IN_LIBRARY)
    if reason := _tensors_refusal(op, bounds):
        return reason
    rule = library[op.name]
    tensors = [t for t in (*op.inputs, *op.outputs) if t is not None]
    if all(tensor.type.layout.is_static for tensor in tensors):
        return rule.refusal(op)
    return dynamic_refusal(rule, op, bounds.shapes)


def _layer_refusal(op: Op, layer: CustomLayer | None, bounds: Bounds) -> str:
    """Returns why an op with a layer, or a custom op without one, stays on the CPU; "" if it does not."""
    if layer is None:
        return f"no asset for the op: give one with --npu_custom_op_info={op.name},path"
    if reason := activation_refusal(op, layer):
        return reason
    left_out = [index for index, tensor in enumerate(op.inputs) if tensor is None]
    tensors = [a for a in layer.kernel.arguments if isinstance(a, TensorArgument)]
    for tensor in tensors:
        if not tensor.is_output and tensor.index in left_out:
            return f"input {tensor.index} is omitted, but the kernel reads it"
    reads_all = not layer.kernel.arguments and layer.type is LayerType.OCL
    if reads_all and left_out:
        return f"input {left_out[0]} is omitted, but the kernel reads all inputs"
    return shapes_misfit(op, layer) or _tensors_refusal(op, bounds) or shapes_refusal(op, layer)


def _tensors_refusal(op: Op, bounds: Bounds) -> str:
    """Returns why no kernel can be bound to the tensors of an op; "" if one can."""
    for kind, tensors in (("input", op.inputs), ("output", op.outputs)):
        for index, tensor in enumerate(tensors):
            reason = _tensor_refusal(tensor, bounds) if tensor is not None else ""
            if reason:
                return f"{kind} {index} {reason}"
    return "" if op.outputs else "the op has no outputs"


def _tensor_refusal(tensor: Tensor, bounds: Bounds) -> str:
    """Returns why a kernel cannot read or write a tensor; "" if it can."""
    if tensor.element_type not in CL_TYPES:
        return f"has type {tensor.element_type.name}, which no kernel can read"
    if not tensor.type.layout.is_static and tensor not in bounds.shapes:
        why = bounds.reasons.get(tensor, "")
        because = f", because {why}" if why else ""
        return f"('{tensor.name}', {tensor.type}) has no bound{because}; {bound_hint(tensor)}"
    if len(tensor.shape) > MAX_RANK:
        return f"has {len(tensor.shape)} dimensions, but kernels support at most {MAX_RANK}"
    if tensor.is_variable:
        return "is a variable tensor, which kernels do not support"
    return _constant_refusal(tensor)


def _constant_refusal(tensor: Tensor) -> str:
    """Returns why a constant cannot be embedded; "" if it can."""
    blob = tensor.buffer.blob
    if blob is None:
        return ""
    if tensor.sparsity is not None:
        return "is sparse"
    if not tensor.type.layout.is_static:
        return "is a constant of unknown shape"
    expected = tensor.type.size_bytes
    if blob.size != expected:
        return (
            f"is a constant of {blob.size} bytes, but its type {tensor.type} needs {expected} bytes"
        )
    return ""


def _dequantize_refusal(op: Op, taken: set[Op], outputs: set[Tensor]) -> str:
    """Returns why a DEQUANTIZE stays on the CPU; "" if it does not."""
    stored, result = unpacked_constant(op), op.outputs[0]
    assert stored is not None
    others = [use for use in result.uses if use not in taken]
    if others:
        return f"{others[0].name} reads the result, and stays on the CPU"
    if result in outputs or not result.uses:
        return (
            "the result is an output of the model"
            if result in outputs
            else "no op reads the result"
        )
    return _conversion_refusal(stored, result)


def _conversion_refusal(stored: Tensor, result: Tensor) -> str:
    """Returns why a sparse constant cannot be made dense, or a constant cannot be dequantized at load.

    Returns "" if the constant can be converted.
    """
    if stored.sparsity is not None and stored.element_type is result.element_type:
        return (
            find_sparsity_mistake(stored)
            if stored.shape == result.shape
            else "the shapes of constant and result differ"
        )
    is_stored = stored.element_type in (ElementType.FLOAT16, *DEQUANTIZED_INTEGERS)
    if not is_stored or result.element_type is not ElementType.FLOAT32:
        return f"the NPU cannot convert a constant to {result.element_type.name} from {stored.element_type.name}"
    if stored.shape != result.shape:
        return f"the result has type {result.type}, but the constant has type {stored.type}"
    return _constant_refusal(stored) or _quantization_refusal(stored)


def _quantization_refusal(stored: Tensor) -> str:
    """Returns why the device cannot find a constant's scales; "" if it can."""
    if stored.element_type is ElementType.FLOAT16:
        return ""
    quantization = stored.quantization
    if quantization is None or quantization.blockwise or not quantization.scale:
        return "the constant has no scale"
    scales, dimension = len(quantization.scale), quantization.quantized_dimension
    zero_points = len(quantization.zero_point)
    in_range = 0 <= dimension < len(stored.shape) or scales == 1
    if not in_range or scales not in (1, stored.shape[dimension] if stored.shape else 1):
        return f"the constant has {scales} scales along dimension {dimension} of {stored.type}"
    if zero_points not in (0, scales):
        return f"the constant has {scales} scales, but {zero_points} zero points"
    return ""


def _keep_pairs_together(ops: Sequence[Op], taken: set[Op], refused: dict[Op, str]) -> None:
    """Removes an op from those taken if the other op of its pair stays on the CPU."""
    links = [
        (tensor.producer, op)
        for op in ops
        if op.is_custom
        for tensor in op.inputs
        if tensor is not None
        and tensor.producer is not None
        and (tensor.producer.name, op.name) in _INDEX_PAIRS
    ]
    changed = True
    while changed:
        changed = False
        for writer, reader in links:
            if (writer in taken) != (reader in taken):
                alone, other = (writer, reader) if writer in taken else (reader, writer)
                taken.discard(alone)
                refused[alone] = (
                    f"{other.name}, which shares indices with the op, stays on the CPU, where indices have "
                    "a different encoding than on the NPU: give assets for both ops"
                )
                changed = True
