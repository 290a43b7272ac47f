"""Shapes and values of builtin ops, computed by the kernels of stock LiteRT.

To find shapes, the interpreter allocates tensors for a group of ops, and the shapes of these tensors are read. To
find values, the interpreter runs ops whose inputs are all known. For both, a small model of the group
(`stock_region.py`) is loaded in this process, without delegates. A model that crashes stock LiteRT at load time
therefore also crashes this process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import TYPE_CHECKING, Any

from compiler_plugin.effects import CONTROL_FLOW, has_side_effects
from compiler_plugin.plugin import DataLayout
from compiler_plugin.transformations.stock_region import Shape, StockRegion
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Op, Tensor
from litert.model.tensor_data import Array, decode_constant

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter

_NODE = re.compile(r"Node number (\d+) \(.*?\) failed to \w+\.?")
_SOURCE = re.compile(r"\S+\.(?:cc|h)(?::\d+)? ")

SHAPE_TYPES = frozenset({ElementType.INT32, ElementType.INT64, ElementType.BOOL})
"""Element types of tensors whose values can determine shapes."""

VALUE_TYPES = frozenset(t for t in ElementType if t.bits >= 8) - {
    ElementType.BFLOAT16, ElementType.FLOAT8_E4M3FN, ElementType.FLOAT8_E5M2, ElementType.COMPLEX128
}  # fmt: skip
"""Element types whose values the Python API of stock LiteRT returns."""

_NOT_ALONE = CONTROL_FLOW | {"READ_VARIABLE", "STABLEHLO_COMPOSITE", "STABLEHLO_RNG_BIT_GENERATOR"}

_MAY_LACK_INPUTS = frozenset({
    "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "CONV_2D", "CONV_3D", "CONV_3D_TRANSPOSE",
    "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "LSTM", "SVDF", "TRANSPOSE_CONV", "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "UNIDIRECTIONAL_SEQUENCE_RNN",
})  # fmt: skip
"""Ops whose kernels check for missing optional inputs; kernels of other ops may crash if an input is missing."""

_NEEDS_SCALES = frozenset({"ADD", "SQUARED_DIFFERENCE", "SUB"})
"""Ops whose kernels abort the process if a quantized tensor has no scale."""

_MOST_DIMENSIONS = 8
"""Largest rank for kernels that broadcast; with a higher rank, they abort the process."""

_COPIES = frozenset({"EXPAND_DIMS", "RESHAPE", "SQUEEZE"})
"""Ops whose kernels copy all bytes of the input, even if the output has another element type."""

_SCALED = frozenset({ElementType.INT8, ElementType.UINT8, ElementType.INT16})


@dataclass(frozen=True, slots=True)
class Prepared:
    """Result of shape inference by stock LiteRT for a group of ops.

    Attributes:
      shapes: Shapes of the outputs of all ops before the op where inference stopped.
      stopped: Position of the op where inference stopped; None if all shapes are known.
      reason: Error text of stock LiteRT for the op at `stopped`; "" if the op's shapes are known only at run time.
    """

    shapes: Mapping[Tensor, Shape]
    stopped: int | None = None
    reason: str = ""


def is_self_contained(op: Op) -> bool:
    """Returns whether stock LiteRT can infer an op from its inputs alone, without other parts of the model."""
    return not op.is_custom and op.name not in _NOT_ALONE


def lacks_input(op: Op) -> bool:
    """Returns whether a builtin op lacks an input although its kernel does not check for missing inputs."""
    return None in op.inputs[:1] or (None in op.inputs and op.name not in _MAY_LACK_INPUTS)


def prepare(
    ops: Sequence[Op],
    shape_of: Callable[[Tensor], Shape],
    value_of: Callable[[Tensor], Array | None],
    layout: DataLayout = "NHWC",
) -> Prepared:
    """Infers the output shapes of ops with stock LiteRT.

    Inference stops at an op that stock LiteRT refuses, or whose shapes are known only at run time.

    `shape_of` and `value_of` must return shapes and values of tensors that none of the ops writes.
    """

    def region_to(end: int) -> StockRegion:
        return StockRegion(ops[:end], shape_of, value_of, layout=layout)

    faults = ((p, fault) for p, op in enumerate(ops) if (fault := _find_fault(op, value_of)))
    end, reason = next(faults, (len(ops), ""))
    prepared = Prepared({})
    while end:
        region = region_to(end)
        with region.arguments() as arguments:
            try:
                interpreter = _interpreter(arguments)
            except (RuntimeError, ValueError) as error:
                end, reason = _find_unknown(region_to, end, _message(error))
                continue
            prepared = _prepare(interpreter, region, ops[:end])
            break
    if prepared.stopped is None and end < len(ops):
        return Prepared(prepared.shapes, end, reason)
    return prepared


def run(
    ops: Sequence[Op],
    value_of: Callable[[Tensor], Array | None],
    wanted: Sequence[Tensor],
    layout: DataLayout = "NHWC",
) -> list[Array]:
    """Runs ops in stock LiteRT and returns the values of the `wanted` tensors as read-only arrays.

    Raises:
      LiteRtError: RUNTIME_FAILURE, if stock LiteRT refuses an op; the error names the op.
    """
    for op in ops:
        fault = _find_fault(op, value_of) or _find_run_fault(op)
        if fault:
            raise refusal(op, fault)
    region = StockRegion(
        ops, lambda t: t.shape, value_of, outputs=wanted, with_all_data=True, layout=layout
    )
    with region.arguments() as arguments:
        try:
            interpreter = _interpreter(arguments)
            raw: Any = interpreter._interpreter
            raw.AllocateTensors(-1)
            raw.Invoke(0)
        except (RuntimeError, ValueError) as error:
            raise refusal(_refused_op(ops, region, error), _message(error)) from None
        return [_array(raw, region, tensor) for tensor in wanted]


def refusal(op: Op | None, reason: str) -> LiteRtError:
    """Returns an error that says why stock LiteRT refuses an op."""
    where = ""
    if op is not None:
        inputs = ", ".join("no tensor" if t is None else f"'{t.name}' {t.type}" for t in op.inputs)
        where = (
            f"op {op.name} '{op.outputs[0].name if op.outputs else ''}', inputs: {inputs or 'none'}"
        )
    return LiteRtError(
        Status.RUNTIME_FAILURE,
        f"stock LiteRT refuses the op: {reason}",
        where,
        "Change the op's inputs, types, attributes or version so that stock LiteRT accepts the op.",
    )


def value_of_shape(op: Op, shape: Shape) -> Array:
    """Returns the value that a SHAPE or RANK op computes for an input of the given shape."""
    import numpy as np  # imported here, because reading a model does not need it

    value = shape if op.name == "SHAPE" else len(shape)
    return np.array(value, op.outputs[0].element_type.numpy_dtype)


def is_small(shape: Shape, element_type: ElementType, limit: int) -> bool:
    """Returns whether a tensor has at most `limit` bytes; for a tensor of strings, at most `limit` elements."""
    return prod(shape) * max(element_type.bits, 8) <= 8 * limit


def _interpreter(arguments: Mapping[str, Any]) -> Interpreter:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType  # here: it takes its time

    return Interpreter(
        **arguments,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )


def _array(raw: Any, region: StockRegion, tensor: Tensor) -> Array:
    """Returns the value of a result; RUNTIME_FAILURE, if the kernel has not written it."""
    import numpy as np

    index = region.index[tensor]
    shape = tuple(raw.TensorSize(index, 0).tolist())
    if shape == region.not_inferred[tensor]:
        raise refusal(tensor.producer, f"the op's kernel sets no shape for tensor '{tensor.name}'")
    if not prod(shape) and tensor.element_type is not ElementType.STRING:
        array: Array = np.empty(shape, tensor.element_type.numpy_dtype)  # data may be missing
    else:
        try:
            array = np.asarray(raw.GetTensor(index, 0))
        except ValueError as error:
            raise refusal(tensor.producer, f"tensor '{tensor.name}': {_message(error)}") from None
    array.flags.writeable = False
    return array


def _find_unknown(
    region_to: Callable[[int], StockRegion], end: int, reason: str
) -> tuple[int, str]:
    """Returns the position of the first op for which stock LiteRT refuses the whole model, and the error text."""
    known = 0  # the longest prefix that stock LiteRT accepts; `end` is the shortest that it refuses
    while end - known > 1:
        middle = (known + end) // 2
        with region_to(middle).arguments() as arguments:
            try:
                _interpreter(arguments)
                known = middle
            except (RuntimeError, ValueError) as error:
                end, reason = middle, _message(error)
    return known, reason


def _prepare(interpreter: Interpreter, region: StockRegion, ops: Sequence[Op]) -> Prepared:
    raw: Any = interpreter._interpreter
    reason = ""
    try:
        raw.AllocateTensors(-1)
    except (RuntimeError, ValueError) as error:
        reason = _message(error)
    shapes: dict[Tensor, Shape] = {}
    stopped: int | None = None
    for position, op in enumerate(ops):
        for tensor in op.outputs:
            shape = tuple(raw.TensorSize(region.index[tensor], 0).tolist())
            if shape != region.not_inferred[tensor]:
                shapes[tensor] = shape
            elif stopped is None:
                stopped = position
    return Prepared(shapes, stopped, reason)


def _find_fault(op: Op, value_of: Callable[[Tensor], Array | None]) -> str:
    """Returns why an op must not be inferred, because its kernel could crash; "" if there is no reason."""
    if lacks_input(op):
        return f"the required input {op.inputs.index(None)} is not connected"
    if not op.outputs and not has_side_effects(op):
        return "the op has no output"
    if op.name == "BROADCAST_ARGS":
        return _find_broadcast_fault(op, value_of)
    return _find_scale_fault(op) if op.name in _NEEDS_SCALES else ""


def _find_broadcast_fault(op: Op, value_of: Callable[[Tensor], Array | None]) -> str:
    """Returns why two shapes cannot be broadcast, which would abort the process; "" if there is no reason."""
    shapes: list[Sequence[int]] = []
    for tensor in op.inputs:
        assert tensor is not None
        value = (
            decode_constant(tensor.element_type, tensor.shape, tensor.data)
            if tensor.is_constant
            else value_of(tensor)
        )
        shapes.append([] if value is None else value.ravel().tolist())
    for sizes in zip(*(reversed(shape) for shape in shapes), strict=False):
        if len({size for size in sizes if size != 1}) > 1:
            return f"the shapes {' and '.join(str(list(shape)) for shape in shapes)} cannot be broadcast"
    return ""


def _find_scale_fault(op: Op) -> str:
    """Returns what is wrong with an op's quantization, which would abort the process; "" if nothing is."""
    tensors = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    scaled = [tensor for tensor in tensors if tensor.element_type in _SCALED]
    if not scaled:
        return ""
    kind = scaled[0].element_type
    other = next((tensor for tensor in tensors if tensor.element_type is not kind), None)
    if other is not None:
        return f"tensor '{other.name}' has type {other.element_type.name}, but must have type {kind.name}"
    without = [t for t in tensors if t.quantization is None or not t.quantization.scale]
    if op.name == "ADD" and kind is ElementType.INT16 and without == tensors:
        return ""  # whole numbers
    if without:
        return f"tensor '{without[0].name}' has type {kind.name}, but no scale"
    scales = [_scale(tensor) for tensor in tensors]
    odd = next((t for t, scale in zip(tensors, scales, strict=True) if not 0 < scale < inf), None)
    if odd is not None:
        return (
            f"the scale of tensor '{odd.name}' must be positive and finite, but is {_scale(odd):g}"
        )
    largest, result = max(scales[: len(op.inputs)]), scales[-1]
    if op.name == "SQUARED_DIFFERENCE":
        multiplier = (2 * largest) ** 2 / 2**14 / result
    else:
        multiplier = 2 * largest / 2 ** (15 if kind is ElementType.INT16 else 20) / result
    if not 0 < multiplier < 1:
        return (
            f"the scale of tensor '{tensors[-1].name}' is {result:g}, which does not fit the scales of the "
            "inputs"
        )
    return ""


