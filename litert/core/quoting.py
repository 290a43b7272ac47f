"""Quotes names from a model for output to a terminal, or for a shell command, Python code or Markdown.

A model may come from an untrusted source, and its names may contain any character.
"""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[\w.:-]+(?: [\w.:-]+)*")
_SENTENCE = re.compile(r"(?<=\w)\.?(?=Node number \d+ \(|Tensor \d+ is )")
_UNKNOWN_OP = re.compile(r"Encountered unresolved custom op: (.*?)\. See instructions: ")
_NO_KERNEL = re.compile(
    r"Encountered unresolved custom op: (.*)\. See instructions: \S+ "
    r"Node number (\d+) \(\1\) failed to prepare\."
)


def name_text(name: str) -> str:
    """Returns a name on one line, with escapes in place of characters that do not print."""
    return name if name.isprintable() else ascii(name)[1:-1]


def stock_text(message: str) -> str:
    """Returns an error message of stock LiteRT on one line; the message may contain names from a model.

    Stock LiteRT appends sentences such as `Node number ...` to some messages without a space. Its long message
    about a custom op without a kernel is replaced by a clause.
    """
    text = _SENTENCE.sub(". ", " ".join(message.split()))
    text = _NO_KERNEL.sub(r"there is no CPU kernel for node \2, custom op '\1'.", text)
    return name_text(text.removesuffix("."))


def unknown_custom_op(message: str) -> str:
    """Returns the name of the custom op for which stock LiteRT has no kernel; "" if another error occurred."""
    found = _UNKNOWN_OP.search(" ".join(message.split()))
    return found[1] if found else ""


def continued(text: str) -> str:
    """Indents all lines of a text except the first, so that a name in the text cannot look like a new message."""
    return text.replace("\n", "\n  ")


def shell_word(text: str) -> str:
    """Quotes a text as one word of a bash command, on one line."""
    import shlex  # imported here, because most commands need no shell

    if text.isprintable():
        return shlex.quote(text)
    escaped = "".join(
        c if c.isprintable() and c not in "\\'" else f"\\{c}" if c in "\\'" else _shell_escape(c)
        for c in text
    )
    return f"$'{escaped}'"


def docstring_text(text: str) -> str:
    """Escapes a text for use inside a triple-quoted Python string."""
    return name_text(text).replace("\\", "\\\\").replace('"', '\\"')


def markdown_text(name: str) -> str:
    """Returns a name for Markdown: as code if a character may be markup, otherwise unchanged."""
    return name if _PLAIN.fullmatch(name) else f"`{name_text(name).replace('`', '?')}`"


def _shell_escape(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
