"""Which OpenCL device is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference import device_presence
from vendor_reference.device.device_choice import VARIABLE, DeviceInfo, choose_device


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def device(platform: str, version: str, name: str, kind: str = "CPU") -> DeviceInfo:
    return DeviceInfo(platform, version, name, "OpenCL 3.0", "1.0", kind, 2, 1 << 30, False)


POCL = "Portable Computing Language"
OLD_POCL = device(POCL, "OpenCL 3.0 PoCL 3.0-rc2  Linux", "pthread-AMD EPYC")
NEW_POCL = device(POCL, "OpenCL 3.0 PoCL 3.1+debian  Linux", "pthread-znver3-AMD EPYC")
NEWEST_POCL = device(POCL, "OpenCL 3.0 PoCL 10.0  Linux", "cpu-znver3-AMD EPYC")
MAKERS_CPU = device("Intel(R) OpenCL", "OpenCL 3.0 LINUX", "Intel(R) Xeon(R)")
GPU = device("NVIDIA CUDA", "OpenCL 3.0 CUDA 12.4", "NVIDIA H200", "GPU")
OTHER_GPU = device("rusticl", "OpenCL 3.0", "AMD Radeon", "GPU")
FPGA = device("Some FPGA", "OpenCL 1.2", "board", "ACCELERATOR")
SIMULATOR = device("Oclgrind", "OpenCL 3.0 (Oclgrind 21.10)", "Oclgrind Simulator", "CPU")
ODD = device("Odd", "OpenCL 3.0", "thing", "CUSTOM")


@pytest.mark.parametrize(
    ("devices", "chosen"),
    [
        ([OLD_POCL], OLD_POCL),
        ([OLD_POCL, NEW_POCL], NEW_POCL),
        ([NEWEST_POCL, NEW_POCL], NEWEST_POCL),
        ([OLD_POCL, MAKERS_CPU], MAKERS_CPU),
        ([MAKERS_CPU, GPU, FPGA], GPU),
        ([OLD_POCL, FPGA], FPGA),
        ([GPU, OTHER_GPU], GPU),
        ([SIMULATOR, OLD_POCL], OLD_POCL),
        ([ODD, OLD_POCL], OLD_POCL),
    ],
    ids=[
        "the only one",
        "newer PoCL",
        "ten is more than three",
        "the maker's driver",
        "GPU",
        "accelerator",
        "first of equals",
        "no simulator",
        "no odd one",
    ],
)
def test_the_best_device_is_taken(devices: list[DeviceInfo], chosen: DeviceInfo) -> None:
    assert devices[choose_device(devices)] is chosen


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ("portable", NEW_POCL),
        ("PoCL 3.0", OLD_POCL),
        ("nvidia:h200", GPU),
        (":epyc", NEW_POCL),
        ("oclgrind", SIMULATOR),
        (" NVIDIA : h200 ", GPU),
    ],
)
def test_a_device_is_called_by_parts_of_its_names(wanted: str, chosen: DeviceInfo) -> None:
    devices = [OLD_POCL, SIMULATOR, GPU, NEW_POCL]
    assert devices[choose_device(devices, wanted)] is chosen


def test_the_environment_names_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "PoCL 3.0")
    devices = [NEW_POCL, OLD_POCL]
    assert devices[choose_device(devices)] is OLD_POCL
    assert devices[choose_device(devices, "3.1")] is NEW_POCL


def test_a_device_that_is_not_there_is_an_error_with_those_that_are() -> None:
    with pytest.raises(LiteRtError) as error:
        choose_device([OLD_POCL, GPU], "intel")
    assert error.value.status is Status.NOT_FOUND
    assert "'intel'" in error.value.what and "NVIDIA H200" in error.value.what
    assert VARIABLE in error.value.hint


@pytest.mark.parametrize("wanted", ["", "opencl", ":o"])
def test_a_simulator_alone_is_not_taken_by_accident(wanted: str) -> None:
    with pytest.raises(LiteRtError) as error:
        choose_device([SIMULATOR], wanted)
    assert "no OpenCL device" in error.value.what


def test_a_simulator_is_no_driver_to_run_models_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "oclgrind.icd").write_text("liboclgrind-rt-icd.so")
    monkeypatch.setattr(device_presence, "find_registrations", lambda: [f"{tmp_path}/oclgrind.icd"])
    with pytest.raises(LiteRtError, match="no OpenCL driver is installed"):
        device_presence.check_device("")
