"""Names of a model in a text that has a language: on a terminal, in a shell's command, a table, a document.

A model may be anybody's, and its names anything.
"""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[\w.:-]+(?: [\w.:-]+)*")


def name_text(name: str) -> str:
    """A name on one line: as it is, or with escapes for what would not print."""
    return name if name.isprintable() else ascii(name)[1:-1]


def continued(text: str) -> str:
    """A text whose further lines are indented: a name in it begins no line."""
    return text.replace("\n", "\n  ")


def shell_word(text: str) -> str:
    """A text as one word of a command of bash, on one line."""
    import shlex  # here: most commands need no shell

    if text.isprintable():
        return shlex.quote(text)
    escaped = "".join(
        c if c.isprintable() and c not in "\\'" else f"\\{c}" if c in "\\'" else _shell_escape(c)
        for c in text
    )
    return f"$'{escaped}'"


def docstring_text(text: str) -> str:
    """A text inside of a Python string with three quotes."""
    return name_text(text).replace("\\", "\\\\").replace('"', '\\"')


def markdown_text(name: str) -> str:
    """A name in Markdown: as it is, or as code where it has characters that may mean something."""
    return name if _PLAIN.fullmatch(name) else f"`{name_text(name).replace('`', '?')}`"


def _shell_escape(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
