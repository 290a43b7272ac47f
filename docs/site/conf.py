"""The configuration of the documentation site, which Sphinx builds.

The pages of the site are README, CONTRIBUTING, CHANGELOG and docs/*.md, with the same links as in these files.

`make docs` builds the site in build/site. A page that is missing in `SECTIONS` goes to the section Reference.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = {
    "Models": ("docs/stock_litert", "docs/builtin_ops", "docs/analysis", "docs/transformations"),
    "Kernels": ("docs/kernels", "docs/cpu_layers"),
    "NPUs": ("docs/vendors", "docs/vendor_contract", "docs/levels"),
    "Reference": ("docs/python_api", "docs/reports", "docs/file_format", "docs/security"),
    "Development": ("docs/development", "CONTRIBUTING", "CHANGELOG"),
}

project = "litert-npu"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md"]
exclude_patterns = [".*", "build"]
myst_heading_anchors = 6  # the anchors that GitHub gives to headings
suppress_warnings = ["misc.highlighting_failure"]  # for code in which "…" stands for omitted lines
smartquotes = False  # flags keep their two hyphens
html_theme = "furo"
html_title = "litert-npu"
html_copy_source = False
html_use_index = False
html_show_copyright = False
html_show_sphinx = False


def contents() -> str:
    """Returns the table of contents, as directives to add at the end of the first page."""
    pages = [p.relative_to(ROOT).with_suffix("").as_posix() for p in ROOT.glob("docs/*.md")]
    listed = {page for section in SECTIONS.values() for page in section}
    blocks = []
    for caption, section in SECTIONS.items():
        there = [page for page in section if (ROOT / f"{page}.md").exists()]
        if caption == "Reference":
            there += sorted(set(pages) - listed)
        names = "\n".join(f"/{page}" for page in there)
        blocks.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{names}\n```\n")
    return "\n".join(blocks)


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Adds the table of contents to the first page, and keeps methods out of the sidebar of the Python API."""
    if page == root_doc:
        source[0] += f"\n{contents()}"
    if page == "docs/python_api":
        source[0] = f"---\ntocdepth: 3\n---\n{source[0]}"


def add_index(app: Sphinx, error: Exception | None) -> None:
    """Copies the first page to `index.html`, the name that browsers and servers look for."""
    if error is None:
        shutil.copyfile(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Sphinx) -> None:
    """Connects the functions above to Sphinx."""
    app.connect("source-read", add_contents)
    app.connect("build-finished", add_index)
