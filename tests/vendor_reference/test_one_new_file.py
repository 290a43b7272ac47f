"""Tests that one new file, without other edits, adds an OpenCL driver or a kind of asset."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from vendor_reference.custom_layers import asset_reader
from vendor_reference.drivers import driver
from vendor_reference.drivers.device_choice import choose_device, rank_devices
from vendor_reference.drivers.device_info import DeviceInfo
from vendor_reference.drivers.installation import find_installations

DRIVERS = "vendor_reference.drivers.known"
READERS = "vendor_reference.custom_layers.readers"

DRIVER = '''"""Slate's driver."""
from vendor_reference.drivers.driver import Driver


class Slate(Driver):
    """Writes the kernel's name in front of each message."""

    name = "slate"
    library = "libslate"
    platform = "Slate OpenCL"
    hint = "apt install slate"

    def clean_log(self, log: str) -> str:
        return log.removeprefix("kernel k: ")

    def merit(self, info: object) -> tuple[int, ...]:
        return (9000,)


DRIVER = Slate()
'''

READER = '''"""`.kernel`: OpenCL C by another name."""
from vendor_reference.custom_layers.asset_reader import AssetReader
from vendor_reference.custom_layers.readers.cl_reader import READER as CL


class KernelReader(AssetReader):
    """Reads what a `.cl` would hold."""

    suffix = ".kernel"

    def read(self, op_name, files, data):
        return CL.read(op_name, files, data)


READER = KernelReader()
'''


def _forget() -> None:
    """Clears the caches, so that the folders are scanned again."""
    driver.known_drivers.cache_clear()
    asset_reader._readers.cache_clear()


@pytest.fixture(autouse=True)
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Adds one file to each of the two packages."""
    for package, file, text in ((DRIVERS, "slate", DRIVER), (READERS, "kernel_reader", READER)):
        folder = tmp_path / package
        folder.mkdir()
        (folder / f"{file}.py").write_text(text)
        paths = list(importlib.import_module(package).__path__)
        monkeypatch.setattr(f"{package}.__path__", [*paths, str(folder)])
    _forget()
    yield
    for name in (f"{DRIVERS}.slate", f"{READERS}.kernel_reader"):
        sys.modules.pop(name, None)
    monkeypatch.undo()
    _forget()


def test_a_driver_is_found_by_its_library_and_its_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "libslate.so.1"
    library.write_text("no library")
    (tmp_path / "slate.icd").write_text(str(library))
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path / "cache"))
    [installation] = [i for i in find_installations() if i.driver.name == "slate"]
    assert installation.library == str(library) and installation.driver.hint == "apt install slate"
    with pytest.raises(LiteRtError) as error:
        choose_device("slate:no such device")
    assert error.value.status is Status.NOT_FOUND and f"slate ({tmp_path}" in error.value.what


def test_a_driver_s_quirks_count_for_its_devices() -> None:
    ours, other = (
        DeviceInfo(platform, "1", "d", "1", "1", "CPU", 1, 1, False)
        for platform in ("Slate OpenCL", "Other OpenCL")
    )
    assert driver.driver_of_device(ours).clean_log("kernel k: error") == "error"
    assert driver.driver_of_device(other).clean_log("kernel k: error") == "kernel k: error"
    assert rank_devices([other, ours], "") == [1, 0]
    assert rank_devices([other, ours], "slate") == [1]


def test_a_kind_of_asset_is_compiled(tmp_path: Path) -> None:
    asset = tmp_path / "Twice.kernel"
    asset.write_text(
        "__kernel void Twice(__global const float* x, __global float* y) {\n"
        "  const size_t i = get_global_id(0);\n  y[i] = 2 * x[i];\n}\n"
    )
    builder = ModelBuilder()
    x = builder.input("x", ElementType.FLOAT32, (4,))
    y = builder.tensor("y", ElementType.FLOAT32, (4,))
    builder.custom("Twice", [x], [y])
    builder.output(y)
    write_model(builder.build(), tmp_path / "in.tflite")
    options = CompilerOptions([CustomOpInfo("Twice", str(asset))], check_kernels=False)
    report = apply_plugin(
        tmp_path / "in.tflite", tmp_path / "out.tflite", ApplyOptions("Reference", compiler=options)
    )
    assert len(report.calls) == 1 and not report.cpu_ops


def test_the_kinds_of_assets_are_listed(tmp_path: Path) -> None:
    with pytest.raises(LiteRtError) as error:
        asset_reader.read_layer("Twice", str(tmp_path / "Twice.unknown"), memoryview(b""))
    assert ".kernel" in error.value.hint
