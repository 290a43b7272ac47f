"""Tests that installed drivers are found everywhere, and that a broken installation is a reason, not an error."""

from __future__ import annotations

import importlib.machinery
import sys
from pathlib import Path

import pytest

from vendor_reference.drivers import installation
from vendor_reference.drivers.installation import Installation, find_installations
from vendor_reference.drivers.known import intel


@pytest.fixture
def vendors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of ICD registrations, on a machine without other drivers."""
    folder = tmp_path / "vendors"
    folder.mkdir()
    monkeypatch.setenv("OCL_ICD_VENDORS", str(folder))
    monkeypatch.setattr(installation, "find_spec", lambda _: None)
    monkeypatch.setattr(intel, "_installed", lambda: iter(()))
    return folder


def only() -> Installation:
    (found,) = find_installations()
    return found


def test_a_registered_library_is_found_once(vendors: Path, tmp_path: Path) -> None:
    library = tmp_path / "libpocl.so.2"
    library.write_text("")
    (tmp_path / "link.so").symlink_to(library)
    (vendors / "a.icd").write_text(f"{library}\n")
    (vendors / "b.icd").write_text(f"{tmp_path}/link.so")
    found = only()
    assert (found.library, found.origin) == (str(library), str(vendors / "a.icd"))
    assert found.driver.name == "pocl" and not found.problem


def test_a_library_lies_beside_its_registration_or_where_the_linker_finds_it(vendors: Path) -> None:
    (vendors / "liboclgrind-rt.so").write_text("")
    (vendors / "a.icd").write_text("liboclgrind-rt.so")
    (vendors / "b.icd").write_text("libnvidia-opencl.so.1")
    simulator, gpu = find_installations()
    assert simulator.library == str(vendors / "liboclgrind-rt.so")
    assert simulator.driver.is_simulator
    assert gpu.library == "libnvidia-opencl.so.1" and gpu.driver.name == ""
    assert gpu.name == "libnvidia-opencl.so.1" and not gpu.problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file does not contain the path of a driver's library"),
        ("\n/lib/x.so", "the file does not contain the path of a driver's library"),
        (
            "/opt/placeholder/libintelocl.so",
            "the driver's library /opt/placeholder/libintelocl.so does not exist",
        ),
    ],
)
def test_a_registration_that_names_nothing_has_the_reason(
    vendors: Path, text: str, problem: str
) -> None:
    (vendors / "a.icd").write_text(text)
    assert only().problem == problem and only().name


def test_a_registration_that_cannot_be_read_has_the_reason(vendors: Path) -> None:
    (vendors / "a.icd").mkdir()
    assert only().problem == "the file cannot be read: is a directory"


def test_drivers_of_one_name_stay_apart(vendors: Path, tmp_path: Path) -> None:
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "libintelocl.so").write_text("")
        (vendors / f"{folder}.icd").write_text(str(tmp_path / folder / "libintelocl.so"))
    assert [found.driver.name for found in find_installations()] == ["intel", "intel"]


def test_a_variable_that_names_nothing_has_the_reason(
    vendors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = "the driver's library "
    for name, what in (("nowhere", ""), ("nowhere.icd", ""), ("libnothing.so.2", library)):
        monkeypatch.setenv("OCL_ICD_VENDORS", str(vendors / name))
        assert only().problem == f"{what}{vendors / name} does not exist"


@pytest.mark.parametrize("name", ["one.icd", "libpocl.so", "libpocl.so.2"])
def test_the_variable_may_name_a_registration_or_a_library(
    vendors: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in ("libpocl.so", "libpocl.so.2"):
        (tmp_path / library).write_text("")
    (tmp_path / "one.icd").write_text(str(tmp_path / "libpocl.so"))
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / name))
    assert only().library == str(tmp_path / name.replace("one.icd", "libpocl.so"))


def test_registrations_beside_the_loader_are_found(
    vendors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libs = tmp_path / "pyopencl" / ".libs"
    libs.mkdir(parents=True)
    (libs / "pocl.icd").write_text("libpocl-123.so")
    (libs / "libpocl-123.so").write_text("")
    spec = importlib.machinery.ModuleSpec("pyopencl", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "pyopencl")]
    monkeypatch.setattr(installation, "find_spec", lambda _: spec)
    assert only().library == str(libs / "libpocl-123.so")


@pytest.mark.parametrize(
    ("packages", "entry"),
    [
        ("lib/python3.11/site-packages", "../../libintelocl.so"),
        ("target", "lib/libintelocl.so"),
        ("usr/lib/python3/dist-packages", "../../../local/lib/libintelocl.so"),
    ],
    ids=["environment", "target", "system"],
)
def test_intels_library_is_found_by_the_list_of_the_packages_files(
    vendors: Path,
    tmp_path: Path,
    packages: str,
    entry: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("OCL_ICD_VENDORS", str(vendors))
    monkeypatch.setattr(installation, "find_spec", lambda _: None)
    folder = tmp_path / packages
    info = folder / "intel_opencl_rt-2026.2.0.dist-info"
    info.mkdir(parents=True)
    lines = ["../../../libintelocl.so-gdb.py,,", f"{entry},sha256=x,1", f"{entry}.2026,,"]
    (info / "RECORD").write_text("\n".join(lines))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "nowhere"), str(folder)])
    library = (folder / entry).resolve()
    assert only().problem == "the driver's library does not exist"
    library.parent.mkdir(parents=True, exist_ok=True)
    library.write_text("")
    assert only().library == str(library) and not only().problem


def test_a_distribution_without_a_list_of_files_is_no_error(
    vendors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    (tmp_path / "intel_opencl_rt-2026.2.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert list(intel.DRIVER.find()) == []
