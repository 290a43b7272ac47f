"""Tests which libraries a vendor's name selects."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from litert_npu_tools.vendor.vendor_libraries import find_libraries

from litert.core.errors import LiteRtError
from litert.core.status import Status


@pytest.mark.parametrize("name", ["Null", "null"])
def test_an_installed_vendor_is_named_by_its_entry_points(name: str) -> None:
    found = find_libraries([name])
    assert found.manufacturer == "Null"
    assert found.origins["dispatch"] == "litert_npu_null.dispatch:DISPATCH"


@pytest.mark.usefixtures("stock_vendors")
@pytest.mark.parametrize("name", ["Google", "google_tensor"])
def test_a_vendor_of_stock_s_wheel_is_named_as_its_folder_or_itself(name: str) -> None:
    (path,) = find_libraries([name]).origins.values()
    assert os.path.basename(path) == "libLiteRtCompilerPlugin_google_tensor.so"


@pytest.mark.usefixtures("stock_vendors")
def test_a_vendor_of_stock_s_wheel_has_libraries_there() -> None:
    found = find_libraries(["IntelOpenVINO"])
    assert found.manufacturer == "IntelOpenVINO"
    assert {kind: os.path.basename(path) for kind, path in found.origins.items()} == {
        "compiler_plugin": "libLiteRtCompilerPlugin_IntelOpenvino.so",
        "dispatch": "libLiteRtDispatch_IntelOpenvino.so",
    }


def test_a_vendor_in_a_folder_is_named_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "LiteRtDispatch_Tin.py").touch()
    found = find_libraries([str(tmp_path)])
    assert found.manufacturer == "Tin" and list(found.origins) == ["dispatch"]


def test_a_library_that_is_not_there_is_no_vendor_s_name() -> None:
    with pytest.raises(LiteRtError, match="no such file"):
        find_libraries(["libLiteRtDispatch_Tin.so"])


def test_an_installed_vendor_stands_alone() -> None:
    with pytest.raises(LiteRtError, match=r"no such file or folder \(Null\)") as error:
        find_libraries(["Null", "Reference"])
    assert (
        error.value.hint
        == "Give either the name of one installed vendor, or the paths of a vendor's files."
    )


def test_a_vendor_that_is_not_there_is_told_of() -> None:
    with pytest.raises(
        LiteRtError, match="there is no package for vendor 'Nobody'; available vendors: Null"
    ) as error:
        find_libraries(["Nobody"])
    assert error.value.status is Status.NOT_FOUND