def _find_run_fault(op: Op) -> str:
    """Returns why an op must not be run, although its shapes can be inferred; "" if there is no reason."""
    for tensor in (*op.inputs, *op.outputs):
        if tensor is not None and len(tensor.shape) > _MOST_DIMENSIONS:
            return (
                f"tensor '{tensor.name}' has {len(tensor.shape)} dimensions, but may have at most "
                f"{_MOST_DIMENSIONS}"
            )
    if op.name == "SOFTMAX" and 0 in op.outputs[0].shape:  # its kernel crashes
        return f"tensor '{op.outputs[0].name}' has no elements"
    if op.name == "DEPTHWISE_CONV_2D" and None in (*op.inputs, None)[2:3]:  # this one too
        return "the op has no bias"
    if op.name in _COPIES:
        source, result = op.inputs[0], op.outputs[0]
        if source is not None and source.element_type is not result.element_type:
            return (
                f"tensor '{result.name}' has type {result.element_type.name}, but must have type "
                f"{source.element_type.name}"
            )
    return ""


def _scale(tensor: Tensor) -> float:
    assert tensor.quantization is not None
    return tensor.quantization.scale[0]


def _refused_op(ops: Sequence[Op], region: StockRegion, error: Exception) -> Op | None:
    found = _NODE.search(str(error))
    op = None if found is None else region.op_of(int(found[1]))
    return ops[0] if op is None and len(ops) == 1 else op


def _message(error: Exception) -> str:
    """Returns the error text of stock LiteRT in quotes, without source lines and node numbers."""
    text = _SOURCE.sub("", _NODE.sub("", str(error)))
    message = " ".join(text.split()).rstrip(".")
    return f'"{message}"' if message else "stock LiteRT gives no reason"
