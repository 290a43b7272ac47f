"""Reads this package's C headers: they are the one source of the ABI, its documents and its checks.

`include/litert_npu/*.h` declares the structs, tables and functions that vendors' libraries and hosts share; the
comments in them hold the contract. From them come the cffi definitions (`litert.abi.definitions_generator`), the
reference of all functions, and the texts that the conformance suite reports by.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

INCLUDE_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")
"""What a C compiler takes with `-I`."""

HEADERS = (
    "types.h",
    "compiler_context.h",
    "compiler_plugin.h",
    "compiler_options.h",
    "runtime_context.h",
    "dispatch.h",
)
"""In the order in which they include each other; in `include/litert_npu`."""

RULE = re.compile(r"\s*(?:/\*|\*)?\s*\[([a-z_]+\.[a-z_]+)\] ?(.*)")
"""A line of a comment that begins a rule: its name, and the rest of the line."""
_FUNCTION = re.compile(r"\(\*(\w+)\)\(|\b(LiteRt\w+)\(")
_PROTOTYPE = re.compile(r"^([\w ]+?\**) ?(LiteRt\w+)\(([^()]*)\);", re.M)


@dataclass(frozen=True, slots=True)
class Rule:
    """One sentence or more of the contract between a host and a vendor.

    Attributes:
      name: such as `invoke.written`; unique.
      text: what must hold, as the header has it.
      function: that it is written at, without the prefix of an interface: `invoke`, `LiteRtDispatchGetApi`.
      header: its name; for a rule that no header has, the package with its check.
      line: of the header, counted from 1; 0 for a rule that no header has.
    """

    name: str
    text: str
    function: str
    header: str
    line: int

    @property
    def is_recommended(self) -> bool:
        """Whether hosts get along with a vendor that does not keep it."""
        return self.text.startswith("Recommended:")

    @property
    def where(self) -> str:
        """The place, for people."""
        return f"litert_npu/{self.header}:{self.line}" if self.line else self.header


def header_path(name: str) -> str:
    """Where a header is."""
    return os.path.join(INCLUDE_FOLDER, "litert_npu", name)


def read_header(name: str) -> str:
    """A header's text."""
    with open(header_path(name), encoding="utf-8") as file:
        return file.read()


def read_contract() -> Mapping[str, Rule]:
    """All rules of all headers, by name, in their order."""
    rules: dict[str, Rule] = {}
    for header in HEADERS:
        for rule in _rules_of(header, read_header(header).splitlines()):
            assert rule.name not in rules, f"{rule.name} is written twice"
            rules[rule.name] = rule
    return rules


def read_prototypes(header: str) -> Mapping[str, str]:
    """The functions that a header declares, in its order: the type of a pointer to each, by name."""
    return {
        match[2]: f"{match[1]} (*)({' '.join(match[3].split())})"
        for match in _PROTOTYPE.finditer(_code(header))
    }


def _rules_of(header: str, lines: list[str]) -> list[Rule]:
    rules: list[Rule] = []
    for index, line in enumerate(lines):
        match = RULE.match(line)
        if match is None:
            continue
        words = [match[2]]
        for following in lines[index + 1 :]:
            if "*/" in words[-1] or RULE.match(following) or not following.strip(" *"):
                break
            words.append(following.strip().removeprefix("*").strip())
        text = " ".join(words).partition("*/")[0].strip()
        rules.append(Rule(match[1], text, _function_after(lines, index), header, index + 1))
    return rules


def _function_after(lines: list[str], index: int) -> str:
    """The function that a comment stands before; a struct's or header's comment has the first in it."""
    ends = False
    for line in lines[index:]:
        match = _FUNCTION.search(line)
        if ends and match and "typedef" not in line:
            return match[1] or match[2]
        ends = ends or "*/" in line
    raise AssertionError(f"no function after line {index + 1}")


def declarations() -> str:
    """All headers as one text that a parser of C without a preprocessor takes."""
    text = without_directives("\n".join(map(_code, HEADERS))).replace('extern "C" {', "")
    return re.sub(r"^\}$", "", text, flags=re.M)


def without_directives(text: str) -> str:
    """C without the lines that the preprocessor takes."""
    return re.sub(r"^#(?:.*\\\n)*.*$", "", text, flags=re.M)


def _code(header: str) -> str:
    """A header without comments and what marks an export."""
    text = re.sub(r"/\*.*?\*/", "", read_header(header), flags=re.S)
    return re.sub("LITERT_CAPI_EXPORT ?", "", text)
