"""Tests kernels that try to read a file: its contents reach no message and no output, at compile time or at load.

The tests do not cover runs in the host's process, where a kernel has the user's rights.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.sandbox import why_missing
from tests.vendor_reference.executables import DOUBLE, assets, byte_code, doubling
from tests.vendor_reference.runner import Runner
from vendor_reference.compiler.kernel_check import build_programs
from vendor_reference.device.module import Module
from vendor_reference.drivers.sandbox import driver_sandbox
from vendor_reference.executable.executable import Executable
from vendor_reference.programs.program_text import ProgramText

pytestmark = pytest.mark.skipif(bool(why_missing()), reason=f"no sandbox: {why_missing()}")

SECRET = "5up3r53cr37"
"""The content of the outside file; a compiler that reads the file repeats this text in its error."""

_READS = """
__kernel void MyOp(__global const float* x, __global float* y) {
  __global const char* p = (__global const char*)x;
  __asm__ volatile("jmp 2f\\n1: .incbin \\"PATH\\"\\n .zero 64\\n2: leaq 1b(%%rip), %0" : "=r"(p));
  y[get_global_id(0)] = p[get_global_id(0)];
}
"""
_SECTION = """
__asm__(".section .rodata\\n.global leak_\\nleak_: .incbin \\"PATH\\"\\n.zero 64\\n.previous");
extern __constant char leak_[];
__kernel void MyOp(__global const float* x, __global float* y) { y[get_global_id(0)] = leak_[get_global_id(0)]; }
"""
WAYS = {
    "incbin in a kernel": _READS,
    "incbin in a section": _SECTION,
    "incbin where the size is known": _READS.replace(
        "  __asm__", "  if (__builtin_constant_p(get_local_size(0)))\n  __asm__"
    ),
    "a name by a macro": f'#define P "PATH"\n#include P\n{DOUBLE}',
    "a pasted name": f"#define S(x) #x\n#define T(x) S(x)\n#include T(PATH)\n{DOUBLE}",
    "a digraph": f'%:include "PATH"\n{DOUBLE}',
    "a trigraph": f'??=include "PATH"\n{DOUBLE}',
    "the next one": f'#include_next "PATH"\n{DOUBLE}',
    "an import": f'#import "PATH"\n{DOUBLE}',
    "an embedded file": f'__constant char leak[] = {{\n#embed "PATH"\n}};\n{DOUBLE}',
    "whether it is there": f'#if __has_include("PATH")\n#include "PATH"\n#endif\n{DOUBLE}',
    "angle brackets": f"#include <PATH>\n{DOUBLE}",
    "a splice": f'#inc\\\nlude "PATH"\n{DOUBLE}',
}


@pytest.fixture(autouse=True)
def _cache(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses an empty cache, so that the device compiles again."""
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("LITERT_NPU_OPENCL", f"{device.info.platform_version}:{device.info.name}")


@pytest.fixture(params=WAYS.values(), ids=list(WAYS))
def text(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    secret = tmp_path / "outside" / "secret.h"
    secret.parent.mkdir()
    secret.write_text(f"#error {SECRET}\n")
    return str(request.param).replace("PATH", str(secret))


@pytest.fixture
def messages(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Callable[[], str]:
    """Returns everything that was logged and printed so far."""
    caplog.set_level(logging.DEBUG)
    return lambda: "".join([caplog.text, *capfd.readouterr()])


def _tell(act: Callable[[], object]) -> str:
    """Calls `act` and returns its result or its error as text."""
    try:
        return repr(act())
    except LiteRtError as error:
        assert error.status in (Status.COMPILATION, Status.RUNTIME_FAILURE)
        assert "MyOp.cl" in error.where or "secret.h" in error.where or "driver" in error.what, (
            error
        )
        return str(error)


def test_at_compile_time(
    text: str,
    device: Any,
    messages: Callable[[], str],
    tmp_path: Path,
) -> None:
    executable = Executable("EMU8", (), doubling(text=text).programs, ())
    said = _tell(lambda: build_programs(executable, {"MyOp": text.encode()}))
    assert SECRET not in said + messages()
    _nothing_has_it(tmp_path / "cache")


@pytest.mark.parametrize("on_thread", [False, True], ids=["here", "on a thread"])
def test_at_load_and_in_outputs(
    text: str,
    device: Any,
    on_thread: bool,
    messages: Callable[[], str],
    tmp_path: Path,
) -> None:
    def run() -> bytes:
        return bytes(Runner(device, doubling(16, text), text)(range(16)).astype(np.uint8))

    said: list[str] = []
    if on_thread:
        thread = threading.Thread(target=lambda: said.append(_tell(run)))
        thread.start()
        thread.join()
    else:
        said.append(_tell(run))
    assert SECRET not in said[0] + messages()
    _nothing_has_it(tmp_path / "cache")


@pytest.mark.parametrize("options", ["-DNAME=__asm__", "-DJOIN(a,b)=a##b -DNAME=JOIN(__as,m__)"])
def test_assembly_by_a_macro_of_the_build_options(
    options: str, device: Any, messages: Callable[[], str], tmp_path: Path
) -> None:
    """Checks macros for `__asm__` in build options, which precede all text of the program."""
    (tmp_path / "secret").write_text(SECRET)
    text = _READS.replace("PATH", str(tmp_path / "secret")).replace("__asm__", "NAME")
    made = doubling(16, text)
    made = replace(made, programs=[replace(p, build_options=options) for p in made.programs])
    with pytest.raises(LiteRtError) as error:
        Runner(device, made, text)(range(16))
    assert SECRET not in str(error.value) + messages()


def test_a_prelude_in_byte_code(device: Any, tmp_path: Path) -> None:
    (tmp_path / "secret.h").write_text(f"#error {SECRET}\n")
    made = doubling()
    prelude = f'#include "{tmp_path / "secret.h"}"\n'
    made = replace(made, programs=[replace(p, prelude=prelude) for p in made.programs])
    module = Module(device, byte_code(made).view, assets(MyOp=DOUBLE))
    with pytest.raises(LiteRtError) as error:
        module.load(module.find_function("f"))
    assert error.value.status is Status.COMPILATION and SECRET not in str(error.value)


def test_assembly_that_does_not_assemble_is_an_error_with_the_layer(device: Any) -> None:
    """Intel's compiler would build a program without the file's bytes instead of failing."""
    text = _READS.replace("PATH", "/nowhere/secret")
    with pytest.raises(LiteRtError) as error:
        device.builder.build([ProgramText("MyOp.cl", f'#line 1 "MyOp.cl"\n{text}', "")])
    assert error.value.status is Status.COMPILATION
    assert error.value.where in ("MyOp.cl, line 2 of inline assembly", "MyOp.cl, line 4")


def test_a_compiler_has_no_folder_of_the_users_to_write_to(device: Any) -> None:
    sandbox = driver_sandbox(device.library)
    assert not sandbox.writable
    home = os.path.expanduser("~")
    assert not any(os.path.commonpath([path, home]) == path for path in sandbox.readable)


def _nothing_has_it(folder: Path) -> None:
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in path.read_bytes() for path in kept)
