"""OpenCL C text, read without a compiler: the kernels in it, and the files it includes.

A scan, not a preprocessor: both branches of an `#if` count, and names that a build option defines are not
known. Where it matters, the build has the last word (`compiler/kernel_check.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from litert.core.errors import LiteRtError
from litert.core.status import Status

_KEYWORDS = ("kernel", "__kernel")
_ATTRIBUTES = ("__attribute__", "__attribute")
_COMMENT_OR_TEXT = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"')
_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(\(([^)]*)\))?(.*)", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z_]\w*|##|\d[\w.]*|\S", re.ASCII)
_MAX_EXPANSIONS = 10_000
_MAX_DEPTH = 50


@dataclass(frozen=True, slots=True)
class _Macro:
    """A `#define`; `parameters` is None for one without parentheses."""

    parameters: Sequence[str] | None
    body: Sequence[str]


@dataclass(slots=True)
class _Scan:
    macros: dict[str, _Macro] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    expansions: int = 0


def decode_source(data: bytes | memoryview, where: str) -> str:
    """The text of an OpenCL C file, for scanning; bytes that are not UTF-8 can stand in comments.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for a file with zero bytes, which is no text.
    """
    text = str(data, "utf-8-sig", "replace")
    if "\0" in text:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"a zero byte at {text.index(chr(0))}: not OpenCL C",
            where,
            "A .cl file is source text; a compiled kernel has another suffix.",
        )
    return text


def includes(text: str) -> Sequence[str]:
    """What `#include "..."` names, in order; neither `<...>` nor names made by macros."""
    names = []
    for line in _strip(text, keep_text=True).split("\n"):
        match = _INCLUDE.match(line)
        if match and match.group(1) not in names:
            names.append(match.group(1))
    return names


def without_comments(text: str) -> str:
    """The text with a blank for each comment, and with strings left empty."""
    return _strip(text)


def kernel_names(texts: Sequence[str]) -> Sequence[str]:
    """The kernels that the texts define, in order, each once.

    Args:
      texts: included files before those that include them, as their macros count in all that follow.
    """
    scan = _Scan()
    for text in texts:
        _read(text, scan)
    tokens = _expand(scan.tokens, scan, {}, 0)
    names: list[str] = []
    for index, token in enumerate(tokens):
        if token in _KEYWORDS:
            name = _declared_name(tokens, index + 1)
            if name and name not in names:
                names.append(name)
    return names


def choose_kernel(op_name: str, names: Sequence[str]) -> str | None:
    """The kernel for an op: the one of its name, else the only one; None if there is no such."""
    if op_name in names:
        return op_name
    return names[0] if len(names) == 1 else None


def _strip(text: str, keep_text: bool = False) -> str:
    """The text with lines joined at a backslash, without comments, and with strings left empty."""
    spliced = re.sub(r"\\[ \t]*\r?\n", "", text.replace("\r\n", "\n"))

    def replaced(match: re.Match[str]) -> str:
        found = match.group()
        if found[0] == "/":
            return " "
        return found if keep_text else found[0] * 2

    return _COMMENT_OR_TEXT.sub(replaced, spliced)


def _read(text: str, scan: _Scan) -> None:
    for line in _strip(text).split("\n"):
        if not line.lstrip(" \t").startswith("#"):
            scan.tokens += _TOKEN.findall(line)
        elif match := _DEFINE.match(line):
            name, parentheses, parameters, body = match.groups()
            names = None
            if parentheses:
                names = [p.strip() for p in parameters.split(",") if p.strip()]
            scan.macros.setdefault(name, _Macro(names, _TOKEN.findall(body)))


def _expand(
    tokens: Sequence[str], scan: _Scan, active: Mapping[str, bool], depth: int
) -> list[str]:
    """Tokens with macros replaced; a macro is not replaced inside itself, as in C."""
    result: list[str] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        index += 1
        macro = scan.macros.get(token)
        if macro is None or token in active or depth > _MAX_DEPTH:
            result.append(token)
            continue
        arguments: Sequence[Sequence[str]] = ()
        if macro.parameters is not None:
            if tokens[index : index + 1] != ["("]:
                result.append(token)
                continue
            end = _closing(tokens, index)
            arguments = _split_arguments(tokens[index + 1 : end])
            index = end + 1
        scan.expansions += 1
        if scan.expansions > _MAX_EXPANSIONS:  # macros that double at each level
            result.append(token)
            continue
        body = _substitute(macro, arguments)
        result += _expand(body, scan, {**active, token: True}, depth + 1)
    return result


def _substitute(macro: _Macro, arguments: Sequence[Sequence[str]]) -> list[str]:
    """A macro's body with its arguments in it, and `##` carried out."""
    values = dict(zip(macro.parameters or (), arguments, strict=False))
    body: list[str] = []
    for token in macro.body:
        body += values.get(token, [token])
    joined: list[str] = []
    for token in body:
        if len(joined) > 1 and joined[-1] == "##":
            joined.pop()
            joined[-1] += token
        else:
            joined.append(token)
    return joined


def _closing(tokens: Sequence[str], index: int) -> int:
    """Where the parenthesis that opens at `index` closes; the end where it does not."""
    depth = 0
    for at in range(index, len(tokens)):
        depth += (tokens[at] == "(") - (tokens[at] == ")")
        if depth == 0:
            return at
    return len(tokens)


def _split_arguments(tokens: Sequence[str]) -> list[list[str]]:
    arguments: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token == "(") - (token == ")")
        if token == "," and depth == 0:
            arguments.append([])
        else:
            arguments[-1].append(token)
    return arguments


def _declared_name(tokens: Sequence[str], index: int) -> str | None:
    """The name in `[attributes] void [attributes] name (`, from behind the keyword."""
    while index < len(tokens):
        token = tokens[index]
        follows = tokens[index + 1] if index + 1 < len(tokens) else ""
        if token in _ATTRIBUTES and follows == "(":
            index = _closing(tokens, index + 1) + 1
        elif not (token[0].isalpha() or token[0] == "_"):
            return None
        elif follows == "(":
            return token
        else:
            index += 1
    return None
