"""Tests that a dispatch table is found by its manufacturer, in installed packages or as a file in a folder."""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path

import pytest

from dispatch.loader import find_dispatch, find_origin, list_dispatch, load_library
from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.exported_vendors import exported
from tests.native_probe import MakeProbe

TABLE = """
from dispatch.api import Dispatch

class AcmeDispatch(Dispatch):
    vendor_id = "Acme Inc."
    def device_context_create(self, options):
        return {}
    def invoke(self, invocation_context):
        pass

DISPATCH = AcmeDispatch()
"""


def install(site: Path, name: str, target: str, package: str = "acme-npu") -> None:
    """Creates a package with one entry point, as pip installs it."""
    info = site / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[litert_npu.dispatch]\n{name} = {target}\n")


def refuses(manufacturer: str, folder: Path | str = "") -> LiteRtError:
    with pytest.raises(LiteRtError) as error:
        find_dispatch(manufacturer, str(folder))
    return error.value


def test_the_installed_null_vendor_is_found() -> None:
    pytest.importorskip("litert_npu_null", reason="needs pip install -e tests/null_vendor")
    table = find_dispatch("Null")
    assert table.vendor_id == "Null"
    assert find_dispatch("Null") is table
    assert "litert-npu-null" in list_dispatch()["Null"]


@pytest.mark.parametrize("file_name", ["LiteRtDispatch_Acme.py", "LiteRtDispatchAcme.py"])
def test_a_file_is_found_by_the_manufacturer_in_its_name(tmp_path: Path, file_name: str) -> None:
    folder = tmp_path / "drivers" / "acme"
    folder.mkdir(parents=True)
    (folder / file_name).write_text(TABLE)
    (folder / "LiteRtDispatch_Other.py").write_text("raise AssertionError('not asked for')")
    assert find_dispatch("Acme", str(tmp_path)).vendor_id == "Acme Inc."
    assert list_dispatch(str(tmp_path))["Acme"].endswith(file_name)


def test_an_unknown_manufacturer_gets_the_list_of_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "LiteRtDispatch_Acme.py").write_text(TABLE)
    error = refuses("Akme", tmp_path)
    assert error.status is Status.NOT_FOUND
    assert error.what.startswith(
        "there is no dispatch table (the code that runs compiled models) for vendor 'Akme'; available vendors: "
    )
    assert "Acme" in error.what
    assert "LiteRtDispatch_Akme.py" in error.hint


@pytest.mark.usefixtures("stock_vendors")
def test_vendors_of_stock_s_wheel_are_among_those_there_are() -> None:
    wheel = refuses("Akme").what.partition("; in stock LiteRT's wheel: ")[2]
    assert "intel_openvino" in wheel.split(", ")


def test_a_folder_without_a_table_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "driver.py").write_text(TABLE)
    sentence = (
        f"{tmp_path}: no file in this folder or its subfolders has the name of a dispatch table, "
        "LiteRtDispatch*.py"
    )
    assert sentence in refuses("Akme", tmp_path).what
    assert not caplog.messages
    assert find_dispatch("Reference", str(tmp_path))
    assert caplog.messages == [sentence]


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    error = refuses("Acme", tmp_path / "nowhere")
    assert error.status is Status.NOT_FOUND
    assert "nowhere" in error.where


@pytest.mark.parametrize("file_name", ["libLiteRtDispatch_Acme.so", "LiteRtDispatch_Acme.so"])
def test_a_file_that_is_no_shared_library_is_named(tmp_path: Path, file_name: str) -> None:
    (tmp_path / file_name).write_bytes(b"\x7fELF")
    error = refuses("Acme", tmp_path)
    assert error.status is Status.DYNAMIC_LOADING
    assert "file too short" in error.what and file_name in error.where and error.hint


def test_a_file_is_found_whatever_case_its_name_has(tmp_path: Path) -> None:
    (tmp_path / "LiteRtDispatch_AcmeOpenvino.py").write_text(TABLE)
    assert find_dispatch("Acme-OpenVINO", str(tmp_path)).vendor_id == "Acme Inc."
    assert find_origin("acme_openvino", str(tmp_path)).endswith("LiteRtDispatch_AcmeOpenvino.py")


def test_a_vendor_of_stock_s_has_its_table_by_each_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "LiteRtDispatch_GoogleTensor.py").write_text(TABLE)
    for name in ("Google", "google_tensor"):
        assert find_dispatch(name, str(tmp_path)).vendor_id == "Acme Inc."


def test_the_exact_name_goes_before_one_in_another_case(tmp_path: Path) -> None:
    (tmp_path / "LiteRtDispatch_ACME.py").write_text("raise AssertionError('not asked for')")
    (tmp_path / "LiteRtDispatch_Acme.py").write_text(TABLE)
    assert find_dispatch("Acme", str(tmp_path)).vendor_id == "Acme Inc."
    error = refuses("acme", tmp_path)
    assert error.status is Status.ALREADY_EXISTS


