"""Makes `importlib.resources` find files of stock LiteRT's wheel in the package `litert`.

`ai_edge_litert.aot` looks for its compiler and its vendors' libraries in the package `litert` if there is one, as
in LiteRT's source tree; otherwise it looks in `ai_edge_litert`. Because this project contains a package `litert`,
stock LiteRT's compile flow would not find its files without this module.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


class StockFiles:
    """A resource reader for the files of stock LiteRT's wheel.

    If the wheel is not installed, the reader returns this package's files.
    """

    def files(self) -> Path:
        """Returns the folder that contains the files of stock LiteRT's wheel."""
        spec = find_spec("ai_edge_litert")
        folders = list(spec.submodule_search_locations or ()) if spec else []
        return Path(folders[0]) if folders else Path(__file__).parent
