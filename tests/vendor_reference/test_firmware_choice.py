"""Tests the firmware's tuning: it is measured on request and stored per device; other devices get a default."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from litert.host.cache_entry import write_entry
from vendor_reference.authoring import firmware_tune
from vendor_reference.cache import read_file
from vendor_reference.device import firmware_choice
from vendor_reference.device.firmware_choice import find_tuning, forget_tuning, keep_tuning
from vendor_reference.device.opencl_device import OpenClDevice, shared_device
from vendor_reference.drivers.driver import driver_of_device
from vendor_reference.firmware.program import FirmwareTuning

SMALL: Mapping[str, Any] = {"a product": ("FULLY_CONNECTED", (7, 40), (33, 40), (7, 33), {})}
Times = list[list[list[float]]]


@pytest.fixture
def device() -> Iterator[OpenClDevice]:
    found = shared_device("")
    before = found.firmware_tuning
    yield found
    found.firmware_tuning = before


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path))
    return tmp_path / "litert-npu-cache" / "tuning"


def other(tuning: FirmwareTuning) -> FirmwareTuning:
    return replace(tuning, unit_operations=1000)


def opened_anew(device: OpenClDevice) -> OpenClDevice:
    """Returns the device as a later process would open it."""
    return OpenClDevice(device.cl_device, device.library)


@pytest.mark.each_driver
@pytest.mark.usefixtures("cache")
def test_a_choice_is_kept_for_its_device_until_it_is_forgotten(device: OpenClDevice) -> None:
    default = opened_anew(device).firmware_tuning
    keep_tuning(device.info, other(default))
    assert opened_anew(device).firmware_tuning == other(default)
    assert find_tuning(replace(device.info, driver_version="99")) is None
    forget_tuning(device.info)
    forget_tuning(device.info)
    assert opened_anew(device).firmware_tuning == default


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\xff{",
        {"width": 12},
        {"width": 1 << 40},
        {"rows": 0},
        {"unit_operations": "many"},
        {"scratch": 1},
        {"speed": 9},
    ],
    ids=str,
)
def test_a_damaged_choice_is_ignored_with_a_warning(
    device: OpenClDevice, cache: Path, caplog: pytest.LogCaptureFixture, damage: Any
) -> None:
    keep_tuning(device.info, other(device.default_tuning))
    (path,) = cache.iterdir()
    if isinstance(damage, bytes):
        path.write_bytes(damage)
    else:
        kept = json.loads(read_file("tuning", path.name))
        changed = {**kept, "tuning": kept["tuning"] | damage}
        write_entry(str(path), "tuning", json.dumps(changed).encode())
    assert find_tuning(device.info) is None
    assert (
        "The emulated NPU uses the default tuning, because the stored tuning cannot be used"
        in caplog.text
    )
    assert opened_anew(device).firmware_tuning == device.default_tuning


@pytest.mark.each_driver
@pytest.mark.parametrize(
    ("second_s", "is_better"), [(0.5e-3, True), (0.99e-3, False), (2e-3, False)]
)
def test_only_what_is_clearly_faster_is_chosen(
    device: OpenClDevice,
    monkeypatch: pytest.MonkeyPatch,
    second_s: float,
    is_better: bool,
) -> None:

    def measure(calls: Sequence[object]) -> Times:
        assert len(calls) == 2
        return [[[1e-3] * 8], [[second_s] * 8]]

    default = device.default_tuning
    monkeypatch.setattr(firmware_tune, "LAYERS", SMALL)
    monkeypatch.setattr(firmware_tune, "_measure", measure)
    monkeypatch.setattr(firmware_tune, "candidates", lambda *_: [default, other(default)])
    best, tried = firmware_tune.tune_firmware(device)
    assert best == device.firmware_tuning == (other(default) if is_better else default)
    assert [one.problem for one in tried] == ["", ""]
    assert tried[1].relative == pytest.approx(second_s / 1e-3)


def test_what_makes_other_results_is_not_chosen(
    device: OpenClDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    default, fill = device.default_tuning, firmware_tune._fill

    def fill_wrongly(call: Any) -> Any:
        made = fill(call)
        made.outputs[0].array[...] += device.firmware_tuning != default
        return made

    monkeypatch.setattr(firmware_tune, "LAYERS", SMALL)
    monkeypatch.setattr(firmware_tune, "_fill", fill_wrongly)
    monkeypatch.setattr(firmware_tune, "_measure", lambda _: [[[1e-3] * 8], [[1e-6] * 8]])
    monkeypatch.setattr(firmware_tune, "candidates", lambda *_: [default, other(default)])
    best, tried = firmware_tune.tune_firmware(device)
    assert best == default and "the result differs by" in tried[1].problem


def test_candidates_are_right_for_the_device(device: OpenClDevice) -> None:
    """Checks that the default comes first, and that no candidate is wider than the driver's limit."""
    found = firmware_choice.candidates(device.default_tuning, device.info)
    assert found[0] == device.default_tuning and len(found) == len(set(found)) > 4
    widest = driver_of_device(device.info).widest_vector
    assert all(tuning.width <= widest for tuning in found)
