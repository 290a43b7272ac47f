"""Writes the files of `--html` and `--model_explorer`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..command_line import FlagValues, usage_error
from ..destinations import check_messages, write_file

if TYPE_CHECKING:
    from .page import Page


def is_page_wanted(flags: FlagValues) -> bool:
    """Whether the flags of a command request an HTML page or a graph for Model Explorer."""
    return bool(flags.html or flags.model_explorer)


def check_pages(flags: FlagValues, others: Iterable[str]) -> None:
    """Before the work begins, raises an error if a page and another output of the command have the same path."""
    kept = [*others, str(flags.trace) if "trace" in flags else ""]
    for name, noun in (("html", "the HTML page"), ("model_explorer", "the graph")):
        check_messages(str(flags[name].value or ""), kept, name, noun)
    if flags.html and os.path.realpath(flags.html) == os.path.realpath(flags.model_explorer):
        raise usage_error(
            "--html and --model_explorer have the same path", "Give two different paths."
        )


def write_pages(flags: FlagValues, make: Callable[[], Page]) -> None:
    """Makes and writes a page if the flags request one."""
    if not is_page_wanted(flags):
        return
    page = make()
    if flags.html:
        from .html_file import html_text

        text = html_text(page)
        write_file(flags.html, lambda file: file.write(text.encode()))
    if flags.model_explorer:
        from .model_explorer import explorer_files

        for path, text in explorer_files(page, flags.model_explorer).items():
            data = text.encode()
            write_file(path, lambda file, data=data: file.write(data))  # type: ignore[misc]
