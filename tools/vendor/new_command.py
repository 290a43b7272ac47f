"""`litert-npu vendor new`: writes the files of a new vendor, in Python, C or C++.

The templates are the repository's example vendors, in which the new vendor's name replaces the example's name. The
template in C++ is the template in C with other source files.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from shutil import ignore_patterns

from litert.core.errors import LiteRtError
from litert.core.input_file import read_input
from litert.core.option import Flag
from litert.core.status import Status
from litert.core.vendor_names import plain_name
from litert.host.extensions import COMPILER_PLUGINS, DISPATCH_TABLES

from ..command import Command
from ..command_line import FlagValues
from ..console import print_lines
from ..destinations import write_new_files

TEMPLATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")

_NAMES = {"python": "Nickel", "c": "Cobalt", "cpp": "Cobalt"}
"""Names of the example vendors, by language."""

_IN_CPP = {
    "-std=c11": "-std=c++17",
    "$(CC)": "$(CXX)",
    "$(CFLAGS)": "$(CXXFLAGS)",
    "CFLAGS='": "CXXFLAGS='",
    "--lang=c`": "--lang=cpp`",
    "an NPU in C\n": "an NPU in C++\n",
    "a C compiler:": "a C++17 compiler:",
    'LiteRT, in C."': 'LiteRT, in C++."',
    "plugin.c": "plugin.cc",
    "dispatch.c": "dispatch.cc",
}
"""Words about C in the files that the templates in C and C++ share, and the words for C++ that replace them."""

_find_made = ignore_patterns("__pycache__", ".*_cache", "*.egg-info", "*.so", "*.tflite", "build")
"""Finds files that a build or a test of an example leaves in its folder."""


def new_vendor(name: str, lang: str) -> Mapping[str, str]:
    """Returns the texts of a new vendor's files by their relative paths; `lang` is `python`, `c` or `cpp`.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the name is not allowed; ALREADY_EXISTS, if another package has the
        vendor's name.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]{0,23}", name):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the vendor name '{name}' cannot be a part of the names of files and packages",
            hint="Use at most 24 letters and digits, and begin with a letter.",
        )
    _check_free(name)
    files = _read_template(lang)
    if lang == "cpp":
        shared = _read_template("c")
        shared = {path: text for path, text in shared.items() if not path.endswith(".c")}
        files |= {path: _replaced(text, _IN_CPP) for path, text in shared.items()}
    return {_renamed(path, lang, name): _renamed(text, lang, name) for path, text in files.items()}


def _read_template(lang: str) -> dict[str, str]:
    """Returns the texts of a template's files by their relative paths, without files left by builds and tests."""
    root = os.path.join(TEMPLATES, lang)
    files: dict[str, str] = {}
    for folder, below, names in os.walk(root, onerror=_fail):
        below[:] = sorted(set(below) - _find_made(folder, below))
        for file_name in sorted(set(names) - _find_made(folder, names)):
            path = os.path.join(folder, file_name)
            files[os.path.relpath(path, root)] = read_input(path).decode()
    return files


def _fail(error: OSError) -> None:
    raise error


def _check_free(name: str) -> None:
    """Raises an error if another package has the vendor's or the package's name, because pip would replace it."""
    from importlib import metadata

    package = f"{name.lower()}-npu"
    takers = {package} if package == "litert-npu" else set()
    for group in (COMPILER_PLUGINS, DISPATCH_TABLES):
        for point in metadata.entry_points(group=group):
            if plain_name(point.name) == plain_name(name) and point.dist:
                takers |= {point.dist.name} - {package}
    if takers:
        taker = min(takers)
        is_own = taker == "litert-npu"
        raise LiteRtError(
            Status.ALREADY_EXISTS,
            f"litert-npu itself already uses the name '{name}'"
            if is_own
            else f"the installed package {taker} already has the vendor '{name}'",
            hint="Choose another name."
            if is_own
            else f"Choose another name, or uninstall {taker}.",
        )


def _renamed(text: str, lang: str, name: str) -> str:
    """Replaces the example's name in a text by the new name, in mixed, lower and upper case."""
    old = _NAMES[lang]
    spellings = {old: name, old.lower(): name.lower(), old.upper(): name.upper()}
    return _replaced(text, spellings)


def _replaced(text: str, words: Mapping[str, str]) -> str:
    for word, other in words.items():
        text = text.replace(word, other)
    return text


_FLAGS = (
    Flag("lang", "python", "Language of the new vendor.", choices=sorted(_NAMES)),
    Flag(
        "o", "", "Output folder. The default is the vendor's name in lower case, followed by _npu."
    ),
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    files = new_vendor(arguments[0], flags.lang)
    paths = write_new_files(flags.o or f"{arguments[0].lower()}_npu", files)
    lines = [f"Wrote {path}" for path in paths]
    readme = next(path for path in paths if path.endswith("README.md"))
    print_lines([*lines, f"The next commands are in {readme}."], sys.stdout)
    return 0


COMMAND = Command(
    "NAME\nWrites a working vendor: a compiler plugin, a dispatch table, a package with entry "
    "points, an example model, and tests. Comments with the word YOUR mark the places for your own "
    "code.",
    _FLAGS,
    _run,
    num_arguments=1,
)
