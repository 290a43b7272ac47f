"""Tests that libraries of Python vendors start Python in programs that do not, or report why they cannot."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from litert.abi.headers import INCLUDE_FOLDER
from litert.host.python_library.building import Interpreter, PlannedLibrary, build_libraries
from tests.exported_vendors import c_program, exported, needs_compiler

GET_API = "LiteRtDispatchGetApi"
DYNAMIC_LOADING, RUNTIME_FAILURE = 502, 3

VENDOR = """
    import atexit, os, threading, time
    import numpy  # an extension module that needs the symbols of libpython
    from dispatch.api import Dispatch

    if "LOADED_BY_C" in os.environ:
        print("imported")
        atexit.register(print, "at exit")
        threading.Thread(target=time.sleep, args=(60,)).start()

    class {name}(Dispatch):
        vendor_id = "{name}"

        def device_context_create(self, options):
            return object()

        def invoke(self, context):
            pass

    DISPATCH = {name}()
"""


def write_vendor(folder: Path, name: str, text: str = VENDOR) -> Path:
    path = folder / f"LiteRtDispatch_{name}.py"
    path.write_text(textwrap.dedent(text.format(name=name)))
    return path


def library(vendor: Path | str) -> Path:
    (path,) = exported("dispatch", str(vendor)).iterdir()
    return path


def build(path: Path, spec: Mapping[str, str], interpreter: Interpreter) -> Path:
    needs_compiler()
    planned = [PlannedLibrary("dispatch", str(path), spec)]
    build_libraries(planned, include_folder=INCLUDE_FOLDER, interpreter=interpreter, is_tried=False)
    return path


def load(
    *libraries: Path,
    threads: int = 1,
    flags: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    program = c_program("load_libraries", *flags)
    return subprocess.run(
        [program, str(threads), GET_API, *libraries],
        env={**os.environ, "LOADED_BY_C": "", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_threads_that_come_at_once_get_one_vendor(tmp_path: Path) -> None:
    done = load(library(write_vendor(tmp_path, "Threads")), threads=16)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines.count("status 0") == 16
    assert lines.count("imported") == 1


def test_several_vendors_share_one_interpreter(tmp_path: Path) -> None:
    libraries = [library(write_vendor(tmp_path, name)) for name in ("One", "Two", "Three")]
    done = load(*libraries, library("Null"), threads=4)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines().count("status 0") == 16
    assert done.stdout.count("imported") == done.stdout.count("at exit") == 3


def test_the_program_ends_as_it_would(tmp_path: Path) -> None:
    """Checks that Python's exit functions run and print, even while a thread of the vendor is still running."""
    done = load(library(write_vendor(tmp_path, "Ends")))
    assert done.returncode == 0, done.stderr
    assert "at exit" in done.stdout.splitlines()
    assert f"at the end {RUNTIME_FAILURE}" in done.stdout
    assert not done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("LITERT_NPU_LIBPYTHON", "/no/such/libpython3.so", "cannot load Python: /no/such"),
        ("LITERT_NPU_LIBPYTHON", "{libc}", "not a libpython: the file has no Py_GetVersion"),
        ("LITERT_NPU_PYTHON", "/no/such/python", "no Python interpreter at /no/such/python"),
    ],
    ids=["libpython", "not libpython", "interpreter"],
)
def test_what_is_not_there_is_said_once(variable: str, value: str, said: str) -> None:
    maps = Path("/proc/self/maps").read_text().split()
    libc = next(word for word in maps if "/libc.so" in word or "/libc-" in word)
    done = load(library("Null"), threads=4, environment={variable: value.format(libc=libc)})
    assert done.returncode == 0
    assert done.stdout.splitlines().count(f"status {DYNAMIC_LOADING}") == 4
    (line,) = done.stderr.splitlines()
    assert line.startswith("ERROR: [litert_npu] Null: ") and said in line
    assert "LITERT_NPU_" in line


