"""Tries whether stock LiteRT loads the libraries that were made from a vendor."""

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
"""In earlier releases, plugins link `libLiteRt.so` and get no contexts."""

_TIMEOUT_S = 60.0
_LOADED = "Loaded 1 plugins"  # as apply_plugin_main says it
_REASON = re.compile(r"ERROR: \[litert_npu\] (.*)|└ (.*)")


def stock_limits(libraries: Mapping[str, str]) -> Iterator[str]:
    """Yields lines that say which parts of stock LiteRT load the vendor's libraries.

    Args:
      libraries: Paths of the libraries by kind, `compiler_plugin` and `dispatch`; one may be missing.
    """
    first = ".".join(map(str, FIRST_RELEASE))
    try:
        version = metadata.version("ai-edge-litert")
    except metadata.PackageNotFoundError:
        yield f"Stock LiteRT loads them from release {first} on; no such release is installed to try."
    else:
        yield f"Stock LiteRT loads them from release {first} on; {_try_installed(version, libraries)}"
    if path := libraries.get("dispatch"):
        folder, name = os.path.split(path)
        others = [n for n in sorted(os.listdir(folder or ".")) if n != name and _is_dispatch(n)]
        if others:
            yield (
                "Warning: stock LiteRT takes the first dispatch library that it finds in a folder, whomever the "
                f"model is for, and {folder or 'this folder'} has {', '.join(others)}, too. Give each vendor a "
                "folder."
            )


def _is_dispatch(name: str) -> bool:
    return name.startswith("libLiteRtDispatch") and name.endswith(".so")


def _try_installed(version: str, libraries: Mapping[str, str]) -> str:
    if tuple(int(n) for n in re.findall(r"\d+", version)[:2]) < FIRST_RELEASE:
        return f"ai-edge-litert {version}, which is here, does not."
    package = find_spec("ai_edge_litert")
    folders = list(package.submodule_search_locations or ()) if package else []
    tools = [os.path.join(folder, "tools", "apply_plugin_main") for folder in folders]
    tool = next(filter(os.path.isfile, tools), "")
    plugin = libraries.get("compiler_plugin", "")
    if not tool or not plugin:
        return f"ai-edge-litert {version} is here."
    problem = _load_in_tool(tool, plugin)
    if problem is None:
        return f"apply_plugin_main of ai-edge-litert {version}, which is here, does."
    return f"apply_plugin_main of ai-edge-litert {version}, which is here, does not load {plugin}: {problem}"


def _load_in_tool(tool: str, plugin: str) -> str | None:
    """What stock's tool says to a plugin that it does not load; None where it does."""
    with temporary_folder() as folder:
        program, libs = os.path.join(folder, "apply_plugin_main"), os.path.join(folder, "libs")
        shutil.copyfile(tool, program)  # which has no run bit in the wheel
        os.chmod(program, 0o700)
        os.mkdir(libs)
        shutil.copy(plugin, libs)  # alone: a folder may have others
        try:
            done = subprocess.run(
                [program, "--cmd=info", f"--libs={libs}"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return f"no answer in {_TIMEOUT_S:g} s"
    said = done.stdout + done.stderr
    if done.returncode == 0 and _LOADED in said:
        return None
    reasons = [next(filter(None, found)) for found in _REASON.findall(said)]
    return reasons[0] if reasons else f"exit status {done.returncode}"
