"""Intel's OpenCL runtime for CPUs (`intel-opencl-rt`), which supports x86-64 CPUs of any manufacturer.

The package's ICD file contains a path on the machine where the package was built, so the OpenCL loader does not
find the driver's library. The package `intel-opencl-rt` needs `intel-cmplr-lib-rt`, but does not declare this
dependency. The facts in this module were determined with version 2026.2.0 of the runtime.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from glob import glob

from vendor_reference.drivers.device_info import DeviceInfo
from vendor_reference.drivers.driver import Driver, SandboxNeeds

_LIBRARY = "libintelocl.so"
_NOISE = re.compile(
    r"(Compilation|Linking|Device build) (started|done|failed)|Failed to build device program|Done\."
    r"|Options used by backend compiler: .*|remark: .*|Kernel \".*\" was .*vectorized.*"
    r"|In file included from <built-in>:\d+:|CompilerException Failed to lookup symbol .*"
    r"|Failed to materialize symbols: .*"
    r"|warning: kernel \".*\": Kernel can't be vectorized due to unsupported vec type hint"
)
_PLACE = re.compile(r"(?P<place>[^\n:]+:\d+:\d+): (?P<kind>(?:fatal )?error|warning|note): ")
_EXCERPT = re.compile(r" *\d* \| ")
_OF_THE_DRIVER = re.compile(r"(?:opencl-c(?:-base)?\.h|<scratch space>):\d+:\d+: ")


class Intel(Driver):
    """Intel's driver, which compiles a kernel once for all work sizes, and vectorizes over work items."""

    name = "intel"
    library = "libintelocl"
    platform = "Intel(R) OpenCL"
    hint = "pip install intel-opencl-rt intel-cmplr-lib-rt (x86-64 Linux with glibc 2.28 or newer)"
    compiles_for_group_sizes = False
    threads_variable = "CL_CONFIG_CPU_TBB_NUM_WORKERS"

    def find(self) -> Sequence[str]:
        """Finds the driver's library in the file list of the installed Python distribution."""
        return list(_installed())

    def sandbox_needs(self, library: str) -> SandboxNeeds:
        return SandboxNeeds((os.path.dirname(library),))

    def merit(self, info: DeviceInfo) -> tuple[int, ...]:
        return (2000, *(int(number) for number in re.findall(r"\d+", info.driver_version)[:3]))

    def clean_log(self, log: str) -> str:
        """Rewrites messages in PoCL's form `error: place: text`, without source excerpts and driver headers."""
        lines = []
        is_shown = True
        for line in log.split("\n"):
            if _NOISE.fullmatch(line.strip()):
                continue
            if place := _PLACE.match(line):
                is_shown = _OF_THE_DRIVER.match(line) is None
                kind = place["kind"].removeprefix("fatal ")
                line = f"{kind}: {place['place']}: {line[place.end() :]}"
            elif _EXCERPT.match(line):
                continue
            if is_shown:
                lines.append(line)
        return "\n".join(lines).strip()


def _installed() -> Iterator[str]:
    """Yields the driver's library in each folder of packages; pip's `RECORD` file names the library.

    Reads `RECORD` itself, because importing `importlib.metadata` would double the time for starting a command.
    """
    for folder in dict.fromkeys(sys.path):
        for record in glob("intel_opencl_rt-*.dist-info/RECORD", root_dir=folder or "."):
            with suppress(OSError), open(os.path.join(folder, record), encoding="utf-8") as lines:
                for line in lines:
                    path = line.partition(",")[0]
                    if path.rpartition("/")[2] == _LIBRARY:
                        yield os.path.normpath(os.path.join(folder, path))


DRIVER = Intel()
