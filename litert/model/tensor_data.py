"""Encodes arrays, numbers, strings or bytes as the constant data of TFLite files.

The elements are little-endian and in row-major order. Elements of less than 8 bits are packed into bytes; the
first element takes the lowest bits of a byte. A tensor of strings is a table of offsets, followed by the strings
(TFLite: `string_util.h`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
TypeLike: TypeAlias = "ElementType | str | np.dtype[Any] | type"
DataLike: TypeAlias = "Array | np.generic | Blob | bytes | memoryview | Sequence[Any] | float"


def as_element_type(type_like: TypeLike) -> ElementType:
    """Returns the element type for a name such as `int8` or `INT4`, a NumPy type, or an element type itself.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if no element type has the name; UNSUPPORTED, if no element type corresponds
        to the NumPy type.
    """
    if isinstance(type_like, ElementType):
        return type_like
    if not isinstance(type_like, str):
        return ElementType.from_numpy(type_like)
    try:
        return ElementType[type_like.upper()]
    except KeyError:
        names = ", ".join(t.name.lower() for t in ElementType)
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"no element type has the name {type_like!r}",
            hint=f"Use one of {names}.",
        ) from None


def encode_constant(
    data: DataLike, type_like: TypeLike | None = None, shape: Sequence[int] | None = None
) -> tuple[RankedTensorType, Blob]:
    """Returns the tensor type and the encoded bytes of a constant.

    Args:
      data: Strings, or any value that `numpy.asarray` accepts; or bytes in the file's format, for which
        `type_like` and `shape` are required.
      type_like: Type of the elements; by default the type of the array.
      shape: Shape of the constant; by default the shape of the array.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the data do not have the given element type or shape.
    """
    if isinstance(data, (bytes, memoryview, Blob)):
        if type_like is None or shape is None:
            raise LiteRtError(
                Status.INVALID_ARGUMENT, "a constant from bytes needs an element type and a shape"
            )
        tensor_type = RankedTensorType.of(as_element_type(type_like), tuple(shape))
        blob = data if isinstance(data, Blob) else Blob(data)
    else:
        tensor_type, blob = _encode_array(data, type_like, shape)
    if tensor_type.element_type.bits and blob.size != tensor_type.size_bytes:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the data have {blob.size} bytes, but a {tensor_type} has {tensor_type.size_bytes}",
        )
    return tensor_type, blob


def decode_constant(
    element_type: ElementType, shape: Sequence[int], data: memoryview
) -> np.ndarray[Any, Any]:
    """Decodes the bytes of a constant to an array; this is the inverse of `encode_constant`.

    Returns:
      A read-only array, which is a view of the bytes if NumPy stores these elements in the same way. Elements of
      less than 8 bits become int8 or uint8, and strings become objects of type `bytes`.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if there are too few bytes, or if strings are damaged; UNSUPPORTED, if the
        element type cannot have constant data.
    """
    # Imported here, because a command that only reads a model must not pay for NumPy
    import numpy as np

    tensor_type = RankedTensorType.of(element_type, tuple(shape))
    if element_type is ElementType.STRING:
        texts = np.empty(tensor_type.num_elements, object)
        texts[:] = _unpack_texts(data, tensor_type)
        return texts.reshape(tensor_type.shape)
    if len(data) < tensor_type.size_bytes:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the data have {len(data)} bytes, but a {tensor_type} has {tensor_type.size_bytes}",
        )
    if 0 < element_type.bits < 8:
        array = _unpack_bits(data, tensor_type)
    else:
        dtype = element_type.numpy_dtype.newbyteorder("<")
        array = np.frombuffer(data, dtype, tensor_type.num_elements).reshape(tensor_type.shape)
    array.flags.writeable = False
    return array


def _encode_array(
    data: Any, type_like: TypeLike | None, shape: Sequence[int] | None
) -> tuple[RankedTensorType, Blob]:
    # Imported here, because a command that only reads a model must not pay for NumPy
    import numpy as np

    try:
        array = np.asarray(data)
    except ValueError as error:
        raise _refused(error) from None
    is_text = array.dtype.kind in "US" or array.dtype == object
    element_type = (
        as_element_type(type_like)
        if type_like is not None
        else ElementType.STRING
        if is_text
        else ElementType.from_numpy(array.dtype)
    )
    try:
        if shape is not None:
            array = array.reshape(tuple(shape))
        tensor_type = RankedTensorType.of(element_type, array.shape)
        if element_type is ElementType.STRING:
            return tensor_type, Blob(_pack_texts(array.ravel().tolist()))
        if 0 < element_type.bits < 8:
            return tensor_type, Blob(_pack_bits(array.ravel(), element_type.bits))
        dtype = element_type.numpy_dtype
        elements = array.astype(dtype.newbyteorder("<"))
        if array.dtype.kind in "biuf" and dtype.kind in "biu" and not np.all(elements == array):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"cannot make a constant: some elements of the array do not fit the type {element_type.name}",
                hint="Choose another element type, or convert the array first.",
            )
        return tensor_type, Blob(elements.tobytes())
    except (TypeError, ValueError) as error:
        raise _refused(error) from None


def _refused(error: Exception) -> LiteRtError:
    what = f'cannot make a constant from the value: "{str(error).rstrip(".")}"'
    return LiteRtError(Status.INVALID_ARGUMENT, what)


def _pack_texts(texts: Sequence[str | bytes]) -> bytes:
    encoded = [text.encode() if isinstance(text, str) else bytes(text) for text in texts]
    offsets = [4 * (len(encoded) + 2)]
    for text in encoded:
        offsets.append(offsets[-1] + len(text))
    return struct.pack(f"<{len(offsets) + 1}i", len(encoded), *offsets) + b"".join(encoded)


def _pack_bits(elements: np.ndarray[Any, Any], bits: int) -> bytes:
    import numpy as np

    per_byte = 8 // bits
    low = elements.astype(np.int64) & ((1 << bits) - 1)
    padded = np.pad(low, (0, -len(low) % per_byte)).reshape(-1, per_byte)
    packed: bytes = (padded << (np.arange(per_byte) * bits)).sum(axis=1).astype(np.uint8).tobytes()
    return packed


def _unpack_texts(data: memoryview, tensor_type: RankedTensorType) -> list[bytes]:
    count = tensor_type.num_elements
    try:
        (stored,) = struct.unpack_from("<i", data)
        offsets = struct.unpack_from(f"<{count + 1}i", data, 4)
    except struct.error:
        stored, offsets = -1, ()
    if stored != count or any(not 0 <= offset <= len(data) for offset in offsets):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the {len(data)} bytes do not contain the strings of a {tensor_type}",
        )
    return [bytes(data[start:end]) for start, end in pairwise(offsets)]


def _unpack_bits(data: memoryview, tensor_type: RankedTensorType) -> np.ndarray[Any, Any]:
    import numpy as np

    bits = tensor_type.element_type.bits
    packed = np.frombuffer(data, np.uint8, tensor_type.size_bytes)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[:, None] >> shifts) & ((1 << bits) - 1)
    flat = numbers.ravel()[: tensor_type.num_elements]
    if tensor_type.element_type is not ElementType.UINT4:  # INT4 and INT2 are signed
        half = 1 << (bits - 1)
        flat = (flat.astype(np.int16) ^ half) - half
        return flat.astype(np.int8).reshape(tensor_type.shape)
    return flat.reshape(tensor_type.shape)
