"""Tests the option `threads`: it limits the compute units that run a model's kernels, and keeps the results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.vendor_reference.library_runs import run_library
from tests.vendor_reference.test_separate_launches import layers
from vendor_reference.dispatch import DISPATCH


def test_a_part_of_the_device_computes_the_same(device: Any) -> None:
    part = device.limited(1)
    assert part.info.compute_units == part.cl_device.max_compute_units == 1
    for whole, limited in zip(
        run_library(device, layers()), run_library(part, layers()), strict=True
    ):
        np.testing.assert_array_equal(limited, whole)


def test_all_compute_units_are_the_device_itself(device: Any) -> None:
    assert device.limited(device.info.compute_units) is device
    assert device.limited(10**9) is device


def test_a_device_that_cannot_be_split_says_so(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device.info.compute_units == 1:
        pytest.skip("a device of one compute unit needs no split")
    monkeypatch.setattr(device, "_parts", {})
    with pytest.raises(
        LiteRtError, match="'threads' is 1, but this OpenCL device cannot use only a part of its"
    ) as error:
        device.limited(1)
    assert error.value.status is Status.UNSUPPORTED


def test_the_option_gives_a_model_a_part_of_the_device() -> None:
    context = DISPATCH.device_context_create({"threads": "1"})
    assert context.device.info.compute_units == 1


@pytest.mark.parametrize("value", ["0", "-1", "many", "", "1.5"])
def test_a_wrong_number_of_threads_is_refused(value: str) -> None:
    with pytest.raises(LiteRtError, match="option 'threads' is") as error:
        DISPATCH.device_context_create({"threads": value})
    assert error.value.status is Status.INVALID_ARGUMENT
