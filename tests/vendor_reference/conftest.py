"""Fixtures for what runs on OpenCL."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from litert.core.errors import LiteRtError
from vendor_reference.device.device_choice import DeviceInfo, choose_device

_opened: dict[str, Any] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `device` runs on each OpenCL device found, simulators apart."""
    if "device" in metafunc.fixturenames:
        names = _find_devices()
        skip = pytest.mark.skip(reason="no OpenCL device to test with")
        metafunc.parametrize(
            "device", list(names) or [pytest.param("none", marks=skip)], indirect=True
        )


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cache folder for all tests of this run, in whatever process."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    return str(folder / "litert-npu-cache")


@pytest.fixture
def device(
    request: pytest.FixtureRequest, shared_cache: str, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """An `OpenClDevice`, open for all tests of this process."""
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", shared_cache)
    from vendor_reference.device.opencl_device import OpenClDevice

    name = request.param
    if name not in _opened:
        _opened[name] = OpenClDevice(_find_devices()[name])
    return _opened[name]


def _find_devices() -> Mapping[str, Any]:
    from vendor_reference.device.opencl import load_platforms

    try:
        load_platforms()
        from vendor_reference.device.device_info import describe_device, find_usable_devices

        devices = find_usable_devices()
    except LiteRtError:
        return {}
    found = {}
    for device in devices:
        info = describe_device(device)
        if _is_for_tests(info):
            found[f"{info.name}, {info.platform_version}"] = device
    return found


def _is_for_tests(info: DeviceInfo) -> bool:
    try:
        choose_device([info])
    except LiteRtError:
        return False
    return True
