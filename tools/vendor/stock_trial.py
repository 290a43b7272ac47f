"""Tests whether stock LiteRT loads the shared libraries that were exported from a vendor."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec

from litert.model.atomic_file import temporary_folder

FIRST_RELEASE = (2, 2)
"""First release of stock LiteRT that loads exported libraries; earlier releases pass no contexts to plugins."""

_TIMEOUT_S = 60.0
_LOADED = "Loaded 1 plugins"  # a message of apply_plugin_main
_REASON = re.compile(r"ERROR: \[litert_npu\] (.*)|└ (.*)")


def stock_limits(libraries: Mapping[str, str]) -> Iterator[str]:
    """Yields sentences about the releases of stock LiteRT that load the vendor's libraries.

    Args:
      libraries: Paths of the libraries by their kinds, `compiler_plugin` and `dispatch`; one kind may be missing.
    """
    first = ".".join(map(str, FIRST_RELEASE))
    try:
        version = metadata.version("ai-edge-litert")
    except metadata.PackageNotFoundError:
        yield f"Stock LiteRT {first} and later can load the libraries. No such release is installed here."
    else:
        yield f"Stock LiteRT {first} and later can load the libraries. {_try_installed(version, libraries)}"
    if path := libraries.get("dispatch"):
        folder, name = os.path.split(path)
        others = [n for n in sorted(os.listdir(folder or ".")) if n != name and _is_dispatch(n)]
        if others:
            yield (
                "Warning: stock LiteRT uses the first dispatch library that it finds in a folder, for any "
                f"vendor's models, and {folder or 'this folder'} also has {', '.join(others)}. Give each "
                "vendor its own folder."
            )


def _is_dispatch(name: str) -> bool:
    return name.startswith("libLiteRtDispatch") and name.endswith(".so")


def _try_installed(version: str, libraries: Mapping[str, str]) -> str:
    if tuple(int(n) for n in re.findall(r"\d+", version)[:2]) < FIRST_RELEASE:
        return f"The installed ai-edge-litert {version} is too old."
    package = find_spec("ai_edge_litert")
    folders = list(package.submodule_search_locations or ()) if package else []
    tools = [os.path.join(folder, "tools", "apply_plugin_main") for folder in folders]
    tool = next(filter(os.path.isfile, tools), "")
    plugin = libraries.get("compiler_plugin", "")
    if not tool or not plugin:
        return f"The installed version is ai-edge-litert {version}."
    problem = _load_in_tool(tool, plugin)
    if problem is None:
        return f"apply_plugin_main of the installed ai-edge-litert {version} loads the plugin."
    return f"apply_plugin_main of the installed ai-edge-litert {version} does not load {plugin}: {problem}"


def _load_in_tool(tool: str, plugin: str) -> str | None:
    """Returns the reason why stock LiteRT's tool does not load a plugin; None if the tool loads the plugin."""
    with temporary_folder() as folder:
        program, libs = os.path.join(folder, "apply_plugin_main"), os.path.join(folder, "libs")
        shutil.copyfile(tool, program)  # the file in the wheel is not executable
        os.chmod(program, 0o700)
        os.mkdir(libs)
        shutil.copy(plugin, libs)  # in a new folder, because the old folder may have other plugins
        try:
            done = subprocess.run(
                [program, "--cmd=info", f"--libs={libs}"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return f"the tool did not end in {_TIMEOUT_S:g} s"
    said = done.stdout + done.stderr
    if done.returncode == 0 and _LOADED in said:
        return None
    reasons = [next(filter(None, found)) for found in _REASON.findall(said)]
    return reasons[0] if reasons else f"exit status {done.returncode}"
