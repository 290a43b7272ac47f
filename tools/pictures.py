"""Reads pictures into tensors `[1, H, W, C]`, and writes tensors as pictures; needs the package Pillow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from litert.core.errors import LiteRtError
from litert.core.input_file import open_input
from litert.core.status import Status

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
"""Suffixes of file names that are read as pictures."""

Array: TypeAlias = "np.ndarray[Any, Any]"
Range = tuple[float, float]
"""The numbers that stand for black and for white."""

_MOST_PIXELS = 1 << 26
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def read_picture(
    path: str, dtype: np.dtype[Any], shape: tuple[int, ...], value_range: Range
) -> Array:
    """Reads a picture, resized to a tensor's height and width, with the tensor's number of channels.

    In a float tensor, `value_range` gives the numbers for black and white; in a uint8 tensor, these numbers are 0
    and 255, and in an int8 tensor, -128 and 127.
    """
    import numpy as np

    image_module = _pillow()
    height, width, channels = _picture_shape(path, shape)
    with open_input(path) as file:
        try:
            with image_module.open(file) as image:
                if image.width * image.height > _MOST_PIXELS:
                    raise LiteRtError(
                        Status.INVALID_ARGUMENT,
                        f"the picture has {image.width} x {image.height} pixels, but at most {_MOST_PIXELS} "
                        "pixels are allowed",
                        path,
                        "Give a smaller picture.",
                    )
                resized = image.convert(_MODES[channels]).resize((width, height), 2)  # bilinear
        except LiteRtError:
            raise
        except Exception as error:  # Pillow's decoders may raise any exception
            what = f"the package Pillow cannot read the picture: {error}".removesuffix(".")
            hint = "Give another picture, or a .npy file."
            raise LiteRtError(Status.INVALID_ARGUMENT, what, path, hint) from None
    pixels: Array = np.asarray(resized, np.uint8).reshape(shape)
    if dtype == np.uint8:
        return pixels
    if dtype == np.int8:
        return (pixels.astype(np.int16) - 128).astype(np.int8)
    if dtype.kind != "f":
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"a picture cannot be read into a tensor with elements of type {dtype}",
            path,
            "Give a .npy file for this tensor.",
        )
    low, high = value_range
    return (low + pixels / 255 * (high - low)).astype(dtype)


def write_picture(path: str, file: BinaryIO, array: Array, value_range: Range) -> None:
    """Writes a tensor as a PNG file; numbers outside `value_range` are clamped."""
    import numpy as np

    image_module = _pillow()
    height, width, channels = _picture_shape(path, array.shape)
    pixels: Array
    if array.dtype == np.int8:
        pixels = array.astype(np.int16) + 128
    elif array.dtype.kind == "b":
        pixels = array * np.uint8(255)
    elif array.dtype.kind in "iu":
        pixels = np.clip(array, 0, 255)
    else:
        low, high = value_range
        pixels = np.clip((array.astype(np.float64) - low) / (high - low), 0, 1) * 255
        pixels = np.nan_to_num(pixels).round()
    shape = (height, width) if channels == 1 else (height, width, channels)
    image_module.fromarray(pixels.astype(np.uint8).reshape(shape)).save(file, "PNG")


def _picture_shape(path: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Returns the height, width and number of channels of a tensor."""
    dimensions = shape[1:] if len(shape) == 4 and shape[0] == 1 else shape
    if len(dimensions) == 2:
        dimensions = (*dimensions, 1)
    if len(dimensions) == 3 and dimensions[2] in _MODES and 0 not in dimensions:
        height, width, channels = dimensions
        return height, width, channels
    raise LiteRtError(
        Status.INVALID_ARGUMENT,
        f"the tensor for the picture has the shape {list(shape)}, which is not the shape of a picture",
        path,
        "Pictures need the shape [1, height, width, channels] with 1, 3 or 4 channels. Use a .npy file for other "
        "tensors.",
    )


def _pillow() -> ModuleType:
    from importlib import import_module

    try:
        return import_module("PIL.Image")
    except ImportError:
        raise LiteRtError(
            Status.DYNAMIC_LOADING,
            "pictures need the package Pillow, which is not installed",
            hint="Install the package: pip install pillow. Or use .npy files.",
        ) from None
