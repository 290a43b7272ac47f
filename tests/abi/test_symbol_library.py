from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from litert.abi.headers import INCLUDE_FOLDER
from litert.abi.symbol_library import SYMBOLS, symbol_library
from litert.core.errors import LiteRtError
from litert.core.status import Status

_PROBE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include "litert_npu/compiler_options.h"
const char* probe(LiteRtOptions options) {
  LiteRtOpaqueOptions opaque;
  LiteRtCompilerOptions compiler;
  LiteRtParamIndex count = 99;
  const char *name, *path;
  LiteRtStatus (*get_number)(LiteRtCompilerOptions, LiteRtParamIndex*) =
      dlsym(RTLD_DEFAULT, "LiteRtGetCompilerOptionsNumCustomOpInfo");
  if (!get_number) return "not found by name";
  if (LiteRtGetOpaqueOptions(options, &opaque)) return "no opaque options";
  if (LiteRtFindCompilerOptions(opaque, &compiler)) return "no compiler options";
  if (get_number(compiler, &count) || count != 1) return "not one";
  if (LiteRtGetCompilerOptionsCustomOpInfo(compiler, 0, &name, &path)) return "not the first";
  if (LiteRtGetCompilerOptionsCustomOpInfo(compiler, 1, &name, &path) != kLiteRtStatusErrorIndexOOB)
    return "a second";
  if (get_number((LiteRtCompilerOptions)options, &count) != kLiteRtStatusErrorInvalidArgument)
    return "takes any handle";
  return path;
}
"""

_HOST = """
import sys
from litert.abi.definitions import ffi
from litert.abi.options_table import options_table
from litert.abi.symbol_library import load_symbols
from litert.core.compiler_options import CustomOpInfo
import ctypes
assert load_symbols() is load_symbols()
handle = options_table().put_options({}, [CustomOpInfo("MyOp", "/assets/my op.cl")])
probe = ctypes.CDLL(sys.argv[1]).probe
probe.restype = ctypes.c_char_p
print(probe(ctypes.c_void_p(handle)).decode())
"""

_STOCK = """
from litert.abi.symbol_library import load_symbols
load_symbols()
import ctypes, os, ai_edge_litert
stock = ctypes.CDLL(os.path.join(os.path.dirname(ai_edge_litert.__file__), "libLiteRt.so"))
name = "LiteRtGetOpaqueOptions"
address = lambda library: ctypes.cast(library[name], ctypes.c_void_p).value
assert address(ctypes.CDLL(None)) != address(stock)
pointers = (ctypes.c_void_p * 169).in_dll(stock, "kLiteRtRuntimeBuiltin")
print(address(ctypes.CDLL(None)) in pointers)
"""


def _run(code: str, *arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_a_plugin_finds_the_functions_by_name_and_by_linking(tmp_path: Path) -> None:
    if not (compiler := shutil.which("gcc")):
        pytest.skip("no gcc, which builds the plugin that looks for the functions")
    (tmp_path / "probe.c").write_text(_PROBE)
    library = str(tmp_path / "probe.so")
    command = [compiler, "-shared", "-fPIC", f"-I{INCLUDE_FOLDER}", "-o", library]
    subprocess.run([*command, str(tmp_path / "probe.c")], check=True)
    assert _run(_HOST, library) == "/assets/my op.cl"


def test_stock_s_library_in_the_same_process_keeps_its_own() -> None:
    assert _run(_STOCK) == "False"


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 62), ("aarch64", 183)])
def test_the_library_is_an_elf_file_for_the_machine(machine: str, number: int) -> None:
    image = symbol_library(machine)
    assert image[:4] == b"\x7fELF"
    assert struct.unpack_from("<H", image, 18) == (number,)
    assert all(name.encode() + b"\0" in image for name in SYMBOLS)


def test_code_for_aarch64_loads_from_its_slot() -> None:
    image = symbol_library("aarch64")
    for index in range(len(SYMBOLS)):
        place = 0x800 + 16 * index
        load, branch = struct.unpack_from("<2I", image, place)
        assert load & 0xFF00001F == 0x58000010  # ldr x16, label
        assert place + 4 * (load >> 5 & 0x7FFFF) == 0x10000 + 8 * index
        assert branch == 0xD61F0200  # br x16


def test_other_machines_are_told() -> None:
    with pytest.raises(LiteRtError, match="riscv64") as error:
        symbol_library("riscv64")
    assert error.value.status is Status.UNSUPPORTED


_THREADS = """
import sys, threading
from litert.abi.symbol_library import load_symbols

sys.setswitchinterval(1e-6)
start, found = threading.Barrier(4), []

def load():
    start.wait()
    found.append(load_symbols())

threads = [threading.Thread(target=load) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len({id(each) for each in found}))
"""


def test_threads_that_come_at_once_load_one_library() -> None:
    done = subprocess.run([sys.executable, "-c", _THREADS], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == "1", done.stdout + done.stderr
