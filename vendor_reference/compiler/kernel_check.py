"""Builds an executable's programs once, at compile time, so that a kernel's errors show where it is compiled.

The device's side does it, in a child process: a kernel can crash or hang the OpenCL compiler, and this side of
the vendor loads no OpenCL. `vendor_reference.device.kernel_check_worker:check` gets a folder with

    executable     a byte code module with the programs to build, and no function
    assets.json    {asset name: file name in the folder}, for all assets and companions that they name
    0, 1, ...      those files

and yields `{"kernels": {name: signature}, "log": what the compiler said}` for each program, in order, as soon as
it is built; `executable/kernel_signature.py` has the signatures. A build that fails raises COMPILATION, with its
log. By hand: `python -m vendor_reference.device.kernel_check_worker FOLDER`.

What was built before with the same OpenCL is remembered, and not built again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence

from litert.core.checked_json import JsonNode
from litert.core.errors import LiteRtError
from litert.core.interrupts import on_interrupt
from litert.core.progress import counted
from litert.core.status import Status
from litert.core.tracing import SpanKind, span
from vendor_reference.compiler.built_kernels import (
    BUILT,
    BuiltProgram,
    find_built,
    program_key,
    remember_built,
)
from vendor_reference.drivers.device_choice import choose_device
from vendor_reference.drivers.driver import CRASH_HINT
from vendor_reference.drivers.installation import Installation
from vendor_reference.executable.binary_layer import is_binary_layer
from vendor_reference.executable.byte_code import write_executable
from vendor_reference.executable.executable import Executable, Program

_CHECK = "vendor_reference.device.kernel_check_worker:check"
_HINT = "--nocheck_kernels only moves the build to the device."
_LACKS_FP16_HINT = (
    "This build is for devices without fp16 arithmetic, where half tensors are float; --reference_fp16=half is "
    "for a kernel of halves alone."
)


def build_programs(
    executable: Executable, assets: Mapping[str, bytes], timeout_s: float | None = None
) -> Sequence[BuiltProgram | None]:
    """What the builds of an executable's programs say; None of those that need fp16 arithmetic which is not here.

    Its functions say which programs are for which devices. Assets are by the names that programs give their files.
    Without a time limit it is what no honest build takes, even where the machine is busy.

    Raises:
      LiteRtError: COMPILATION, with the build's log, or what became of the compiler; NOT_FOUND, if no OpenCL
        driver works here.
    """
    device = choose_device()
    fingerprint = device.fingerprint
    with_fp16, without = set(executable.programs_on(True)), set(executable.programs_on(False))
    left_out = set() if device.info.has_fp16 else with_fp16 - without
    keys = {
        index: program_key(program, fingerprint + _binary_layer_of(program, assets))
        for index, program in enumerate(executable.programs)
        if index not in left_out
    }
    built = {key: found for key in keys.values() if (found := find_built(key))}
    missing = {key: index for index, key in keys.items() if key not in built}
    if missing:
        programs = [executable.programs[index] for index in missing.values()]
        to_build = Executable(executable.soc_model, (), programs, ())
        lack_fp16 = [
            index in without - with_fp16 and device.info.has_fp16 for index in missing.values()
        ]
        patience_s = 60 + 10.0 * len(programs) if timeout_s is None else timeout_s
        builds = _build(to_build, lack_fp16, assets, patience_s, device.installation)
        answers = counted("build", builds, len(programs))
        kept = "kernels are built, and kept in the cache"
        with (
            on_interrupt(lambda: f"{len(built)} of {len(keys)} {kept}"),
            span(SpanKind.STEP, "build kernels", programs=len(programs), remembered=len(built)),
        ):
            for key, answer in zip(missing, answers, strict=True):
                built[key] = answer
                remember_built(key, answer)
    return [
        built[keys[index]] if index in keys else None for index in range(len(executable.programs))
    ]


def _build(
    executable: Executable,
    lack_fp16: Sequence[bool],
    assets: Mapping[str, bytes],
    timeout_s: float,
    installation: Installation,
) -> Iterator[BuiltProgram]:
    """What the builds of all programs say, each as soon as it is known."""
    import tempfile  # both here: mostly all is remembered

    from vendor_reference.drivers.proof import call_compiler

    done, programs = 0, executable.programs
    try:
        with tempfile.TemporaryDirectory(prefix="litert-npu-") as folder:
            _write_folder(folder, executable, assets)
            for answer in call_compiler(
                _CHECK, folder, timeout_s=timeout_s, library=installation.library
            ):
                node = JsonNode(answer, "$", _CHECK, Status.RUNTIME_FAILURE)
                yield BUILT.read(node)
                done += 1
    except LiteRtError as error:
        index = min(done, len(programs) - 1)
        if error.status in (Status.RUNTIME_FAILURE, Status.TIMEOUT_EXPIRED):
            where = ", ".join(source.file_name for source in programs[index].sources)
            texts = [programs[index].prelude]
            texts += [str(assets[s.asset], "utf-8", "replace") for s in programs[index].sources]
            cause = installation.driver.crash_cause("\n".join(texts))
            hint = f"{cause} {CRASH_HINT} {_HINT}".lstrip()
            raise LiteRtError(Status.COMPILATION, error.what, where, hint) from error
        if lack_fp16[index] and error.status is Status.COMPILATION:
            hint = f"{error.hint} {_LACKS_FP16_HINT}".lstrip()
            raise LiteRtError(error.status, error.what, error.where, hint) from error
        raise  # the kernel does not build, or there is no OpenCL to build it
    assert done == len(programs)


def _binary_layer_of(program: Program, assets: Mapping[str, bytes]) -> str:
    """The digest of the binary layer that a program is in, which may lack its source; "" for none."""
    for source in program.sources:
        if is_binary_layer(assets[source.asset]):
            return hashlib.sha256(assets[source.asset]).hexdigest()
    return ""


def _write_folder(folder: str, executable: Executable, assets: Mapping[str, bytes]) -> None:
    names: dict[str, str] = {}
    for program in executable.programs:
        for source in (*program.sources, *program.headers):
            if source.asset not in names:
                names[source.asset] = str(len(names))
                _write(folder, names[source.asset], assets[source.asset])
    _write(folder, "assets.json", json.dumps(names).encode())
    _write(folder, "executable", write_executable(executable).view)


def _write(folder: str, name: str, data: bytes | memoryview) -> None:
    with open(os.path.join(folder, name), "wb") as stream:
        stream.write(data)
