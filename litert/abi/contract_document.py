"""Writes `docs/vendor_contract.md` from the C headers, with each function that a vendor writes or calls.

python -m litert.abi.contract_document
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from litert.abi.headers import RULE, read_header, without_directives

TARGET = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "vendor_contract.md"
)

TITLES = {
    "compiler_plugin.h": "Functions that a compiler plugin exports",
    "dispatch.h": "Functions that a dispatch library exports, and functions in its table",
    "compiler_options.h": "Functions that a compiler plugin looks up in its host",
    "compiler_context.h": "The table that a compiler plugin gets: `LiteRtCompilerContext`",
    "runtime_context.h": "The table that a dispatch library gets: `LiteRtRuntimeContext`",
}
TABLES = ("compiler_context.h", "runtime_context.h")
"""Names of the headers that define a table of host functions."""

INTRODUCTION = """\
# The contract between a host and a vendor's libraries

This page describes each function that a vendor writes or calls, with its rules. It is for engineers who write the
compiler plugin or the dispatch library for an NPU; `docs/vendors.md` says how to begin. `litert-npu vendor check`
checks the rules, and reports the names of broken rules, such as **invoke.written**. A *host* is a program that
loads these libraries, such as litert-npu or stock LiteRT. The rules also apply to vendors in Python, except the
rules about pointers, because litert-npu's own code handles the pointers of these vendors.

`python -m litert.abi.contract_document` makes this page from the headers in `litert/abi/include/litert_npu`.
`python -m litert.abi` prints the folder of these headers, for the option `-I` of a C compiler.
"""

_INTERFACE = re.compile(r"typedef struct (\w+Interface|\w+WithAssets) \{")
_SLOT = re.compile(r"(?:LiteRtStatus|void) \(\*(\w+)\)\((.*)\)")
_EXPORT = re.compile(r"(?:LITERT_CAPI_EXPORT )?((?:LiteRtStatus|void|const char\*) (\w+)\(.*\))")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A comment of a header, or a declaration up to its semicolon or brace, without line breaks."""

    is_comment: bool
    text: str


def document() -> str:
    """Returns the text of `docs/vendor_contract.md`."""
    parts = [INTRODUCTION]
    for header, title in TITLES.items():
        first, *pieces = _pieces(header)
        parts += [f"\n## {title}\n`litert_npu/{header}`.\n\n", _prose(first.text)]
        parts += _table(pieces) if header in TABLES else _functions(pieces)
    return re.sub(r"\n{3,}", "\n\n", "".join(parts))


def _functions(pieces: Sequence[_Piece]) -> Iterator[str]:
    """Yields the description, the declaration and the rules of each function."""
    comment, level = "", "###"
    for piece in pieces:
        slot, export = _SLOT.fullmatch(piece.text), _EXPORT.fullmatch(piece.text)
        if interface := _INTERFACE.match(piece.text):
            yield f"\n### {interface[1]}\n{_prose(comment)}{_rules(comment)}"
            level = "####"
        elif slot or export:
            name = slot[1] if slot else export[2] if export else ""
            code = _wrapped(piece.text.removeprefix("LITERT_CAPI_EXPORT "))
            yield f"\n{level} {name}\n{_prose(comment)}```c\n{code};\n```\n{_rules(comment)}"
        comment = piece.text if piece.is_comment else ""


def _table(pieces: Sequence[_Piece]) -> Iterator[str]:
    """Yields the slots of a table in groups, with their offsets in bytes."""
    offset, rows = 8, False
    for piece in pieces:
        slot = _SLOT.fullmatch(piece.text)
        group = re.match(r"(\d+): ", piece.text) if piece.is_comment else None
        if group:
            assert int(group[1]) == offset, (
                f"the group '{piece.text[:40]}' begins at offset {offset}"
            )
            yield f"\n{_prose(piece.text[group.end() :])}"
            rows = False
        if slot:
            yield "" if rows else "\n| offset | slot |\n|---|---|\n"
            yield f"| {offset} | `{slot[1]}({slot[2]})` |\n"
            offset, rows = offset + 8, True


def _pieces(header: str) -> list[_Piece]:
    """Returns the comments and declarations of a header, without preprocessor directives."""
    text = without_directives(read_header(header))
    pieces: list[_Piece] = []
    for match in re.finditer(r"/\*(.*?)\*/|([^;{}/]+[;{]|[^;{}/]*\})", text, flags=re.S):
        if match[1] is not None:
            lines = [line.strip().removeprefix("*").strip() for line in match[1].splitlines()]
            pieces.append(_Piece(True, "\n".join(lines).strip()))
        else:
            pieces.append(_Piece(False, " ".join(match[2].split()).rstrip(";").replace("( ", "(")))
    return pieces


def _paragraphs(comment: str) -> Sequence[str]:
    """Returns the paragraphs of a comment; blank lines and names of rules separate paragraphs."""
    return [
        " ".join(part.split())
        for part in re.split(r"\n\s*\n|\n(?=\[[a-z_]+\.[a-z_]+\])", comment)
        if part.strip()
    ]


def _prose(comment: str) -> str:
    """Returns the paragraphs of a comment that are not rules."""
    return "".join(f"{text}\n\n" for text in _paragraphs(comment) if not RULE.match(text))


def _rules(comment: str) -> str:
    """Returns the rules of a comment, as a Markdown list."""
    rules = [RULE.match(text) for text in _paragraphs(comment)]
    return "".join(f"- **{rule[1]}**: {rule[2]}\n" for rule in rules if rule)


def _wrapped(declaration: str) -> str:
    """Returns a declaration; a long declaration has each argument on its own line."""
    if len(declaration) <= 100:
        return declaration
    head, _, arguments = declaration.rpartition("(")
    return f"{head}(\n    " + ",\n    ".join(arguments.removesuffix(")").split(", ")) + ")"


if __name__ == "__main__":
    with open(TARGET, "w", encoding="utf-8") as file:
        file.write(document())
