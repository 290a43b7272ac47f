"""Fixtures for tests that use OpenCL."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from litert.core.errors import LiteRtError
from vendor_reference.device.opencl import import_pyopencl
from vendor_reference.device.scratch_folder import make_scratch_folder
from vendor_reference.drivers.device_choice import find_devices
from vendor_reference.drivers.driver import driver_of_library

_opened: dict[str, Any] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs tests on each OpenCL device: those with the fixture `device`, and modules marked `each_driver`.

    A test with the mark `driver` runs only on the devices of that driver.
    """
    if metafunc.definition.get_closest_marker("each_driver"):
        metafunc.fixturenames.append("chosen_driver")
        drivers = dict.fromkeys(name.split(",")[0] for name in _find_devices())
        metafunc.parametrize("chosen_driver", list(drivers) or [_no_driver()], indirect=True)
    if "device" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("driver")
        wanted = marker.args[0] if marker else ""
        names = [name for name in _find_devices() if name.startswith(wanted)]
        metafunc.parametrize("device", names or [_no_driver(wanted)], indirect=True)


def _no_driver(wanted: str = "") -> Any:
    skip = pytest.mark.skip(reason=f"no OpenCL driver {wanted} to test with")
    return pytest.param("none", marks=skip)


@pytest.fixture
def chosen_driver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The driver that a test and the processes that it starts run on."""
    monkeypatch.setenv("LITERT_NPU_OPENCL", request.param)
    return str(request.param)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Any:
    """An `OpenClDevice` that stays open for all tests of this process."""
    from vendor_reference.device.opencl_device import OpenClDevice

    name = request.param
    if name not in _opened:
        _opened[name] = OpenClDevice(*_find_devices()[name])
    return _opened[name]


@cache
def _find_devices() -> Mapping[str, tuple[Any, str]]:
    """Loads all drivers that work into this process; returns their devices and the drivers' libraries."""
    try:
        chosen = find_devices()
    except LiteRtError:
        return {}
    _load_drivers({device.installation.library for device in chosen})
    from vendor_reference.device.opencl import find_device

    return {
        f"{device.installation.name}, {device.info.name}": (
            find_device(device.installation.library, device.info.identity),
            device.installation.library,
        )
        for device in chosen
    }


def _load_drivers(libraries: Collection[str]) -> None:
    """Loads several drivers, as a program that uses OpenCL itself may do; the SDK loads only one."""
    import_pyopencl()
    import pyopencl as cl

    scratch = make_scratch_folder()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for number, library in enumerate(libraries):
            Path(folder, f"{number}.icd").write_text(library)
        patch.setenv("OCL_ICD_VENDORS", folder)
        for library in libraries:
            for name, value in driver_of_library(library).environment(lambda: scratch).items():
                patch.setenv(name, value)
        for platform in cl.get_platforms():
            platform.get_devices()