def test_two_files_for_one_manufacturer_are_refused(tmp_path: Path) -> None:
    (tmp_path / "LiteRtDispatch_Acme.py").write_text(TABLE)
    (tmp_path / "libLiteRtDispatch_Acme.so").write_bytes(b"")
    error = refuses("Acme", tmp_path)
    assert error.status is Status.ALREADY_EXISTS
    assert "LiteRtDispatch_Acme.py" in error.what and "libLiteRtDispatch_Acme.so" in error.what


@pytest.mark.parametrize(
    ("text", "sentence"),
    {
        "no constant": ("x = 1", "the module does not define DISPATCH"),
        "raises": ("\n\nraise OSError('no device')", "OSError: no device"),
        "syntax": ("def (:", "SyntaxError"),
        "a missing import": ("import no_such_driver_", "No module named 'no_such_driver_'"),
        "exits": ("import sys\nsys.exit(1)", "SystemExit: 1"),
        "no table": ("DISPATCH = 1", "DISPATCH has type int, which is not derived from Dispatch"),
        "a later version": (
            TABLE + "AcmeDispatch.api_version = (0, 2, 0)",
            "the dispatch table has version 0.2.0",
        ),
    }.values(),
)
def test_a_file_without_a_good_table_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "LiteRtDispatch_Acme.py").write_text(text)
    error = refuses("Acme", tmp_path)
    assert sentence in error.what
    assert "LiteRtDispatch_Acme.py" in error.where and error.hint
    assert refuses("Acme", tmp_path).what == error.what  # the second attempt gives the same error


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("acme_not_there_:DISPATCH", "No module named 'acme_not_there_'"),
        ("json:DISPATCH", "the module does not define DISPATCH"),
        ("json:dumps", "DISPATCH has type function"),
    ],
)
def test_a_package_without_a_good_table_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, sentence: str
) -> None:
    install(tmp_path, "AcmePackaged", target)
    monkeypatch.syspath_prepend(str(tmp_path))
    error = refuses("AcmePackaged")
    assert sentence in error.what
    assert "entry point 'AcmePackaged' of acme-npu 1.0" in error.where


@pytest.mark.parametrize("file_name", ["LiteRtDispatch_Acme.py", "LiteRtDispatch_ACME.py"])
def test_the_folder_that_a_program_names_goes_before_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_name: str
) -> None:
    install(tmp_path / "site", "Acme", "json:DISPATCH")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    folder = tmp_path / "drivers"
    folder.mkdir()
    (folder / file_name).write_text(TABLE)
    assert find_dispatch("Acme", str(folder)).vendor_id == "Acme Inc."
    assert find_origin("Acme", str(folder)).endswith(file_name)
    assert "acme-npu 1.0" in find_origin("Acme")
    (folder / f"lib{file_name[:-3]}.so").write_bytes(b"")
    with pytest.raises(LiteRtError) as caught:
        find_origin("Acme", str(folder))
    error = caught.value
    assert error.status is Status.ALREADY_EXISTS
    assert file_name in error.what and f"lib{file_name[:-3]}.so" in error.what


def test_an_exported_vendor_runs_where_it_is_installed_too() -> None:
    pytest.importorskip("litert_npu_null", reason="needs pip install -e tests/null_vendor")
    folder = exported("dispatch", "Null")
    assert type(find_dispatch("Null", str(folder))).__name__ == "NativeDispatch"
    assert find_dispatch("Null", str(folder)).vendor_id == "Null"
    assert list_dispatch(str(folder))["Null"].endswith("libLiteRtDispatch_Null.so")


def test_threads_get_the_same_table(tmp_path: Path) -> None:
    (tmp_path / "LiteRtDispatch_Acme.py").write_text("import time\ntime.sleep(0.05)\n" + TABLE)
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(find_dispatch("Acme", str(tmp_path))))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(map(id, found))) == 1


def test_finding_imports_no_heavy_library() -> None:
    import subprocess

    code = (
        "import sys, dispatch.loader, dispatch.session; "
        "print([m for m in ('numpy', 'cffi', 'pyopencl', 'ctypes') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_only_library_in_a_folder_is_for_any_manufacturer(
    make_probe: MakeProbe, caplog: pytest.LogCaptureFixture
) -> None:
    path = make_probe().path
    caplog.clear()
    assert find_dispatch("Acme", str(path.parent)) is load_library(str(path))
    assert caplog.messages == [
        f"no dispatch table for 'Acme' was found, so the folder's only library is used: {path}"
    ]
    assert find_dispatch("PROBE", str(path.parent)) is load_library(str(path))
    shutil.copy(path, path.parent / "libLiteRtDispatch_Other.so")
    assert refuses("Akme", path.parent).status is Status.NOT_FOUND


def test_a_package_may_offer_a_library_by_its_path(
    make_probe: MakeProbe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_probe().path
    (tmp_path / "acme_library_.py").write_text(f"DISPATCH = {str(path)!r}\n")
    install(tmp_path, "AcmeLibrary", "acme_library_:DISPATCH")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_dispatch("AcmeLibrary") is load_library(str(path))
