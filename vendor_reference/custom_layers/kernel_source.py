"""Reads OpenCL C source code without a compiler: finds its tokens, kernels, kernel parameters and includes.

The scan does not preprocess the source code: it reads both branches of an `#if`, and does not know macros from
build options. The final check is the build of the kernel (`compiler/kernel_check.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from litert.core.errors import LiteRtError
from litert.core.status import Status

_KEYWORDS = ("kernel", "__kernel")
_ATTRIBUTES = ("__attribute__", "__attribute")
_COMMENT_OR_TEXT = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"')
_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(\(([^)]*)\))?(.*)", re.ASCII)
_TOKEN = re.compile(
    r"[A-Za-z_][\w\0]*|##|\d[\w.]*|->|<<|>>|&&|\|\||[-+*/%&|^<>=!]=|[^\s\0]", re.ASCII
)
_JOINED = "\0"  # marks the end of a line that continues in the next; no text contains it
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_MAX_EXPANSIONS = 10_000
_MAX_DEPTH = 50
_QUALIFIERS = {
    "__global", "global", "__constant", "constant", "__local", "local", "__private", "private", "const",
    "volatile", "restrict", "__restrict",
}  # fmt: skip
_TYPE = re.compile(
    r"(half|float|double|bool|u?char|u?short|u?int|u?long)(2|3|4|8|16)?|signed|unsigned|void|size_t"
)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Token(NamedTuple):
    """A token of OpenCL C: a name, a number or an operator.

    Attributes:
      line: Line number in the source code, from 1; for a token from a macro, the line where the macro is used.
    """

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class _Macro:
    """A `#define`; `parameters` is None for a macro without parentheses."""

    parameters: Sequence[str] | None
    body: Sequence[str]


@dataclass(slots=True)
class _Scan:
    macros: dict[str, _Macro] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)  # defined again, with another body
    tokens: list[Token] = field(default_factory=list)
    expansions: int = 0


def decode_source(data: bytes | memoryview, where: str) -> str:
    """Decodes an OpenCL C file for scanning; comments may contain bytes that are not UTF-8.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the OpenCL C file contains a zero byte.
    """
    text = str(data, "utf-8-sig", "replace")
    if "\0" in text:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the file is not OpenCL source code, because it contains a zero byte at offset {text.index(chr(0))}",
            where,
            "Use a text file in UTF-8. A kernel that is already compiled must be a .bin file from litert-npu "
            "layer build.",
        )
    return text


def includes(text: str) -> Sequence[str]:
    """Returns the file names in `#include "..."` directives, in order.

    Ignores `#include <...>` directives, and file names that come from macros.
    """
    lines = (line.replace(_JOINED, "") for _, line in _lines(text, keep_text=True))
    found = (match[1] for match in map(_INCLUDE.match, lines) if match)
    return list(dict.fromkeys(found))


def without_comments(text: str) -> str:
    """Replaces each comment in source code by a blank, and each string literal by an empty string."""
    return "\n".join(line.replace(_JOINED, "") for _, line in _lines(text))


def define_line(text: str) -> str:
    """Prepares a text for use as a macro's body: replaces comments by blanks, and removes a backslash at the end.

    Without these changes, a comment could hide the code after the macro, and a backslash would append the next
    line.

    Raises:
      LiteRtError: INVALID_ARGUMENT, with the reason, if the text cannot be the body of a `#define`.
    """
    line = _COMMENT_OR_TEXT.sub(lambda part: part[0] if part[0][0] in "\"'" else " ", text)
    if line.rstrip().endswith("\\"):
        line = line.rstrip("\\ ")
    reason = ""
    last = [part for part in _COMMENT_OR_TEXT.findall(text) if part.startswith("/*")][-1:]
    if last and not re.fullmatch(r"/\*.*\*/", last[0], re.DOTALL):
        reason = "a comment does not end with '*/'"
    elif not line.isprintable():
        reason = f"the character {next(c for c in line if not c.isprintable())!a} is not printable"
    elif found := re.search("[\"']", _COMMENT_OR_TEXT.sub("", line)):
        reason = f"the character {found[0]} has no matching quote"
    if reason:
        shown = f"a #define cannot contain the text {text[:40]!r}: {reason}"
        raise LiteRtError(Status.INVALID_ARGUMENT, shown)
    return line


def kernel_tokens(texts: Sequence[str]) -> Sequence[Token]:
    """Returns the tokens of source files; macros are expanded, and preprocessor directives are omitted.

    Args:
      texts: Texts of the source files; included files come first, since their macros apply to all later texts.
    """
    scan = _Scan()
    for text in texts:
        _read(text, scan)
    return _expand(scan.tokens, scan, {}, 0)


def kernel_names(texts: Sequence[str]) -> Sequence[str]:
    """Returns the names of the kernels that the source code defines, in order and without duplicates."""
    tokens = kernel_tokens(texts)
    return list(dict.fromkeys(tokens[index].text for index in find_kernels(tokens)))


def find_kernels(tokens: Sequence[Token]) -> Iterator[int]:
    """Yields, for each declared or defined kernel, the index of the token that is the kernel's name."""
    for index, token in enumerate(tokens):
        if token.text in _KEYWORDS:
            name = _declared_name(tokens, index + 1)
            if name is not None:
                yield name


