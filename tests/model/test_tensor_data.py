"""Tests the encoding of constants in a file."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.tensor_data import as_element_type, decode_constant, encode_constant


@pytest.mark.parametrize(
    ("data", "element_type", "shape", "expected_type", "expected"),
    [
        (np.array([[1, 2]], np.float32), None, None, "tensor<1x2xf32>", np.array([1, 2], np.float32).tobytes()),
        (np.arange(4, dtype=">i2"), None, (2, 2), "tensor<2x2xi16>", bytes((0, 0, 1, 0, 2, 0, 3, 0))),
        (0.5, "float32", None, "tensor<f32>", np.float32(0.5).tobytes()),
        ([1, 2], "uint8", None, "tensor<2xui8>", b"\1\2"),
        ([1, -1, 7], "int4", None, "tensor<3xi4>", b"\xf1\x07"),
        ([1, 3, 0, 2, 1], "int2", None, "tensor<5xi2>", b"\x8d\x01"),
        (b"\x21\x03", ElementType.INT4, (3,), "tensor<3xi4>", b"\x21\x03"),
        ([True, False], None, None, "tensor<2xi1>", b"\1\0"),
        (np.zeros((0, 3), np.int8), None, None, "tensor<0x3xi8>", b""),
        (np.array([1.5], ml_dtypes.bfloat16), None, None, "tensor<1xbf16>", b"\xc0\x3f"),
        (
            ["a", "bc"],
            None,
            None,
            "tensor<2x!tf_type.string>",
            bytes((2, 0, 0, 0, 16, 0, 0, 0, 17, 0, 0, 0, 19, 0, 0, 0)) + b"abc",
        ),
    ],
    ids=["array", "big-endian", "number", "list", "int4", "int2", "bytes", "bool", "empty",
         "bfloat16", "text"],
)  # fmt: skip
def test_data_become_the_files_bytes(
    data: Any, element_type: Any, shape: Any, expected_type: str, expected: bytes
) -> None:
    tensor_type, blob = encode_constant(data, element_type, shape)
    assert str(tensor_type) == expected_type and bytes(blob) == expected


@pytest.mark.parametrize(
    ("data", "element_type", "shape"),
    [
        (b"123", None, None),
        (b"123", "int32", (1,)),
        (np.array([1.5], np.float32), "int32", None),
        ([300], "uint8", None),
        ([-1], "uint8", None),
        (np.zeros(3, np.float32), None, (2, 2)),
        ([[1], [1, 2]], "int8", None),
        ([1], "float33", None),
    ],
    ids=["no type", "too short", "fraction", "too great", "negative", "shape", "ragged", "no such"],
)
def test_data_that_do_not_fit_are_refused(data: Any, element_type: Any, shape: Any) -> None:
    with pytest.raises(LiteRtError) as error:
        encode_constant(data, element_type, shape)
    assert error.value.status is Status.INVALID_ARGUMENT


def test_element_types_go_by_name_and_by_numpy_type() -> None:
    assert as_element_type("INT8") is as_element_type(np.int8) is ElementType.INT8
    assert as_element_type(np.dtype("float16")) is ElementType.FLOAT16


@pytest.mark.parametrize("name", [t.name for t in ElementType if 0 < t.bits <= 64])
def test_what_is_encoded_is_decoded(name: str) -> None:
    element_type = ElementType[name]
    values = np.array([[0, 1, 1], [1, 0, 1]])
    tensor_type, blob = encode_constant(values, element_type)
    found = decode_constant(tensor_type.element_type, tensor_type.shape, blob.view)
    assert np.array_equal(found, values.astype(found.dtype))
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 1


@pytest.mark.parametrize(
    ("name", "values"),
    [("INT4", [-8, 7, -1, 0, 3]), ("INT2", [-2, 1, -1, 0, 1]), ("UINT4", [15, 0, 8, 7, 1])],
)
def test_packed_elements_come_back_with_their_signs(name: str, values: list[int]) -> None:
    _, blob = encode_constant(values, name)
    assert decode_constant(ElementType[name], (5,), blob.view).tolist() == values


def test_texts_come_back_as_bytes() -> None:
    tensor_type, blob = encode_constant([["", "one"], ["zwölf", "3"]])
    found = decode_constant(ElementType.STRING, tensor_type.shape, blob.view)
    assert found.tolist() == [[b"", b"one"], ["zwölf".encode(), b"3"]]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("FLOAT32", b"\0" * 7),
        ("INT4", b""),
        ("STRING", b""),
        ("STRING", b"\x02\0\0\0\x10\0\0\0\xff\0\0\0\x10\0\0\0"),
        ("STRING", b"\x03\0\0\0" + b"\0" * 40),
    ],
)
def test_bytes_that_are_no_such_constant_are_refused(name: str, data: bytes) -> None:
    with pytest.raises(LiteRtError) as error:
        decode_constant(ElementType[name], (2,), memoryview(data))
    assert error.value.status is Status.INVALID_ARGUMENT
