"""PoCL, the portable OpenCL driver, from Debian (`pocl-opencl-icd`) for any CPU, or from PyPI as a wheel.

The wheel `pocl-binary-distribution` contains PoCL 3.0 with LLVM 14, from 2022. PoCL 3.0 cannot build kernels on
newer CPUs (such as AMD Zen 5), and crashes or hangs with some kernels.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from vendor_reference.custom_layers.kernel_source import without_comments
from vendor_reference.drivers.device_info import DeviceInfo
from vendor_reference.drivers.driver import Driver, SandboxNeeds

_VERSION = re.compile(r"PoCL (\d+)\.(\d+)", re.IGNORECASE)
_FAILED = re.compile(r"^Device .* failed to build the program$\n?", re.MULTILINE)
_WIDE = re.compile(r"\b(?:(?:u?int|u?long|float|double)16|(?:u?long|double)8)\b")
_POISON = "attempt to use a poisoned identifier"
_NO_ASSEMBLY = (
    "inline assembly is not allowed: PoCL would also assemble it in your program's process"
)
_INSIDE_A_MACRO = re.compile(r"(?<=\d) <Spelling=(?:<[^<>\n]*>|[^<>\n])*>")
"""Part of a message that gives a place in a PoCL macro, or in a name made by `##`: `<scratch space>:9:4`."""


class Pocl(Driver):
    """PoCL, which compiles a kernel for each work group size at the first run with this size.

    A crash during a build can leave a broken entry in PoCL's cache, which makes later runs fail. Each process
    therefore gets its own PoCL cache. Whole programs are in this project's own cache.
    """

    name = "pocl"
    library = "libpocl"
    platform = "Portable Computing Language"
    hint = "apt install pocl-opencl-icd"
    keeps_variants = True
    widest_vector = 8
    # PoCL makes machine code in the first run, in the host's process, where an assembler could read any file.
    guard = "#pragma GCC poison asm __asm __asm__\n"
    threads_variable = "POCL_MAX_PTHREAD_COUNT"

    def environment(self, make_scratch_folder: Callable[[], str]) -> Mapping[str, str]:
        return {"POCL_CACHE_DIR": make_scratch_folder()}

    def sandbox_needs(self, library: str) -> SandboxNeeds:
        packages = os.path.dirname(os.path.dirname(os.path.dirname(library)))
        wheel = os.path.join(packages, "pocl_binary_distribution")
        folders = (os.path.dirname(library), wheel, "/usr/share/pocl")
        # PoCL opens the root folder before it reads the machine's memory size.
        return SandboxNeeds(folders, programs=("ld",), listed=("/",))

    def merit(self, info: DeviceInfo) -> tuple[int, ...]:
        found = _VERSION.search(info.platform_version)
        return (0, int(found[1]), int(found[2])) if found else (0,)

    def crash_cause(self, text: str) -> str:
        found = _WIDE.search(without_comments(text))
        why = (
            "and some vectors of 64 bytes or more crash PoCL: try narrower vectors, such as float8."
        )
        return f"The kernel uses {found[0]}, {why}" if found else ""

    def clean_log(self, log: str) -> str:
        log = log.replace(_POISON, _NO_ASSEMBLY)
        return _INSIDE_A_MACRO.sub("", _FAILED.sub("", log)).strip()


DRIVER = Pocl()
