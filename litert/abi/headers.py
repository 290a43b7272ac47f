"""Reads the C headers of this package, which are the only source of the ABI, its documentation and its checks.

`include/litert_npu/*.h` declares the structs, tables and functions that vendor libraries and hosts share; comments
in the headers are the contract. From the headers, other modules make the cffi definitions
(`litert.abi.definitions_generator`), the page `docs/vendor_contract.md`, and the texts of rules in reports of
`vendor check`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

INCLUDE_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")
"""Directory for the option `-I` of a C compiler."""

HEADERS = (
    "types.h",
    "compiler_context.h",
    "compiler_plugin.h",
    "compiler_options.h",
    "runtime_context.h",
    "dispatch.h",
)
"""Names of the headers in `include/litert_npu`; each header follows the headers that it includes."""

RULE = re.compile(r"\s*(?:/\*|\*)?\s*\[([a-z_]+\.[a-z_]+)\] ?(.*)")
"""A pattern for the first line of a rule in a comment: the rule's name, and the rest of the line."""
_FUNCTION = re.compile(r"\(\*(\w+)\)\(|\b(LiteRt\w+)\(")
_PROTOTYPE = re.compile(r"^([\w ]+?\**) ?(LiteRt\w+)\(([^()]*)\);", re.M)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the contract between a host and a vendor.

    Attributes:
      name: Unique name of the rule, such as `invoke.written`.
      text: Text of the rule.
      function: Name of the function that the rule belongs to, such as `invoke` or `LiteRtDispatchGetApi`.
      header: Name of the header that contains the rule; if no header contains the rule, name of the package that
        checks the rule.
      line: Line of the header in which the rule begins, counted from 1; 0 if no header contains the rule.
    """

    name: str
    text: str
    function: str
    header: str
    line: int

    @property
    def is_recommended(self) -> bool:
        """Whether the rule is only a recommendation, so that hosts also work with a vendor that breaks it."""
        return self.text.startswith("Recommended:")

    @property
    def where(self) -> str:
        """The place of the rule in the headers, for messages."""
        return f"litert_npu/{self.header}:{self.line}" if self.line else self.header


def header_path(name: str) -> str:
    """Returns the path of a header."""
    return os.path.join(INCLUDE_FOLDER, "litert_npu", name)


def read_header(name: str) -> str:
    """Returns the text of a header."""
    with open(header_path(name), encoding="utf-8") as file:
        return file.read()


def read_contract() -> Mapping[str, Rule]:
    """Returns the rules of all headers, by name, in the order of the headers."""
    rules: dict[str, Rule] = {}
    for header in HEADERS:
        for rule in _rules_of(header, read_header(header).splitlines()):
            assert rule.name not in rules, f"{rule.name} is written twice"
            rules[rule.name] = rule
    return rules


def read_prototypes(header: str) -> Mapping[str, str]:
    """Returns the type of a pointer to each function that a header declares, by the function's name."""
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
    """Returns the name of the first function after a comment."""
    ends = False
    for line in lines[index:]:
        match = _FUNCTION.search(line)
        if ends and match and "typedef" not in line:
            return match[1] or match[2]
        ends = ends or "*/" in line
    raise AssertionError(f"no function follows the comment in line {index + 1}")


def declarations() -> str:
    """Returns all headers as one text, for a C parser without a preprocessor."""
    text = without_directives("\n".join(map(_code, HEADERS))).replace('extern "C" {', "")
    return re.sub(r"^\}$", "", text, flags=re.M)


def without_directives(text: str) -> str:
    """Returns C code without preprocessor directives."""
    return re.sub(r"^#(?:.*\\\n)*.*$", "", text, flags=re.M)


def _code(header: str) -> str:
    """Returns the text of a header without comments and export macros."""
    text = re.sub(r"/\*.*?\*/", "", read_header(header), flags=re.S)
    return re.sub("LITERT_CAPI_EXPORT ?", "", text)
