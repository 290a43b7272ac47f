"""A driver that computes the ops of all probes in float64; NUMERIC_FAULT names the fault that it makes."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np

from dispatch.api import Dispatch, ExecutableType, HostInvocationContext
from dispatch.mem_buffer import MemBuffer
from litert.core.errors import LiteRtError
from litert.core.status import Status

Array = Any
Options = Mapping[str, Any]


def has(fault: str) -> bool:
    return os.environ.get("NUMERIC_FAULT") == fault


class NumericDispatch(Dispatch[object, HostInvocationContext]):
    """The dispatch table of Numeric."""

    vendor_id = "Numeric"

    def device_context_create(self, options: Mapping[str, str]) -> object:
        return object()

    def register_asset(
        self, device_context: object, asset_name: str, asset_buffer: MemBuffer
    ) -> None:
        """Does nothing: Triple needs no asset."""

    def invocation_context_create(
        self,
        device_context: object,
        executable_type: ExecutableType,
        byte_code: MemBuffer,
        function_name: str,
        num_inputs: int,
        num_outputs: int,
    ) -> HostInvocationContext:
        function = read_byte_code(byte_code)["functions"].get(function_name)
        counts = function and (len(function["inputs"]), len(function["outputs"]))
        if counts != (num_inputs, num_outputs):
            raise LiteRtError(Status.NOT_FOUND, "no such function", function_name)
        return super().invocation_context_create(
            device_context, executable_type, byte_code, function_name, num_inputs, num_outputs
        )

    def invoke(self, invocation_context: HostInvocationContext) -> None:
        self.run(invocation_context)

    def run(
        self,
        call: HostInvocationContext,
        show: Callable[[int, Array], None] = lambda tensor, array: None,
    ) -> None:
        """Runs the ops in order; calls `show` with the index of each op's output tensor and the result."""
        code = read_byte_code(call.byte_code)
        function = code["functions"][call.function_name]
        arrays: dict[int, Array] = dict(zip(function["inputs"], call.inputs, strict=True))
        for op in function["ops"]:
            result = self.run_op(op, function["tensors"], arrays, code["constants"])
            arrays[op["output"]] = result
            show(op["output"], result)
        for index, array in zip(function["outputs"], call.outputs, strict=True):
            array[...] = arrays[index]

    def run_op(
        self,
        op: Mapping[str, Any],
        tensors: Sequence[Mapping[str, Any]],
        arrays: Mapping[int, Array],
        constants: Mapping[str, str],
    ) -> Array:
        """Returns the result of an op in its stored type."""
        if has("crashes in TANH") and op["name"] == "TANH":
            os._exit(4)
        inputs = [
            _real(tensors[i], arrays.get(i), constants) for i in op["inputs"] if i is not None
        ]
        output = tensors[op["output"]]
        result = KERNELS[op["name"]](op["options"], output["shape"], *inputs)
        if not has("activation"):
            activation = op["options"].get("fused_activation_function", 0)
            result = np.clip(result, *ACTIVATIONS[activation])
        return _stored(output, result)


def read_byte_code(byte_code: MemBuffer) -> Mapping[str, Any]:
    """Returns the functions and the constants in the byte code."""
    try:
        code: Mapping[str, Any] = json.loads(bytes(byte_code.view))
    except ValueError as error:
        raise LiteRtError(Status.INCOMPATIBLE_BYTE_CODE_VERSION, f"no JSON: {error}") from error
    return code


def _real(tensor: Mapping[str, Any], array: Array, constants: Mapping[str, str]) -> Array:
    """Returns the real numbers that a tensor's elements stand for."""
    is_constant = tensor["data"] is not None
    if is_constant:
        data = base64.b64decode(constants[tensor["data"]])
        array = np.frombuffer(data, tensor["type"]).reshape(tensor["shape"])
    if not tensor["scales"]:
        return array.astype(np.float64)
    scales = np.array(tensor["scales"])
    if len(scales) > 1:
        if has("per_channel") or (has("scales of biases") and array.ndim == 1):
            scales[:] = scales[0]
        scales = scales.reshape([-1 if i == tensor["axis"] else 1 for i in range(array.ndim)])
    zero_point = 0 if has("zero_point") and not is_constant else tensor["zero_point"]
    return (array.astype(np.float64) - zero_point) * scales


def _stored(tensor: Mapping[str, Any], result: Array) -> Array:
    if not tensor["scales"]:
        return result.astype(tensor["type"])
    limits = np.iinfo(tensor["type"])
    steps = np.rint(result / tensor["scales"][0]) + tensor["zero_point"]
    return np.clip(steps, limits.min, limits.max).astype(tensor["type"])


