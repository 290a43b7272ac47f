"""Builds the programs of an executable at compile time, so that the compilation reports build errors of kernels.

The OpenCL compiler runs in a child process, in a sandbox, because a kernel can crash or hang the compiler, or make
it read files. The results of builds and the built programs are cached separately for each OpenCL driver; the
device uses this cache, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from litert.core.errors import LiteRtError
from litert.core.interrupts import on_interrupt
from litert.core.progress import counted
from litert.core.status import Status
from litert.core.tracing import SpanKind, span
from vendor_reference.compiler.built_kernels import (
    BuiltProgram,
    find_built,
    program_key,
    remember_built,
)
from vendor_reference.drivers.device_choice import ChosenDevice, choose_device
from vendor_reference.drivers.driver import CRASH_HINT
from vendor_reference.executable.binary_layer import is_binary_layer
from vendor_reference.executable.executable import Executable, Program

if TYPE_CHECKING:
    from vendor_reference.programs.program_cache import CompiledProgram

_HINT = "With --nocheck_kernels, only the device builds the kernels, when it loads the model."
_LACKS_FP16_HINT = (
    "This build is for devices without fp16 arithmetic, where kernels get half tensors as float; "
    "use --reference_fp16=half for kernels that take only half tensors."
)


def build_programs(
    executable: Executable, assets: Mapping[str, bytes], timeout_s: float | None = None
) -> Sequence[BuiltProgram | None]:
    """Builds the programs of an executable, and returns the results.

    If this device lacks fp16 arithmetic, the result of each program that needs it is None.

    The functions of the executable that use a program determine which devices need it. The keys of `assets` are
    the file names that programs use. The default time limit exceeds the time of any normal build, even on a busy
    machine.

    Raises:
      LiteRtError: COMPILATION, if a build fails (the error contains the build log), or if the compiler crashes or
        hangs; NOT_FOUND, if no OpenCL driver works on this machine.
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
        builds = _build(to_build, lack_fp16, assets, patience_s, device)
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
    device: ChosenDevice,
) -> Iterator[BuiltProgram]:
    """Yields the result of each build as soon as it is known."""
    from vendor_reference.programs.asset_sources import (
        AssetSources,  # imported here: most builds are remembered
    )
    from vendor_reference.programs.compiler_process import find_or_compile
    from vendor_reference.programs.program_text import compose_text

    sources = AssetSources({name: memoryview(data) for name, data in assets.items()}.get)
    declared = [sources.find_declared(program) for program in executable.programs]
    texts = [
        compose_text(program, sources.read)
        for program, kernels in zip(executable.programs, declared, strict=True)
        if kernels is None
    ]
    builds = find_or_compile(device.installation.library, device.info, texts, timeout_s)
    for kernels, lacks_fp16 in zip(declared, lack_fp16, strict=True):
        if kernels is not None:
            yield BuiltProgram(kernels)
        else:
            built = _next(builds, lacks_fp16)
            yield BuiltProgram(built.kernels, built.log)


def _next(builds: Iterator[CompiledProgram], lacks_fp16: bool) -> CompiledProgram:
    """Returns the next build; its error names the flag that helps, if there is one."""
    try:
        return next(builds)
    except LiteRtError as error:
        if error.status is not Status.COMPILATION:
            raise
        more = _LACKS_FP16_HINT if lacks_fp16 else ""
        if error.hint.endswith(CRASH_HINT):
            more = _HINT
        raise LiteRtError(
            error.status, error.what, error.where, f"{error.hint} {more}".strip()
        ) from error


def _binary_layer_of(program: Program, assets: Mapping[str, bytes]) -> str:
    """Returns the digest of the binary layer that contains a program; the layer may lack the source code.

    Returns "" for other programs.
    """
    for source in program.sources:
        if is_binary_layer(assets[source.asset]):
            return hashlib.sha256(assets[source.asset]).hexdigest()
    return ""
