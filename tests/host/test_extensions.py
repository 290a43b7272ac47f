"""Tests how extensions are found and loaded: from folders, packages and entry points."""

from __future__ import annotations

import os
import runpy
import shutil
import sys
from asyncio import CancelledError
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host import extensions
from litert.host.vendor_call import VendorCall


class UnspeakableError(Exception):
    """An exception whose text cannot be formatted."""

    def __str__(self) -> str:
        raise ZeroDivisionError


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def install(site: Path, name: str, entry_points: str) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)


def test_files_are_found_below_a_folder_by_their_names(tmp_path: Path) -> None:
    write(tmp_path, LiteRtDispatchA="", other="")
    write(tmp_path / "deep", LiteRtDispatchB="")
    write(tmp_path / ".hidden", LiteRtDispatchC="")
    found = extensions.find_files([str(tmp_path)], ["LiteRtDispatch*.py"])
    assert [Path(path).name for path in found] == ["LiteRtDispatchA.py", "LiteRtDispatchB.py"]


def test_a_file_in_two_folders_that_overlap_is_found_once(tmp_path: Path) -> None:
    deep = write(tmp_path / "deep", LiteRtDispatchA="")
    (tmp_path / "link").symlink_to(deep, target_is_directory=True)
    folders = [str(tmp_path), str(deep), str(tmp_path / "link")]
    assert len(extensions.find_files(folders, ["*.py"])) == 1


@pytest.mark.parametrize("name", ["missing", "file.txt"])
def test_a_folder_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file.txt").touch()
    with pytest.raises(LiteRtError) as error:
        extensions.find_files([str(tmp_path / name)], ["*.py"])
    assert error.value.status is Status.NOT_FOUND
    assert name in str(error.value)


def test_a_file_is_imported_once_and_sees_its_neighbours(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        LiteRtDispatchA="from . import part\nDISPATCH = [part.VALUE]",
        part="VALUE = 3",
    )
    path = str(folder / "LiteRtDispatchA.py")
    first = extensions.load_file(path, "DISPATCH")
    assert first == [3]
    assert extensions.load_file(path, "DISPATCH") is first
    assert str(folder) not in sys.path


def test_a_file_is_imported_without_what_imports_importlib_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(extensions, "invalidate_caches")  # imports that since Python 3.13
    path = write(tmp_path, LiteRtDispatch="DISPATCH = 1") / "LiteRtDispatch.py"
    assert extensions.load_file(str(path), "DISPATCH") == 1


def test_files_of_the_same_name_in_two_folders_are_two_modules(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / name, LiteRtDispatch=f"DISPATCH = {name!r}")
    paths = [str(tmp_path / name / "LiteRtDispatch.py") for name in "ab"]
    assert [extensions.load_file(path, "DISPATCH") for path in paths] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("x = (", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("\n1 / 0", "LiteRtDispatch.py:2"),
        ("pass", "the module does not define DISPATCH"),
    ],
    ids=["import", "syntax", "exit", "line", "constant"],
)
def test_a_broken_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    path = write(tmp_path, LiteRtDispatch=text) / "LiteRtDispatch.py"
    with pytest.raises(LiteRtError) as error:
        extensions.load_file(str(path), "DISPATCH")
    assert error.value.status is Status.DYNAMIC_LOADING
    assert says in str(error.value)
    assert str(path) in str(error.value)


def test_a_file_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    with pytest.raises(LiteRtError, match="the path is not a regular file") as error:
        extensions.load_file(str(tmp_path / "pipe.py"), "X")
    assert error.value.status is Status.INVALID_ARGUMENT


def test_a_file_that_failed_is_imported_again_when_repaired(tmp_path: Path) -> None:
    path = write(tmp_path, LiteRtDispatch="1 / 0") / "LiteRtDispatch.py"
    with pytest.raises(LiteRtError):
        extensions.load_file(str(path), "DISPATCH")
    path.write_text("DISPATCH = 'repaired'")
    assert extensions.load_file(str(path), "DISPATCH") == "repaired"


def test_a_package_gives_one_extension_for_each_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "readers_one", __init__="", cl="READER = 'cl'", a="READER = 'a'", _x="1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    assert list(extensions.load_package("readers_one", "READER", str.upper)) == ["A", "CL"]


def test_two_modules_of_a_package_cannot_take_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "readers_two", __init__="", b="READER = 'x'", a="READER = 'x'")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(LiteRtError) as error:
        extensions.load_package("readers_two", "READER", str)
    assert error.value.status is Status.ALREADY_EXISTS
    assert "readers_two.a and in readers_two.b" in str(error.value)


def test_entry_points_are_found_without_importing_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "acme", "[some.group]\nAcme = acme_driver.table:DISPATCH\n")
    monkeypatch.syspath_prepend(tmp_path)
    point = extensions.find_entry_points("some.group")["Acme"]
    assert str(point) == "entry point 'Acme' of acme 1.0"
    with pytest.raises(LiteRtError) as error:
        extensions.load_entry_point(point)
    assert "acme 1.0" in str(error.value)
    assert "acme_driver" in str(error.value)


