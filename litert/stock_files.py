"""What `importlib.resources` finds in the package `litert`: the files of stock LiteRT's wheel.

`ai_edge_litert.aot` looks for its compiler and its vendors' libraries in a package `litert`, as they lie in
LiteRT's own source tree, and only if there is none in `ai_edge_litert`. Without this its flow would fail wherever
this project is installed beside it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


class StockFiles:
    """A resource reader: of the wheel, or of this package where the wheel is not installed."""

    def files(self) -> Path:
        """The folder."""
        spec = find_spec("ai_edge_litert")
        folders = list(spec.submodule_search_locations or ()) if spec else []
        return Path(folders[0]) if folders else Path(__file__).parent
