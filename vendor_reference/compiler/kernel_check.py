"""Builds an executable's programs once, at compile time, so that a kernel's errors show where it is compiled.

The build runs in a child process, `python -m vendor_reference.device.check FOLDER`: a kernel can crash or hang
the OpenCL compiler. FOLDER has

    executable     a byte code module with the programs to build
    assets.json    {asset name: file name in FOLDER}, for all assets and companions that they name
    0, 1, ...      those files

and the child prints one line of JSON for each program, in order, as soon as it has built it:

    {"kernels": {name: number of arguments}, "log": "what the compiler said"}    a build that succeeded
    {"error": "the compiler's message and log"}                                  one that failed

What was built before with the same OpenCL is remembered, and not built again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.checked_json import JsonNode
from vendor_reference.compiler.built_kernels import (
    BuiltProgram,
    find_built,
    opencl_fingerprint,
    parse_built,
    program_key,
    remember_built,
)
from vendor_reference.executable.executable import Executable, Program
from vendor_reference.executable.writer import write_executable

TIMEOUT_S = 120.0
"""For all programs of a model; PoCL builds a large one in seconds."""

_MODULE = "vendor_reference.device.check"
_HINT = "--nocheck_kernels leaves out this build; the device will meet the same kernel."


def build_programs(
    executable: Executable, assets: Mapping[str, bytes], timeout_s: float = TIMEOUT_S
) -> Sequence[BuiltProgram]:
    """What the builds of an executable's programs say.

    Args:
      executable: its functions are not looked at.
      assets: by the names that programs give their sources and headers.
      timeout_s: for all builds.

    Raises:
      LiteRtError: COMPILATION, with the build's log, or what became of the compiler.
    """
    fingerprint = opencl_fingerprint()
    keys = [program_key(program, fingerprint) for program in executable.programs]
    built = {key: found for key in keys if (found := find_built(key))}
    missing = {
        key: program
        for key, program in zip(keys, executable.programs, strict=True)
        if key not in built
    }
    if missing:
        programs = list(missing.values())
        answers = _build(executable.soc_model, programs, assets, timeout_s)
        for key, answer in zip(missing, answers, strict=True):
            built[key] = answer
            remember_built(key, answer)
    return [built[key] for key in keys]


def _build(
    soc_model: str, programs: Sequence[Program], assets: Mapping[str, bytes], timeout_s: float
) -> Sequence[BuiltProgram]:
    with tempfile.TemporaryDirectory(prefix="litert-npu-") as folder:
        _write_folder(folder, soc_model, programs, assets)
        output, ending = _run_child(folder, timeout_s)
    lines = output.splitlines()
    answers = [_answer(line, program) for line, program in zip(lines, programs, strict=False)]
    if len(answers) < len(programs):
        where = _where(programs[len(answers)])
        raise LiteRtError(Status.COMPILATION, f"the OpenCL compiler {ending}", where, _HINT)
    return answers


def _write_folder(
    folder: str, soc_model: str, programs: Sequence[Program], assets: Mapping[str, bytes]
) -> None:
    names: dict[str, str] = {}
    for program in programs:
        for source in (*program.sources, *program.headers):
            if source.asset not in names:
                names[source.asset] = str(len(names))
                _write(folder, names[source.asset], assets[source.asset])
    _write(folder, "assets.json", json.dumps(names).encode())
    module = write_executable(Executable(soc_model, (), programs, ()))
    _write(folder, "executable", module.view)


def _write(folder: str, name: str, data: bytes | memoryview) -> None:
    with open(os.path.join(folder, name), "wb") as stream:
        stream.write(data)


def _run_child(folder: str, timeout_s: float) -> tuple[str, str]:
    """What the child printed, and how it ended, as the end of a sentence."""
    # To files: a process that the compiler leaves behind would keep a pipe open.
    output, errors = os.path.join(folder, "output"), os.path.join(folder, "errors")
    with open(output, "wb") as out, open(errors, "wb") as err:
        child = subprocess.Popen(
            [sys.executable, "-m", _MODULE, folder],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            status = child.wait(timeout_s)
            ending = f"ended with status {status}"
            if status < 0:
                ending = f"crashed ({signal.Signals(-status).name})"
        except subprocess.TimeoutExpired:
            ending = f"was not done after {timeout_s:g} s, and was stopped"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    said = _read(errors).strip()
    return _read(output), f"{ending}:\n{said}" if said else ending


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()


def _answer(line: str, program: Program) -> BuiltProgram:
    where = _where(program)
    node = JsonNode.parse(line.encode(), _MODULE, Status.RUNTIME_FAILURE)
    entries = node.entries()
    if "error" in entries:
        raise LiteRtError(
            Status.COMPILATION, f"the kernel does not build:\n{entries['error'].text()}", where
        )
    return parse_built(node)


def _where(program: Program) -> str:
    return ", ".join(source.file_name for source in program.sources)
