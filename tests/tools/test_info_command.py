"""Tests `litert-npu info`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from litert_npu_tools import info_command
from litert_npu_tools.info_command import find_info

from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.tools.conftest import LitertNpu

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def no_opencl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the OpenCL driver crash when it is queried."""

    def crash() -> list[str]:
        raise LiteRtError(Status.RUNTIME_FAILURE, "OpenCL crashed (SIGSEGV)")

    monkeypatch.setattr(info_command, "list_opencl_drivers", crash)


def test_vendors_devices_and_versions_are_listed(litert_npu: LitertNpu, capsys: Capture) -> None:
    assert litert_npu("info", "--report=json") == 0
    info = json.loads(capsys.readouterr().out)
    vendors = {plugin["soc_manufacturer"] for plugin in info["plugins"]}
    assert {"Null", "Reference"} <= vendors
    assert {"Null", "Reference"} <= set(info["dispatch_tables"])
    assert info["versions"]["ai-edge-litert"] and info["versions"]["dispatch API"]
    assert info["opencl_drivers"] or info["problems"]


def test_a_driver_that_crashes_is_a_problem_among_the_rest(no_opencl: None) -> None:
    info = find_info()
    assert info.opencl_drivers == [] and "SIGSEGV" in info.to_text()
    assert "Reference: EMU8" in info.to_text()


def test_a_broken_plugin_is_listed_with_its_reason(no_opencl: None, tmp_path: Path) -> None:
    (tmp_path / "LiteRtCompilerPlugin_Broken.py").write_text("import nothing_of_that_name")
    (tmp_path / "LiteRtDispatch_Broken.py").write_text("import nothing_of_that_name")
    info = find_info([str(tmp_path)], str(tmp_path))
    assert "nothing_of_that_name" in info.to_text()
    assert "Broken" in info.dispatch_tables  # listed, but not loaded


def test_a_folder_without_plugins_and_tables_is_told_of(no_opencl: None, tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text("")
    info = find_info([str(tmp_path)], str(tmp_path))
    (plugin,) = [plugin for plugin in info.plugins if plugin.problem]
    assert plugin.origin == str(tmp_path) and "LiteRtCompilerPlugin*.py" in plugin.problem
    (problem,) = [problem for problem in info.problems if str(tmp_path) in problem]
    assert (
        "no file in this folder or its subfolders has the name of a dispatch table, LiteRtDispatch*.py"
        in problem
    )


def test_a_folder_that_is_not_there_is_a_problem(no_opencl: None) -> None:
    info = find_info(["/no/such/folder"], "/no/such/folder")
    assert len([problem for problem in info.problems if "/no/such/folder" in problem]) == 2