def choose_kernel(op_name: str, names: Sequence[str]) -> str | None:
    """Chooses the kernel for an op: the kernel with the op's name, or else the only kernel.

    Returns None if neither kernel exists.
    """
    if op_name in names:
        return op_name
    return names[0] if len(names) == 1 else None


def find_closing(tokens: Sequence[Token], index: int) -> int:
    """Returns the index of the closing bracket for the bracket at `index`; `len(tokens)` if there is none."""
    opening, depth = tokens[index].text, 0
    closing = _CLOSING[opening]
    for at in range(index, len(tokens)):
        depth += (tokens[at].text == opening) - (tokens[at].text == closing)
        if depth == 0:
            return at
    return len(tokens)


def split_arguments(tokens: Sequence[Token]) -> list[list[Token]]:
    """Splits tokens at commas outside parentheses."""
    arguments: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if token.text == "," and depth == 0:
            arguments.append([])
        else:
            arguments[-1].append(token)
    return arguments


def _lines(text: str, keep_text: bool = False) -> Iterator[tuple[int, str]]:
    """Yields numbered lines, joined at backslashes, without comments, and with empty strings.

    `_JOINED` marks the ends of the author's lines within a joined line.
    """
    spliced = re.sub(r"\\[ \t]*\n", _JOINED, text.replace("\r\n", "\n"))

    def replaced(match: re.Match[str]) -> str:
        found = match.group()
        if found[0] == "/":
            return " " + _JOINED * (found.count("\n") + found.count(_JOINED))
        return found if keep_text else found[0] * 2 + _JOINED * found.count(_JOINED)

    number = 1
    for line in _COMMENT_OR_TEXT.sub(replaced, spliced).split("\n"):
        yield number, line
        number += 1 + line.count(_JOINED)


def _read(text: str, scan: _Scan) -> None:
    for number, line in _lines(text):
        plain = line.replace(_JOINED, "")
        if not plain.lstrip(" \t").startswith("#"):
            for found in _TOKEN.finditer(line):
                at = number + line.count(_JOINED, 0, found.start())
                scan.tokens.append(Token(found[0].replace(_JOINED, ""), at))
        elif match := _DEFINE.match(plain):
            name, parentheses, parameters, body = match.groups()
            names = None
            if parentheses:
                names = [p.strip() for p in parameters.split(",") if p.strip()]
            macro = _Macro(names, _TOKEN.findall(body))
            if scan.macros.setdefault(name, macro) != macro:
                scan.unsure.add(name)


def _expand(
    tokens: Sequence[Token], scan: _Scan, active: Mapping[str, bool], depth: int
) -> list[Token]:
    """Expands macros in tokens; as in C, a macro is not expanded inside itself."""
    result: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        index += 1
        macro = scan.macros.get(token.text)
        if macro is None or token.text in active or depth > _MAX_DEPTH:
            result.append(token)
            continue
        arguments: Sequence[Sequence[Token]] = ()
        if macro.parameters is not None:
            if index == len(tokens) or tokens[index].text != "(":
                result.append(token)
                continue
            end = find_closing(tokens, index)
            arguments = split_arguments(tokens[index + 1 : end])
            index = end + 1
        scan.expansions += 1
        if scan.expansions > _MAX_EXPANSIONS:  # macros that double at each level
            result.append(token)
            continue
        body = _substitute(macro, arguments, token.line)
        result += _expand(body, scan, {**active, token.text: True}, depth + 1)
    return result


def _substitute(macro: _Macro, arguments: Sequence[Sequence[Token]], line: int) -> list[Token]:
    """Expands a macro's body with its arguments and `##`; all tokens get the line of the macro's use."""
    values = dict(zip(macro.parameters or (), arguments, strict=False))
    body: list[Token] = []
    for text in macro.body:
        body += values.get(text, [Token(text, line)])
    joined: list[Token] = []
    for token in body:
        if len(joined) > 1 and joined[-1].text == "##":
            joined.pop()
            first = joined.pop()
            joined.append(Token(first.text + token.text, first.line))
        else:
            joined.append(token)
    return joined