def test_a_python_of_another_version_is_refused() -> None:
    done = load(library("Null"), flags=("-rdynamic", '-DVERSION="3.4.5"'))
    assert done.returncode == 0 and f"status {DYNAMIC_LOADING}" in done.stdout
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"made with Python {version}, but the Python in this process is 3.4.5" in done.stderr


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 3.4.5", "prints '3.4.5'"),
        ("exit 0", "prints ''"),
        ("echo this is another program; exit 3", "prints 'this is another program'"),
        ("kill -SEGV $$", "prints ''"),
    ],
)
def test_an_interpreter_of_another_version_is_refused(
    tmp_path: Path, script: str, said: str
) -> None:
    program = tmp_path / "my 'other' python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    built = library("Null")
    done = load(built, threads=4, environment={"LITERT_NPU_PYTHON": str(program)})
    assert done.returncode == 0
    assert done.stdout.splitlines().count(f"status {DYNAMIC_LOADING}") == 4
    (line,) = done.stderr.splitlines()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"LITERT_NPU_PYTHON is {program}, which is not Python {version}" in line and said in line


@pytest.mark.parametrize("suffix", [".99", "{patch} experimental free-threading build"])
def test_an_interpreter_of_another_build_than_libpython_is_refused(
    tmp_path: Path, suffix: str
) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}" + suffix.format(
        patch=f".{sys.version_info.micro}"
    )
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho '{version}'\n")
    program.chmod(0o755)
    done = load(library("Null"), environment={"LITERT_NPU_PYTHON": str(program)})
    assert f"status {DYNAMIC_LOADING}" in done.stdout
    (line,) = done.stderr.splitlines()
    assert f"LITERT_NPU_PYTHON is {program}, which is Python {version}, but the libpython" in line
    assert "of another build" in line and "Set LITERT_NPU_LIBPYTHON" in line
    assert platform.python_version() in line


@pytest.mark.skipif("math" in sys.builtin_module_names, reason="this Python has math built in")
def test_a_standard_library_that_does_not_fit_is_said(tmp_path: Path) -> None:
    """The library is of a Python whose extension modules are built in: its folder lib-dynload is empty."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    standard, program = tmp_path / "lib" / name, tmp_path / "bin" / name
    (standard / "lib-dynload").mkdir(parents=True)
    program.parent.mkdir()
    for path in Path(sysconfig.get_path("stdlib")).iterdir():
        if path.name not in ("lib-dynload", "site-packages"):
            (standard / path.name).symlink_to(path)
    program.write_text("#!/bin/sh")
    program.chmod(0o755)
    spec = {"manufacturer": "Bare", "origin": "x:y", "constant": "", "target": "x:y"}
    other = replace(Interpreter.of_this_process(), program=str(program))
    done = load(build(tmp_path / "library.so", spec, other))
    assert f"status {DYNAMIC_LOADING}" in done.stdout
    assert f"The standard library of Python {program} does not fit the libpython" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the module does not define DISPATCH"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("raise SystemExit(4)", "SystemExit: 4"),
        ("DISPATCH = 3", "DISPATCH has type int, which is not derived from Dispatch"),
    ],
)
def test_a_vendor_that_is_broken_later_is_said(tmp_path: Path, text: str, said: str) -> None:
    path = write_vendor(tmp_path, "Broken")
    built = library(path)
    path.write_text(text)
    done = load(built, threads=2)
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert done.stdout.splitlines().count(f"status {DYNAMIC_LOADING}") == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("ERROR: [litert_npu] Broken: ") and "DYNAMIC_LOADING: " in line
    assert said in line and str(path) in line


def test_a_vendor_that_is_gone_is_said(tmp_path: Path) -> None:
    path = write_vendor(tmp_path, "Gone")
    built = library(path)
    path.unlink()
    done = load(built)
    assert f"status {DYNAMIC_LOADING}" in done.stdout and "No such file" in done.stderr


def test_sanitizers_find_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    monkeypatch.setenv("CFLAGS", " ".join(flags))
    program = Interpreter.of_this_process()
    if not program.libpython:
        pytest.skip("this Python has no shared libpython")
    libraries = []
    for name in ("Clean", "Tidy"):
        target = "dispatch.native.export:export_library"
        vendor = str(write_vendor(tmp_path, name))
        spec = {"manufacturer": name, "origin": vendor, "constant": "DISPATCH", "target": target}
        libraries.append(build(tmp_path / f"{name}.so", spec, program))
    # Python itself does not free all its memory at exit.
    environment = {"ASAN_OPTIONS": "detect_leaks=0"}
    done = load(*libraries, threads=8, flags=flags, environment=environment)
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.splitlines().count("status 0") == 16
    environment["LITERT_NPU_PYTHON"] = "/no/such/python"
    done = load(*libraries, threads=8, flags=flags, environment=environment)
    assert done.returncode == 0 and done.stderr.count("no Python interpreter at") == 2


def test_without_a_shared_libpython_a_program_that_is_python_loads_it(tmp_path: Path) -> None:
    spec = {"manufacturer": "Bare", "origin": "x:y", "constant": "", "target": "x:y"}
    built = build(
        tmp_path / "library.so", spec, replace(Interpreter.of_this_process(), libpython="")
    )
    done = load(built)
    assert f"status {DYNAMIC_LOADING}" in done.stdout
    assert "has no shared libpython" in done.stderr and "LITERT_NPU_LIBPYTHON" in done.stderr
    code = f"import ctypes; ctypes.CDLL({str(built)!r}).{GET_API}(ctypes.create_string_buffer(256))"
    in_python = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert in_python.returncode == 0 and "No module named 'x'" in in_python.stderr


def test_an_interpreter_without_our_packages_is_said(tmp_path: Path) -> None:
    """The library behaves as if it was copied to another machine, where the packages of its build are missing."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    program = str(tmp_path / "bare/bin/python")
    bare = replace(Interpreter.of_this_process(), program=program, search_path=())
    spec = {"manufacturer": "Bare", "origin": "x:y", "constant": "", "target": "x:y"}
    built = build(tmp_path / "library.so", spec, bare)
    done = load(built)
    assert f"status {DYNAMIC_LOADING}" in done.stdout
    assert "No module named 'litert'" in done.stderr and "LITERT_NPU_PYTHON" in done.stderr
    assert f"Python {program} lacks litert-npu" in done.stderr
    # This interpreter has the packages, but the vendor's module `x` does not exist.
    done = load(built, environment={"LITERT_NPU_PYTHON": sys.executable})
    assert "cannot import the Python module" in done.stderr and "No module named 'x'" in done.stderr


