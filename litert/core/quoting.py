"""Quotes a model's names for texts in a language: a terminal, a shell command, a table, a document.

A model may come from anybody, and its names may contain any character.
"""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[\w.:-]+(?: [\w.:-]+)*")


def name_text(name: str) -> str:
    """Returns a name on one line, with escapes for characters that do not print."""
    return name if name.isprintable() else ascii(name)[1:-1]


def continued(text: str) -> str:
    """Returns a text whose further lines are indented, so that no line begins with a name from the text."""
    return text.replace("\n", "\n  ")


def shell_word(text: str) -> str:
    """Returns a text as one word of a bash command, on one line."""
    import shlex  # imported here, because most commands need no shell

    if text.isprintable():
        return shlex.quote(text)
    escaped = "".join(
        c if c.isprintable() and c not in "\\'" else f"\\{c}" if c in "\\'" else _shell_escape(c)
        for c in text
    )
    return f"$'{escaped}'"


def docstring_text(text: str) -> str:
    """Returns a text for use inside a triple-quoted Python string."""
    return name_text(text).replace("\\", "\\\\").replace('"', '\\"')


def markdown_text(name: str) -> str:
    """Returns a name for Markdown: unchanged, or as code if a character may be markup."""
    return name if _PLAIN.fullmatch(name) else f"`{name_text(name).replace('`', '?')}`"


def _shell_escape(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