def _declared_name(tokens: Sequence[Token], index: int) -> int | None:
    """Finds the name in `[attributes] void [attributes] name (`, starting after the keyword."""
    while index < len(tokens):
        text = tokens[index].text
        follows = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if text in _ATTRIBUTES and follows == "(":
            index = find_closing(tokens, index + 1) + 1
        elif not (text[0].isalpha() or text[0] == "_"):
            return None
        elif follows == "(":
            return index
        else:
            index += 1
    return None


class Parameter(NamedTuple):
    """A parameter of a kernel.

    Attributes:
      type: Type of the parameter, such as `half*`; "" if the source code leaves the type open, for example after
        an `#if`.
      name: Name of the parameter; "" if the source code leaves the name open.
    """

    type: str
    name: str


def parameters_in_text(given: str, texts: Sequence[str], kernel: str) -> Sequence[Parameter] | None:
    """Finds the parameters that the source code declares for a kernel.

    A macro with several definitions is not expanded.

    Args:
      given: Text that the compiler reads before the source files; its macros override the macros of the source
        files.
      texts: Texts of the source files; included files come first.
      kernel: Name of the kernel.

    Returns:
      The kernel's parameters; None, if the kernel does not exist, or has declarations with different numbers of
      parameters.
    """
    before = _Scan()
    _read(given, before)
    scan = _Scan(dict(before.macros))
    for text in texts:
        _read(text, scan)
    for name in scan.unsure - set(before.macros):
        del scan.macros[name]
    tokens = _expand(scan.tokens, scan, {}, 0)
    named = _named_types(tokens)
    found = [
        split_arguments(tokens[at + 2 : find_closing(tokens, at + 1)])
        for at in find_kernels(tokens)
        if tokens[at].text == kernel
    ]
    if len(set(map(len, found))) != 1:
        return None
    return [
        Parameter(_only({_type(p, named) for p in same}), _only({_name(p) for p in same}))
        for same in zip(*found, strict=True)
    ]


def _only(texts: Collection[str]) -> str:
    return next(iter(texts)) if len(texts) == 1 else ""


def struct_names(text: str) -> Collection[str]:
    """Returns the names that are a struct or union according to each `typedef` in all `#if` branches."""
    tokens = kernel_tokens([text])
    names, others = {"struct", "union"}, {"struct", "union"}
    for index, token in enumerate(tokens):
        if token.text == "typedef" and (words := _declaration(tokens, index + 1)):
            is_struct = "*" not in words and not names.isdisjoint(words[:-1])
            (names if is_struct else others).add(words[-1])
    return names - others


def _declaration(tokens: Sequence[Token], index: int) -> Sequence[str]:
    """Lists the words of a declaration, without attributes and text in brackets."""
    words: list[str] = []
    while index < len(tokens) and tokens[index].text != ";":
        if tokens[index].text in _CLOSING:
            index = find_closing(tokens, index)
        elif tokens[index].text not in _ATTRIBUTES:
            words.append(tokens[index].text)
        index += 1
    return words


def _named_types(tokens: Sequence[Token]) -> Mapping[str, str]:
    """Maps the names that `typedef` defines to their types; "" for a name with several definitions."""
    named: dict[str, str] = {}
    for index, token in enumerate(tokens):
        if token.text == "typedef":
            end = next((i for i in range(index, len(tokens)) if tokens[i].text == ";"), index)
            name = tokens[end - 1].text
            found = _type(tokens[index + 1 : end], named)
            named[name] = found if named.setdefault(name, found) == found else ""
    return named


def _type(declaration: Sequence[Token], named: Mapping[str, str]) -> str:
    """Finds the type in `const __global half* x`; "" if unknown."""
    texts = [token.text for token in declaration]
    ends = _end_of_name(texts)
    stars = texts[:ends].count("*") + (ends < len(texts))
    words = [
        t
        for t in texts[: ends - 1 if _name(declaration) else ends]
        if t != "*" and t not in _QUALIFIERS
    ]
    if len(words) == 1 and words[0] in named:
        return named[words[0]] and named[words[0]] + "*" * stars
    is_known = words and all(map(_TYPE.fullmatch, words))
    return " ".join(words) + "*" * stars if is_known else ""


def _name(declaration: Sequence[Token]) -> str:
    """Finds the name in `const __global half* x`; "" if there is none."""
    texts = [token.text for token in declaration]
    ends = _end_of_name(texts)
    return texts[ends - 1] if ends > 1 and _NAME.fullmatch(texts[ends - 1]) else ""


def _end_of_name(texts: Sequence[str]) -> int:
    return next((i for i, text in enumerate(texts) if text == "["), len(texts))
