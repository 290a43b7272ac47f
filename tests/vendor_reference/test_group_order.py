"""Tests which devices can pass results between work groups within one launch, and with which build option."""

from __future__ import annotations

import pytest

from vendor_reference.device.group_order import ordering_option
from vendor_reference.drivers.device_info import DeviceInfo
from vendor_reference.drivers.driver import Driver, known_drivers

NONE, RELAXED, ALL = 0, 1 << 0 | 1 << 4, 0x7F
"""Atomic capabilities as bits of `cl.h`: none, the minimum of OpenCL 3.0, and all."""


def device(kind: str, version: str, platform: str = "Acme") -> DeviceInfo:
    return DeviceInfo(platform, version, "d", version, "1.0", kind, 2, 1 << 30, False)


@pytest.mark.parametrize(
    ("info", "capabilities", "option"),
    [
        (device("CPU", "OpenCL 1.2"), NONE, ""),
        (device("CPU", "OpenCL 3.0"), ALL, ""),
        (device("GPU", "OpenCL 1.2 x"), NONE, None),
        (device("GPU", "OpenCL 2.1 x"), NONE, "-cl-std=CL2.0"),
        (device("GPU", "OpenCL 3.0 x"), ALL, "-cl-std=CL3.0"),
        (device("GPU", "OpenCL 3.0 x"), RELAXED, None),
        (device("GPU", "OpenCL 3.0 x"), RELAXED | 1 << 1, None),  # ordered within a group only
        (device("ACCELERATOR", "junk"), NONE, None),
    ],
)
def test_groups_hand_on_results_where_the_device_says_so(
    info: DeviceInfo, capabilities: int, option: str | None
) -> None:
    assert ordering_option(info, capabilities) == option


@pytest.mark.parametrize("kind", ["CPU", "GPU"])
def test_a_known_driver_can_say_that_they_cannot(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Acme(Driver):
        platform = "Acme"
        orders_groups = False

    monkeypatch.setitem(known_drivers(), "acme", Acme())
    assert ordering_option(device(kind, "OpenCL 3.0"), ALL) is None
    assert ordering_option(device(kind, "OpenCL 3.0", "Other"), ALL) is not None
