"""Tests every function of a vendor's libraries with sanitizers, in right and wrong calls.

The C example is instrumented as a whole. Of the exported Python example, only the C code, which starts Python
and forwards calls, is instrumented.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from litert.abi.headers import INCLUDE_FOLDER
from litert.host.python_library.building import find_libpython
from tests.sanitizers import ADDRESSES, sanitizer_flags

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
C_EXAMPLE = EXAMPLES / "06_c_vendor"
DRIVER = Path(__file__).with_name("sanitized") / "drive.c"


def drive(
    folder: Path, flags: Sequence[str], vendor: Sequence[Path], *arguments: str, leaks: bool = True
) -> subprocess.CompletedProcess[str]:
    """Links the test driver with a vendor's sources or libraries, and runs it."""
    program, asset = folder / "drive", folder / "gain.txt"
    asset.write_text("-4\n")
    options = ["-std=c11", "-rdynamic", "-pthread", "-D_DEFAULT_SOURCE", f"-I{INCLUDE_FOLDER}"]
    options += [f"-I{C_EXAMPLE}", f"-Wl,-rpath,{folder}"]
    sources = [str(path) for path in (DRIVER, *vendor)]
    subprocess.run(["gcc", *options, *flags, *sources, "-o", str(program), "-ldl"], check=True)
    environment = {**os.environ, "ASAN_OPTIONS": f"detect_leaks={int(leaks)}"}
    command = [str(program), str(asset), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("sanitizers", [ADDRESSES, "thread"])
def test_nothing_is_found_in_the_c_example(tmp_path: Path, sanitizers: str) -> None:
    sources = [C_EXAMPLE / "plugin.c", C_EXAMPLE / "dispatch.c"]
    done = drive(tmp_path, sanitizer_flags(sanitizers, tmp_path), sources)
    assert done.returncode == 0, done.stderr
    assert {line[:15] for line in done.stderr.splitlines()} == {"ERROR: [Cobalt]"}


@pytest.mark.parametrize(
    ("sound", "broken", "finding"),
    [
        ("  LiteRtNpuFreeBufferTable(&device->base.buffers);\n", "", "LeakSanitizer: detected memory leaks"),
        ("i < function->num_elements", "i <= function->num_elements", "overflow"),
        ("memcpy(function, bytes + at, sizeof(Function));", "*function = *(Function*)(bytes + at);", "misaligned"),
    ],
    ids=["a leak", "one element too many", "byte code taken as aligned"],
)  # fmt: skip
def test_what_is_broken_is_found(tmp_path: Path, sound: str, broken: str, finding: str) -> None:
    source = (C_EXAMPLE / "dispatch.c").read_text()
    assert source.count(sound) == 1
    (tmp_path / "dispatch.c").write_text(source.replace(sound, broken))
    sources = [C_EXAMPLE / "plugin.c", tmp_path / "dispatch.c"]
    done = drive(tmp_path, sanitizer_flags(ADDRESSES, tmp_path), sources)
    assert done.returncode != 0
    assert finding in done.stderr


@pytest.mark.parametrize("is_broken", [False, True], ids=["sound", "broken"])
def test_a_vendor_can_be_checked_under_sanitizers(tmp_path: Path, is_broken: bool) -> None:
    flags = [*sanitizer_flags(ADDRESSES, tmp_path), "-shared", "-fPIC", f"-I{INCLUDE_FOLDER}"]
    source = (C_EXAMPLE / "dispatch.c").read_text()
    whole, short = "calloc(1, sizeof(*made));", "calloc(1, sizeof(*made) - 1);"
    assert whole in source
    (tmp_path / "dispatch.c").write_text(source.replace(whole, short) if is_broken else source)
    sources = {"CompilerPlugin": C_EXAMPLE / "plugin.c", "Dispatch": tmp_path / "dispatch.c"}
    for name, path in sources.items():
        output = str(tmp_path / f"libLiteRt{name}_Cobalt.so")
        subprocess.run(["gcc", *flags, f"-I{C_EXAMPLE}", str(path), "-o", output], check=True)
    (tmp_path / "gain.txt").write_text("3")
    tool = "from litert_npu_tools.litert_npu import run; run()"
    check = ["vendor", "check", tmp_path, f"--npu_custom_op_info=Gain,{tmp_path}/gain.txt"]
    runtimes = [
        subprocess.run(
            ["gcc", f"-print-file-name=lib{name}.so"], capture_output=True, text=True
        ).stdout.strip()
        for name in ("asan", "ubsan")
    ]
    environment = {
        **os.environ, "LD_PRELOAD": " ".join(runtimes), "ASAN_OPTIONS": "detect_leaks=0"
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", tool, *map(str, check)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if is_broken:
        assert "in LiteRtDispatchRegisterAsset" in done.stdout, done.stdout
        assert re.search(r"^ +\| ==\d+==ERROR: AddressSanitizer", done.stdout, re.MULTILINE)
    else:
        assert "Cobalt keeps the contract" in done.stdout, done.stdout + done.stderr


def test_nothing_is_found_in_an_exported_vendor_s_libraries(tmp_path: Path) -> None:
    if not find_libpython():
        pytest.skip("this Python has no shared libpython")
    flags = sanitizer_flags(ADDRESSES, tmp_path)
    compiler = tmp_path / "cc"
    compiler.write_text(f'#!/bin/sh\nexec gcc {" ".join(flags)} "$@"\n')
    compiler.chmod(0o755)
    names = {"LiteRtCompilerPlugin": "compiler_plugin:PLUGIN", "LiteRtDispatch": "dispatch:DISPATCH"}  # fmt: skip
    for name, origin in names.items():
        module, constant = origin.split(":")
        text = f"from nickel_npu.{module} import {constant}\n"
        (tmp_path / f"{name}_Nickel.py").write_text(text)
    tool = "from litert_npu_tools.litert_npu import run; run()"
    command = [
        sys.executable,
        "-c",
        tool,
        "vendor",
        "export",
        *(f"{name}_Nickel.py" for name in names),
    ]
    environment = {
        **os.environ,
        "CC": str(compiler),
        "PYTHONPATH": str(EXAMPLES / "07_python_vendor"),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python is never finalized
    }
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    libraries = [tmp_path / f"lib{name}_Nickel.so" for name in names]
    assert all(b"__asan_" in library.read_bytes() for library in libraries)
    done = drive(tmp_path, flags, libraries, "exported", leaks=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert {line.split()[1] for line in done.stderr.splitlines()} == {"[litert_npu]"}
