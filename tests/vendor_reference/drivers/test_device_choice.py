"""Tests which OpenCL device is chosen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.drivers import device_choice
from vendor_reference.drivers.device_choice import (
    ChosenDevice,
    choose_device,
    rank_devices,
)
from vendor_reference.drivers.device_info import DeviceInfo
from vendor_reference.drivers.driver import VARIABLE, driver_of_device
from vendor_reference.drivers.installation import Installation
from vendor_reference.drivers.proof import Proof

There = Callable[..., None]


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> There:
    """A function that sets the machine's drivers: each has one device, or a reason why it has none."""

    def make(*drivers: DeviceInfo | str) -> None:
        proofs = {}
        for number, found in enumerate(drivers):
            problem = found if isinstance(found, str) else ""
            infos = [found] if isinstance(found, DeviceInfo) else []
            driver = driver_of_device(infos[0] if infos else OTHER_GPU)
            installation = Installation(driver, f"/lib/{number}.so", f"/etc/{number}.icd")
            proofs[installation] = Proof(installation, infos, problem)
        monkeypatch.setattr(device_choice, "find_installations", lambda: list(proofs))
        monkeypatch.setattr(device_choice, "prove", proofs.__getitem__)

    return make


def device(platform: str, version: str, name: str, kind: str = "CPU") -> DeviceInfo:
    return DeviceInfo(platform, version, name, "OpenCL 3.0", "1.0", kind, 2, 1 << 30, False)


POCL = "Portable Computing Language"
OLD_POCL = device(POCL, "OpenCL 3.0 PoCL 3.0-rc2  Linux", "pthread-AMD EPYC")
NEW_POCL = device(POCL, "OpenCL 3.0 PoCL 3.1+debian  Linux", "pthread-znver3-AMD EPYC")
NEWEST_POCL = device(POCL, "OpenCL 3.0 PoCL 10.0  Linux", "cpu-znver3-AMD EPYC")
MAKERS_CPU = device("Intel(R) OpenCL", "OpenCL 3.0 LINUX", "Intel(R) Xeon(R)")
GPU = device("NVIDIA CUDA", "OpenCL 3.0 CUDA 12.4", "NVIDIA H200", "GPU")
INTELS_GPU = device("Intel(R) OpenCL Graphics", "OpenCL 3.0", "Intel(R) Arc(TM)", "GPU")
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
def test_the_best_device_is_taken(
    devices: list[DeviceInfo], chosen: DeviceInfo, there: There
) -> None:
    there(*devices)
    assert choose_device().info is chosen


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ("portable", NEW_POCL),
        ("PoCL 3.0", OLD_POCL),
        ("nvidia:h200", GPU),
        (":epyc", NEW_POCL),
        ("oclgrind", SIMULATOR),
        (" NVIDIA : h200 ", GPU),
        ("pocl", NEW_POCL),
    ],
)
def test_a_device_is_called_by_parts_of_its_names(
    wanted: str, chosen: DeviceInfo, there: There
) -> None:
    there(OLD_POCL, SIMULATOR, GPU, NEW_POCL)
    assert choose_device(wanted).info is chosen


def test_the_environment_names_a_device(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "PoCL 3.0")
    there(NEW_POCL, OLD_POCL)
    assert choose_device().info is OLD_POCL
    assert choose_device("3.1").info is NEW_POCL


def test_a_device_that_is_not_there_is_an_error_with_those_that_are(
    there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    there(OLD_POCL, GPU)
    with pytest.raises(LiteRtError) as error:
        choose_device("intel")
    assert error.value.status is Status.NOT_FOUND
    assert "no OpenCL device matches 'intel'; the available devices are " in error.value.what
    assert "NVIDIA H200" in error.value.what
    assert "Set the dispatch option 'opencl' to" in error.value.hint
    monkeypatch.setenv(VARIABLE, "intel")
    there(GPU)
    with pytest.raises(LiteRtError, match="the only available device is NVIDIA") as error:
        choose_device()
    assert f"Set the environment variable {VARIABLE} to" in error.value.hint


def test_a_driver_that_does_not_work_is_passed_over(there: There) -> None:
    there("the device cannot build a kernel: error: unknown target CPU 'generic'", OLD_POCL)
    assert choose_device() == ChosenDevice(choose_device().installation, OLD_POCL)


def test_where_no_driver_works_each_is_named_with_its_reason(there: There) -> None:
    there("unknown target CPU 'generic'", "it crashed (SIGSEGV: Segmentation fault)")
    with pytest.raises(LiteRtError) as error:
        choose_device()
    assert error.value.status is Status.NOT_FOUND
    assert "\n" not in error.value.what
    for text in ("/etc/0.icd", "unknown target CPU", "/etc/1.icd", "SIGSEGV"):
        assert text in error.value.what
    assert "pip install intel-opencl-rt" in error.value.hint


def test_a_machine_without_drivers_is_told_what_to_install(there: There) -> None:
    there()
    with pytest.raises(LiteRtError) as error:
        choose_device()
    assert error.value.what == "no OpenCL driver is installed"
    assert "pip install intel-opencl-rt" in error.value.hint
    assert "apt install pocl-opencl-icd" in error.value.hint


def test_a_driver_that_is_named_and_works_is_tried_alone(
    there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    there(NEW_POCL, GPU, "it hangs")
    proved: list[str] = []
    real: Callable[[Installation], Proof] = getattr(device_choice, "prove")  # noqa: B009  # the fixture's

    def prove(installation: Installation) -> Proof:
        proved.append(installation.driver.name)
        return real(installation)

    monkeypatch.setattr(device_choice, "prove", prove)
    assert choose_device("pocl").info is NEW_POCL and proved == ["pocl"]
    assert choose_device("nvidia").info is GPU and len(proved) == 4


@pytest.mark.parametrize("wanted", ["", "opencl", ":o"])
def test_a_simulator_alone_is_not_taken_by_accident(wanted: str, there: There) -> None:
    there(SIMULATOR)
    with pytest.raises(LiteRtError):
        choose_device(wanted)
    assert rank_devices([SIMULATOR], wanted) == []


def test_a_driver_is_known_by_its_platforms_whole_name() -> None:
    assert driver_of_device(MAKERS_CPU).name == "intel"
    assert driver_of_device(INTELS_GPU).name == ""
