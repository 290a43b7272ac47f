"""Computes the custom ops of MediaPipe's networks in NumPy with float64, like MediaPipe's own CPU kernels."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from litert.model.flexbuffer import read_flexbuffer
from litert.model.graph import Op

Array: TypeAlias = np.ndarray[Any, Any]
SAME, VALID = 1, 2


def run_custom_op(op: Op, inputs: Sequence[Array]) -> Array:
    """Returns the output of a custom op for inputs, in the type of the op's output tensor."""
    options = bytes(op.custom_options.view) if op.custom_options else b""
    result = _OPS[op.name](options, *(array.astype(np.float64) for array in inputs))
    return result.astype(op.outputs[0].element_type.numpy_dtype)


def transpose_conv(
    x: Array, weights: Array, bias: Array, stride_h: int, stride_w: int, padding: int
) -> Array:
    """Computes Convolution2DTransposeBias: x `[N, H, W, I]` and weights `[O, y, x, I]` give `[N, Y, X, O]`."""
    n, h, w, _ = x.shape
    o, taps_h, taps_w, _ = weights.shape
    whole = np.zeros((n, stride_h * (h - 1) + taps_h, stride_w * (w - 1) + taps_w, o))
    for i in range(taps_h):
        for j in range(taps_w):
            products = np.einsum("nhwc,oc->nhwo", x, weights[:, i, j], dtype=np.float64)
            rows = slice(i, i + stride_h * (h - 1) + 1, stride_h)
            columns = slice(j, j + stride_w * (w - 1) + 1, stride_w)
            whole[:, rows, columns] += products
    pad_h, pad_w = _pad(h, taps_h, stride_h, padding), _pad(w, taps_w, stride_w, padding)
    top, left = pad_h // 2, pad_w // 2
    bottom, right = whole.shape[1] - (pad_h - top), whole.shape[2] - (pad_w - left)
    return whole[:, top:bottom, left:right] + bias


def landmarks_to_transform_matrix(landmarks: Array, options: Mapping[str, Any]) -> Array:
    """Computes Landmarks2TransformMatrix: a matrix that maps positions in a box to positions in the picture.

    The box surrounds some landmarks, and is rotated by the angle of the line between two landmarks.

    Args:
      landmarks: Landmarks in the picture, `[1, N, 3]`.
      options: The indices of the landmarks, the box's size in elements, and its scale relative to the landmarks.

    Returns:
      The matrix, `[1, 4, 4]`.
    """
    points = landmarks.reshape(-1, 3)[:, :2]
    left, right = points[options["left_rotation_idx"]], points[options["right_rotation_idx"]]
    angle = np.arctan2(right[1] - left[1], right[0] - left[0]) - options["target_rotation_radians"]
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    upright = points[list(options["subset_idxs"])] @ turn
    low, high = upright.min(0), upright.max(0)
    size = np.array([options["output_width"], options["output_height"]])
    scale = np.array([options["scale_x"], options["scale_y"]]) * (high - low) / size
    matrix = np.eye(4)
    matrix[:2, :2] = turn * scale
    matrix[:2, 3] = turn @ ((low + high) / 2) - matrix[:2, :2] @ (size / 2)
    found: Array = matrix[None]
    return found


def transform_tensor_bilinear(
    x: Array, matrix: Array, output_height: int, output_width: int
) -> Array:
    """Computes TransformTensorBilinear: x `[1, H, W, C]` at the matrix's images of grid centres; 0 outside x."""
    _, height, width, _ = x.shape
    rows, columns = np.mgrid[:output_height, :output_width] + 0.5
    places = np.stack([columns, rows, np.zeros_like(rows), np.ones_like(rows)], -1)
    at_x, at_y = np.moveaxis(places @ matrix[0, :2].T - 0.5, -1, 0)
    inside = (at_x >= 0) & (at_x <= width - 1) & (at_y >= 0) & (at_y <= height - 1)
    left = np.clip(np.floor(np.where(inside, at_x, 0)).astype(int), 0, width - 1)
    top = np.clip(np.floor(np.where(inside, at_y, 0)).astype(int), 0, height - 1)
    right, bottom = np.minimum(left + 1, width - 1), np.minimum(top + 1, height - 1)
    part_x, part_y = (at_x - left)[..., None], (at_y - top)[..., None]
    upper = (1 - part_x) * x[0, top, left] + part_x * x[0, top, right]
    lower = (1 - part_x) * x[0, bottom, left] + part_x * x[0, bottom, right]
    result: Array = np.where(inside[..., None], (1 - part_y) * upper + part_y * lower, 0)
    return result[None]


def transform_landmarks(landmarks: Array, matrix: Array) -> Array:
    """Computes TransformLandmarks: multiplies x and y of landmarks `[1, N, 2 or 3]` by a matrix `[1, 4, 4]`."""
    result: Array = landmarks.copy()
    result[..., :2] = landmarks[..., :2] @ matrix[0, :2, :2].T + matrix[0, :2, 3]
    return result


def _pad(size: int, taps: int, stride: int, padding: int) -> int:
    return max(0, taps - (size - 1) % stride - 1) if padding == SAME else 0


def _run_transpose_conv(options: bytes, x: Array, weights: Array, bias: Array) -> Array:
    padding, stride_w, stride_h = struct.unpack_from("<iii", options)
    return transpose_conv(x, weights, bias, stride_h, stride_w, padding)


def _flex(options: bytes) -> Mapping[str, Any]:
    found = read_flexbuffer(options)
    assert isinstance(found, Mapping)
    return found


_OPS: Mapping[str, Callable[..., Array]] = {
    "Convolution2DTransposeBias": _run_transpose_conv,
    "Landmarks2TransformMatrix": lambda options, landmarks: landmarks_to_transform_matrix(
        landmarks, _flex(options)
    ),
    "TransformTensorBilinear": lambda options, x, matrix: transform_tensor_bilinear(
        x, matrix, **_flex(options)
    ),
    "TransformLandmarks": lambda _, landmarks, matrix: transform_landmarks(landmarks, matrix),
}
