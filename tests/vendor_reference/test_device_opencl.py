"""Tests that OpenCL is loaded, or that an error says why it cannot be loaded and what to install."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.device import opencl


@pytest.fixture(autouse=True)
def not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl, "_platforms", ())
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path))


@pytest.fixture
def cl() -> Any:
    return pytest.importorskip("pyopencl")


def fails() -> LiteRtError:
    with pytest.raises(LiteRtError) as error:
        opencl.load_driver("/lib/libpocl.so")
    assert error.value.status is Status.DYNAMIC_LOADING
    return error.value


def test_a_machine_without_pyopencl_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    assert "pip install pyopencl" in fails().hint


def test_a_machine_without_pyopencl_is_not_compatible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl, "find_spec", lambda _: None)
    with pytest.raises(LiteRtError) as error:
        opencl.check_installed()
    assert error.value.status is Status.UNSUPPORTED_RUNTIME_VERSION
    assert "pyopencl is not installed" in error.value.what


def test_a_driver_whose_library_the_loader_refuses_is_named(
    cl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_there() -> Any:
        record = cl._cl._ErrorRecord(msg="", code=-1001, routine="clGetPlatformIDs")
        raise cl.LogicError(record)

    monkeypatch.setattr(cl, "get_platforms", none_there)
    error = fails()
    assert (
        "the driver's library cannot be loaded" in error.what and error.where == "/lib/libpocl.so"
    )
    assert "pip install intel-opencl-rt" in error.hint


def test_a_driver_that_does_not_start_is_quoted(cl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise cl.RuntimeError(
            cl._cl._ErrorRecord(msg="of a kind", code=-6, routine="clGetPlatformIDs")
        )

    monkeypatch.setattr(cl, "get_platforms", broken)
    assert "OUT_OF_HOST_MEMORY" in fails().what


def test_a_driver_without_a_device_is_no_driver(cl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Platform:
        def get_devices(self) -> Any:
            raise cl.RuntimeError(cl._cl._ErrorRecord(msg="", code=-1, routine="clGetDeviceIDs"))

    monkeypatch.setattr(cl, "get_platforms", lambda: [Platform()])
    assert "has no device" in fails().what


def chosen(*libraries: str) -> list[Any]:
    return [SimpleNamespace(installation=SimpleNamespace(library=path)) for path in libraries]


def test_a_driver_that_does_not_load_beside_the_programs_libraries_gives_way_to_the_next(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    damaged = tmp_path / "libdamaged.so"
    damaged.write_bytes(b"no library")
    good = opencl._first_that_loads(chosen(str(damaged), str(damaged), "libc.so.6"))
    assert good.installation.library == "libc.so.6"
    (record,) = caplog.records
    assert f"cannot be loaded into this process: {damaged}: " in record.getMessage()


def test_the_loaders_reason_is_told_where_no_driver_loads(tmp_path: Path) -> None:
    damaged = tmp_path / "libdamaged.so"
    damaged.write_bytes(b"no library")
    with pytest.raises(LiteRtError) as error:
        opencl._first_that_loads(chosen(str(damaged)))
    assert error.value.status is Status.DYNAMIC_LOADING and error.value.where == str(damaged)
    assert (
        "the OpenCL driver cannot be loaded into this process: file too short" in error.value.what
    )
    assert (
        "before the program loads these libraries, or choose another driver: " in error.value.hint
    )


BEHIND_OPENVINO = """
import openvino
openvino.Core()
from vendor_reference.dispatch import open_device
open_device()
"""


def test_a_program_that_has_openvino_loaded_gets_a_driver_or_is_told_why() -> None:
    """Loads OpenVINO first, whose libtbb is older than the one that Intel's driver needs."""
    pytest.importorskip("openvino")
    done = subprocess.run([sys.executable, "-c", BEHIND_OPENVINO], capture_output=True, text=True)
    assert done.returncode == 0 or "NPU before the program loads these libraries" in done.stderr


BEHIND_PYOPENCL = """
import os, pyopencl, sys
from vendor_reference.dispatch import open_device
context = pyopencl.Context([open_device().cl_device])
pyopencl.Kernel(pyopencl._cl._Program(context, "__kernel void k(int i) {}").build(b""), "k")
print(os.listdir(os.environ["HOME"]))
"""


def test_pyopencl_keeps_nothing_in_the_home_folder_whoever_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imports pyopencl before the SDK does; a cache in the home folder would fail for a user without one."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    command = [sys.executable, "-c", BEHIND_PYOPENCL]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_variables_are_set_for_the_drivers_alone(cl: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    class Platform:
        def get_devices(self) -> Any:
            seen.append(os.environ.get("POCL_CACHE_DIR"))
            seen.append(os.environ.get("OCL_ICD_VENDORS"))
            return ["device"]

    monkeypatch.setattr(cl, "get_platforms", lambda: [Platform()])
    monkeypatch.setenv("POCL_CACHE_DIR", "the user's")
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    assert len(opencl.load_driver("/lib/libpocl.so")) == 1
    assert seen[0] is not None and "scratch" in seen[0]
    assert seen[1] == "/lib/libpocl.so" and "OCL_ICD_VENDORS" not in os.environ
    assert os.environ["POCL_CACHE_DIR"] == "the user's"
    monkeypatch.delenv("POCL_CACHE_DIR")
    monkeypatch.setattr(opencl, "_platforms", ())
    opencl.load_driver("/lib/libpocl.so")
    assert "POCL_CACHE_DIR" not in os.environ


def test_importing_the_dispatch_table_loads_no_opencl() -> None:
    script = (
        "import sys, vendor_reference.dispatch\n"
        "print([m for m in ('numpy', 'pyopencl', 'filelock') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "[]\n"


def test_drivers_that_the_program_has_loaded_are_found(device: Any) -> None:
    """Checks that a loaded driver has a library path, which a child process needs to compile."""
    found = {os.path.realpath(installation.library) for installation in opencl._loaded()}
    assert os.path.realpath(device.library) in found
