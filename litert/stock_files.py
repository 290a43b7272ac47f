"""Files of stock LiteRT's wheel, which `importlib.resources` finds in the package `litert`.

`ai_edge_litert.aot` looks for its compiler and its vendors' libraries first in a package `litert`, where they lie
in LiteRT's own source tree, and only without such a package in `ai_edge_litert`. Without this module, stock
LiteRT's compile flow would fail wherever this project is installed, too.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


class StockFiles:
    """A resource reader for the files of stock LiteRT's wheel, or of this package without the wheel."""

    def files(self) -> Path:
        """Returns the folder of the files."""
        spec = find_spec("ai_edge_litert")
        folders = list(spec.submodule_search_locations or ()) if spec else []
        return Path(folders[0]) if folders else Path(__file__).parent
