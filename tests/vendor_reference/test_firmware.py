"""Tests that the firmware's results do not depend on the number of workers or on previous runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.vendor_reference.firmware_runs import Lab, clamp_fields


@pytest.mark.parametrize("workers", [1, 2, 3, 8, 20])
def test_commands_run_in_order_whatever_the_number_of_workers(workers: int) -> None:
    x = np.random.default_rng(0).normal(size=100_003).astype(np.float32) * 8
    y, z = np.zeros_like(x), np.zeros_like(x)
    commands = [
        ("Pool", {"input": x, "result": y, **clamp_fields(x.size, -3.0, 6.0)}),
        ("Pool", {"input": y, "result": z, **clamp_fields(x.size, 0.0, 100.0)}),
    ] * 20
    Lab().run(commands, workers, repeats=3)
    np.testing.assert_array_equal(z, np.clip(x, 0, 6))


@pytest.mark.driver("intel")  # its default is OpenCL C 1.2; PoCL's is 3.0
@pytest.mark.parametrize("options", ["-cl-std=CL2.0", "-cl-std=CL3.0"])
def test_the_firmware_is_right_with_ordering_atomics(device: Any, options: str) -> None:
    x = np.random.default_rng(1).normal(size=10_003).astype(np.float32) * 8
    y, z = np.zeros_like(x), np.zeros_like(x)
    commands = [
        ("Pool", {"input": x, "result": y, **clamp_fields(x.size, -3.0, 6.0)}),
        ("Pool", {"input": y, "result": z, **clamp_fields(x.size, 0.0, 100.0)}),
    ]
    Lab(device.default_tuning, options, device).run(commands, workers=2, repeats=2)
    np.testing.assert_array_equal(z, np.clip(x, 0, 6))