@pytest.mark.parametrize("kind", ["zip", "egg", "finder"])
def test_packages_without_a_folder_of_their_own_are_found(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", "acme", "[any.group]\nAcme = a:X\n")
    if kind == "zip":
        path = shutil.make_archive(str(tmp_path / "app"), "zip", tmp_path / "site")
        monkeypatch.syspath_prepend(path)
    elif kind == "egg":
        (tmp_path / "acme.egg").mkdir()
        info = next((tmp_path / "site").iterdir())
        (info / "METADATA").rename(info / "PKG-INFO")
        info.rename(tmp_path / "acme.egg" / "EGG-INFO")
        monkeypatch.syspath_prepend(tmp_path / "acme.egg")
    else:
        monkeypatch.setattr("sys.meta_path", [*sys.meta_path, Finder(tmp_path / "site")])
    point = extensions.find_entry_points("any.group")["Acme"]
    assert str(point) == "entry point 'Acme' of acme 1.0" and point.attribute == "X"


class Finder(metadata.DistributionFinder):
    """Finds packages in a folder that is not in `sys.path`."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def find_distributions(self, context: object = None) -> Iterable[metadata.Distribution]:
        there = metadata.DistributionFinder.Context(path=[self._folder])
        return metadata.MetadataPathFinder.find_distributions(there)


def test_a_package_of_the_current_folder_is_of_that_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", ["", *sys.path])
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        install(tmp_path / name, name, f"[here.group]\n{name} = a:X\n")
        monkeypatch.chdir(tmp_path / name)
        assert list(extensions.find_entry_points("here.group")) == [name]


def test_an_entry_point_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "acme", "[load.group]\nAcme = acme_loaded:table.DISPATCH\n")
    write(tmp_path, acme_loaded="class table:\n    DISPATCH = 7")
    monkeypatch.syspath_prepend(tmp_path)
    point = extensions.find_entry_points("load.group")["Acme"]
    assert extensions.load_entry_point(point) == 7


def test_two_packages_cannot_offer_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "acme", "[twice.group]\nAcme = a:X\n")
    install(tmp_path, "other", "[twice.group]\nAcme = b:X\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(LiteRtError) as error:
        extensions.find_entry_points("twice.group")
    assert error.value.status is Status.ALREADY_EXISTS
    assert "acme 1.0" in str(error.value) and "other 1.0" in str(error.value)


def test_names_that_differ_are_unique() -> None:
    extensions.check_unique([("a", "here"), ("b", "there")], "")
    with pytest.raises(LiteRtError, match="in here and in there"):
        extensions.check_unique([("a", "here"), ("a", "there")], "")


def test_a_vendors_error_keeps_its_status_and_gains_vendor_and_call() -> None:
    inner = LiteRtError(Status.UNSUPPORTED, "no half", "op 3", "Use float.")
    with pytest.raises(LiteRtError) as error, VendorCall("Acme", "compile"):
        raise inner
    assert str(error.value) == (
        "UNSUPPORTED: no half (op 3; vendor 'Acme', in compile). Use float."
    )


@pytest.mark.parametrize(
    ("raised", "status", "says"),
    [
        (
            ZeroDivisionError("x"),
            Status.COMPILATION,
            "ZeroDivisionError: x (vendor 'Acme', in compile",
        ),
        (SystemExit(2), Status.COMPILATION, "SystemExit: 2"),
        (CancelledError(), Status.COMPILATION, "CancelledError (vendor 'Acme', in compile"),
        (
            UnspeakableError(),
            Status.COMPILATION,
            "UnspeakableError: (the exception has no text) (vendor 'Acme', in compile",
        ),
        (LiteRtError(Status.OK, "all is well"), Status.COMPILATION, "COMPILATION: all is well ("),
        (MemoryError(), Status.MEMORY_ALLOCATION_FAILURE, "out of memory"),
    ],
    ids=["exception", "exit", "cancelled", "without a text", "status OK", "memory"],
)
def test_whatever_a_vendor_raises_becomes_one_error(
    raised: BaseException, status: Status, says: str
) -> None:
    with pytest.raises(LiteRtError) as error, VendorCall("Acme", "compile", Status.COMPILATION):
        raise raised
    assert error.value.status is status
    assert says in str(error.value)
    assert error.value.__cause__ is raised


def test_an_error_names_the_vendors_line_and_none_of_the_hosts(tmp_path: Path) -> None:
    path = tmp_path / "acme.py"
    path.write_text("from litert.model.blob import Blob\n\n\ndef f():\n    return Blob(None)\n")
    vendor = runpy.run_path(str(path))
    with pytest.raises(LiteRtError) as error, VendorCall("Acme", "compile"):
        vendor["f"]()
    assert error.value.where == f"vendor 'Acme', in compile, at {path}:5"


def test_an_interrupt_in_a_vendors_code_stays_one() -> None:
    with pytest.raises(KeyboardInterrupt), VendorCall("Acme", "compile"):
        raise KeyboardInterrupt
