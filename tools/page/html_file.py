"""Writes a page as a single HTML file, which loads no other file and runs only its own script."""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode
from dataclasses import asdict, replace
from html import escape
from string import Template
from typing import Any

from litert.core.version import SDK_VERSION

from ..console import json_text
from .page import Graph, Page

_ASSETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "assets")
_SCRIPTS = ("text", "layout", "tree", "graph", "charts", "tables", "main")


def html_text(page: Page) -> str:
    """Returns the text of a page's HTML file."""
    style = _read("page.css")
    script = '"use strict";\n{\n' + "\n".join(_read(f"{name}.js") for name in _SCRIPTS) + "}\n"
    data = json_text(
        asdict(replace(page, graph=()))
        | {"graph": graph_data(page.graph), "made_by": f"Made by litert-npu {SDK_VERSION}."},
        is_compact=True,
    )
    return Template(_read("page.html")).substitute(
        policy=(
            f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
            "base-uri 'none'; form-action 'none'"
        ),
        title=escape(page.title),
        style=style,
        script=script,
        data=_for_script(data),
    )


def graph_data(graph: Graph) -> list[dict[str, Any]]:
    """Converts a graph to data for the page's script, without empty fields of nodes and tensors."""
    data = [asdict(subgraph) for subgraph in graph]
    for subgraph in data:
        for name in ("nodes", "tensors"):
            subgraph[name] = [
                {k: v for k, v in item.items() if v is not False and v not in ("", [])}
                for item in subgraph[name]
            ]
    return data


def _for_script(data: str) -> str:
    """Escapes characters of JSON that an HTML parser could read as a tag or comment; only strings contain them."""
    for character in "<>&":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return data


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    with open(os.path.join(_ASSETS, name), encoding="utf-8") as stream:
        return stream.read()