LOGGING = """
    import logging, sys
    from ctypes import CDLL, create_string_buffer

    if sys.argv[2] == "keeps a log":
        logging.basicConfig(level=logging.WARNING)
    assert CDLL(sys.argv[1]).LiteRtDispatchGetApi(create_string_buffer(56)) == 0
    logging.getLogger("compiler_plugin.native.exported.exported_plugin").info("a report")
"""


@pytest.mark.parametrize("program", ["keeps a log", "keeps none"])
def test_reports_are_for_programs_that_keep_no_log_of_their_own(program: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(LOGGING), str(library("Null")), program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert ("a report" in done.stderr) == (program == "keeps none")


GUARDING = """
    import sys, types
    from ctypes import CDLL, PyDLL, create_string_buffer

    path, answer = sys.argv[1], create_string_buffer(56)
    if sys.argv[2] == "unknown":
        name = "stock._pywrap_litert_compiled_model_wrapper"
        sys.modules[name] = module = types.ModuleType(name)
        module.CreateCompiledModelFromFile = module.CreateCompiledModelFromBuffer = len
    else:
        assert PyDLL(path).LiteRtDispatchGetApi(answer) == 0
        from ai_edge_litert.compiled_model import _cm as module
        assert CDLL(path).LiteRtDispatchGetApi(answer) == 0  # without the GIL: it needs no guard
        assert "_litert_npu_creation_guard" not in vars(module)
    for _ in range(2):
        assert PyDLL(path).LiteRtDispatchGetApi(answer) == 0
    assert "_litert_npu_creation_guard" in vars(module)
"""


@pytest.mark.parametrize("stock", ["loaded later", "unknown"])
def test_creation_is_guarded_once_stock_is_there(stock: str) -> None:
    command = [sys.executable, "-c", textwrap.dedent(GUARDING), str(library("Null")), stock]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("has an unknown structure") == (stock == "unknown")