def _windows(
    options: Options, image: Array, filter_size: Sequence[int], fill: float
) -> Iterator[tuple[int, int, Array]]:
    """Yields each filter element's place and the image elements that it meets, `[N, H, W, C]` for the output."""
    strides = [options.get("stride_h", 0), options.get("stride_w", 0)]
    names = ("dilation_h_factor", "dilation_w_factor")
    dilation = [1 if has("dilation") else options.get(name, 1) for name in names]
    if has("strides"):
        strides.reverse()
    if has("dilation of columns"):
        dilation[1] = 1
    if has("stride of columns") and "dilation_w_factor" in options:  # a convolution
        strides[1] = 1
    covered = [(n - 1) * d + 1 for n, d in zip(filter_size, dilation, strict=True)]
    is_same = options.get("padding", 0) == 0
    pads, sizes = [(0, 0)], []
    for size, n, step in zip(image.shape[1:3], covered, strides, strict=True):
        sizes.append(ceil((size if is_same else size - n + 1) / step))
        total = max(0, (sizes[-1] - 1) * step + n - size) if is_same else 0
        before = total - total // 2 if has("padding") else total // 2
        pads.append((before, total - before))
    padded = np.pad(image, [*pads, (0, 0)], constant_values=fill)
    for y in range(filter_size[0]):
        for x in range(filter_size[1]):
            top, left = y * dilation[0], x * dilation[1]
            ends = (top + (sizes[0] - 1) * strides[0] + 1, left + (sizes[1] - 1) * strides[1] + 1)
            yield y, x, padded[:, top : ends[0] : strides[0], left : ends[1] : strides[1]]


def _conv(
    options: Options, shape: Sequence[int], image: Array, weights: Array, bias: Array
) -> Array:
    terms = _windows(options, image, weights.shape[1:3], 0)
    with np.errstate(invalid="ignore"):  # an earlier op may have overflowed on purpose
        result = sum(seen @ weights[:, y, x].T for y, x, seen in terms)
    return _fit(result + (0 if has("bias") else bias), shape)


def _depthwise(
    options: Options, shape: Sequence[int], image: Array, weights: Array, bias: Array
) -> Array:
    terms = _windows(options, image, weights.shape[1:3], 0)
    multiplier = weights.shape[3] // image.shape[3]
    result = sum(np.repeat(seen, multiplier, 3) * weights[0, y, x] for y, x, seen in terms)
    return _fit(result + (0 if has("bias") else bias), shape)


def _fit(result: Array, shape: Sequence[int]) -> Array:
    """Returns the result in the right shape, which it lacks if a fault changes strides or dilation."""
    return result if result.shape == tuple(shape) else np.resize(result, shape)


def _pool(reduce: Callable[..., Array]) -> Callable[[Options, Sequence[int], Array], Array]:
    def run(options: Options, shape: Sequence[int], image: Array) -> Array:
        size = options["filter_height"], options["filter_width"]
        seen = [window for _, _, window in _windows(options, image, size, np.nan)]
        return reduce(np.stack(seen), axis=0)

    return run


def _fully_connected(
    options: Options, shape: Sequence[int], rows: Array, weights: Array, bias: Array = 0.0
) -> Array:
    result = rows.reshape(-1, weights.shape[1]) @ weights.T + (0 if has("bias") else bias)
    return result.reshape(shape)


def _batch_matmul(options: Options, shape: Sequence[int], x: Array, z: Array) -> Array:
    x = x.swapaxes(-1, -2) if options.get("adj_x") else x
    z = z.swapaxes(-1, -2) if options.get("adj_y") else z
    return x @ z


def _softmax(options: Options, shape: Sequence[int], x: Array) -> Array:
    powers = np.exp(options["beta"] * x)
    return powers / powers.sum(-1, keepdims=True)


def _of(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(options: Options, shape: Sequence[int], *inputs: Array) -> Array:
        if has("broadcast"):
            inputs = tuple(np.resize(array, shape) for array in inputs)
        return function(*inputs)

    return run


ACTIVATIONS = {0: (-np.inf, np.inf), 1: (0, np.inf), 3: (0, 6)}

KERNELS: Mapping[str, Callable[..., Array]] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
    "AVERAGE_POOL_2D": _pool(np.nanmean),
    "MAX_POOL_2D": _pool(np.nanmax),
    "SOFTMAX": _softmax,
    "ADD": _of(np.add),
    "SUB": _of(lambda x, z: z - x if has("negated") else x - z),
    "MUL": _of(np.multiply),
    "DIV": _of(np.divide),
    "POW": _of(np.power),
    "MAXIMUM": _of(np.maximum),
    "MINIMUM": _of(np.minimum),
    "RELU": _of(lambda x: np.maximum(x, 0)),
    "RELU6": _of(lambda x: np.clip(x, 0, 6)),
    "ABS": _of(np.abs),
    "LOGISTIC": _of(lambda x: 1 / (1 + np.exp(-x))),
    "TANH": _of(np.tanh),
    "QUANTIZE": _of(lambda x: x),
    "DEQUANTIZE": _of(lambda x: x),
    "Triple": _of(lambda x: (3.2 if has("Triple") else 3) * x),
}

DISPATCH = NumericDispatch()
