"""Tests the kernels of `IE.Reorder` and `IE.Convert` on a device against NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Any

import numpy as np
import pytest

from litert.core.element_type import ElementType
from tests.vendor_reference.executables import Array
from tests.vendor_reference.library_runs import run_specs
from vendor_reference.compiler.ir.types import tensor_type
from vendor_reference.compiler.library.views import View
from vendor_reference.compiler.transfer_kernels import (
    dynamic_transfer_kernel,
    transfer_kernel,
)
from vendor_reference.custom_layers.cl_types import CL_TYPES
from vendor_reference.custom_layers.layout import Order

_E = ElementType


@dataclass(frozen=True)
class Transfer:
    """A tensor, with the order and element type to which it is converted."""

    tensor: Array
    source: Order
    target: Order
    element_type: ElementType

    def expected(self) -> Array:
        converted: Array = self.tensor.astype(self.element_type.numpy_dtype)
        return np.transpose(converted, self.target).ravel()


def transfer(device: Any, transfers: Sequence[Transfer]) -> list[Array]:
    """Runs all transfers in one function and program, since building a program takes most of the time."""
    calls = []
    for one in transfers:
        shape = one.tensor.shape
        source = tensor_type(ElementType.from_numpy(one.tensor.dtype), shape, one.source)
        target = tensor_type(one.element_type, shape, one.target)
        memory = one.tensor.transpose(one.source).ravel()
        result = View.dense(one.element_type, (prod(shape),))
        calls.append((transfer_kernel("Transfer", source, target), [memory], [result]))
    return run_specs(device, calls)


def check(device: Any, transfers: Sequence[Transfer]) -> None:
    for one, result in zip(transfers, transfer(device, transfers), strict=True):
        np.testing.assert_array_equal(result, one.expected(), str((one.source, one.target)))


def numbers(shape: Sequence[int], element_type: ElementType = _E.FLOAT32) -> Array:
    values: Array = np.arange(prod(shape)).reshape(tuple(shape)) % 251
    return values.astype(element_type.numpy_dtype)


def test_a_tensor_of_rank_4_goes_from_each_order_to_each(device: Any) -> None:
    orders = list(permutations(range(4)))
    tensor = numbers((2, 9, 3, 17))
    check(device, [Transfer(tensor, a, b, _E.FLOAT32) for a in orders[::5] for b in orders])


def test_a_tensor_of_any_rank_goes_to_other_orders(device: Any) -> None:
    transfers = []
    for rank in range(7):
        tensor, row = numbers((3, 2, 10, 1, 9, 2)[:rank]), tuple(range(rank))
        some = list(permutations(row))[:: 1 if rank < 5 else 37]
        transfers += [Transfer(tensor, row, order, _E.FLOAT32) for order in some]
    check(device, transfers)


SHAPES = [
    (70, 130), (64, 64), (200, 3), (3, 200), (5000, 2), (1, 9), (9, 1), (0, 4), (8, 8), (65, 7, 66),
]  # fmt: skip


@pytest.mark.parametrize(
    "element_type", [_E.UINT8, _E.FLOAT16, _E.INT32, _E.INT64], ids=lambda t: t.name
)
def test_tiles_cover_sides_of_any_length(device: Any, element_type: ElementType) -> None:
    transfers = []
    for shape in SHAPES:
        tensor, row = numbers(shape, element_type), tuple(range(len(shape)))
        for source, target in ((row, row[::-1]), (row[::-1], row), (row, row)):
            transfers.append(Transfer(tensor, source, target, element_type))
    check(device, transfers)


NUMBERS = [t for t in CL_TYPES if t is not _E.BOOL]
HALF = np.array([0, -0.0, 1, -1.5, 65504, -65504, 6e-8, np.inf, -np.inf, 0.1], np.float16)


def test_each_number_that_both_types_have_is_converted(device: Any) -> None:
    """Checks 21 small whole numbers: whole vectors, and a remainder."""
    transfers = []
    types = list(CL_TYPES)
    for place, source in enumerate(types):
        for distance in (1, 4, 6):
            target = types[(place + distance) % len(types)]
            limit = 2 if _E.BOOL in (source, target) else 100
            values = (np.arange(21) * 5 % limit).astype(source.numpy_dtype)
            transfers.append(Transfer(values, (0,), (0,), target))
    check(device, transfers)


def test_halves_become_floats_and_floats_halves(device: Any) -> None:
    floats = np.array(
        [0, 1, -1.5, 65504, 65519, 65520, 1e6, 5.96e-8, 2.9e-8, 1e-9, np.inf, -np.inf, 0.1, 1 / 3],
        np.float32,
    )
    with np.errstate(over="ignore"):
        check(
            device,
            [Transfer(HALF, (0,), (0,), _E.FLOAT32), Transfer(floats, (0,), (0,), _E.FLOAT16)],
        )
    (half,) = transfer(device, [Transfer(np.array([np.nan], np.float32), (0,), (0,), _E.FLOAT16)])
    assert np.isnan(half).all()


@pytest.mark.parametrize("source", [_E.FLOAT32, _E.FLOAT64], ids=lambda t: t.name)
def test_real_numbers_go_towards_zero_and_saturate(device: Any, source: ElementType) -> None:
    values = np.array([-1e30, -1.9, -0.5, 0.5, 1.9, 1e30] * 3, source.numpy_dtype)
    targets = [t for t in NUMBERS if not t.name.startswith("FLOAT")]
    results = transfer(device, [Transfer(values, (0,), (0,), t) for t in targets])
    for target, result in zip(targets, results, strict=True):
        limits = np.iinfo(target.numpy_dtype)
        middle = [-1 if limits.min else 0, 0, 0, 1]
        assert result[1:5].tolist() == middle, target.name
        assert result[0] == limits.min and result[5] > limits.max * 0.99999, target.name


def test_a_conversion_goes_from_one_order_to_another(device: Any) -> None:
    tensor = numbers((2, 5, 11, 3), _E.FLOAT16)
    orders = [(0, 1, 2, 3), (0, 3, 1, 2), (3, 1, 2, 0)]
    check(device, [Transfer(tensor, a, b, _E.FLOAT32) for a in orders for b in orders])


def test_where_the_order_stays_elements_of_every_shape_are_one_row() -> None:
    source, target = tensor_type(_E.FLOAT32, (2, 3, 4)), tensor_type(_E.INT32, (2, 3, 4))
    (command,) = dynamic_transfer_kernel("Convert", source, target).commands
    sizes = dict(command.fields)["sizes"]
    assert sizes == ("INPUT0_SHAPE[0]*INPUT0_SHAPE[1]*INPUT0_SHAPE[2]",)
