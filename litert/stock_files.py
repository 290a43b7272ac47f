"""Files of stock LiteRT's wheel, which `importlib.resources` finds in the package `litert`.

`ai_edge_litert.aot` looks for its compiler and its vendors' libraries in a package `litert`, as in LiteRT's source
tree, and only if no such package exists in `ai_edge_litert`. Without this module, installing this project would
therefore break stock LiteRT's compile flow.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


class StockFiles:
    """A resource reader for the files of stock LiteRT's wheel.

    Without the wheel, the reader returns this package's files.
    """

    def files(self) -> Path:
        """Returns the folder that contains the files of stock LiteRT's wheel."""
        spec = find_spec("ai_edge_litert")
        folders = list(spec.submodule_search_locations or ()) if spec else []
        return Path(folders[0]) if folders else Path(__file__).parent
