"""Loads a vendor's dispatch table in a child process, and enters a sandbox."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dispatch.api import Dispatch
from dispatch.loader import find_dispatch
from dispatch.vendor import Vendor
from litert.host.sandbox import Sandbox
from litert.host.serving import enter_sandbox


def load_table(
    manufacturer: str,
    library_path: str,
    options: Mapping[str, str],
    folder: str,
    readable: Sequence[str],
) -> Dispatch[Any, Any] | None:
    """Loads a dispatch table and enters the sandbox; before this, the process must not read any part of a model.

    Args:
      manufacturer: Name of the manufacturer; the process loads the manufacturer's dispatch table. If the name is
        "", no table is loaded.
      library_path: Folder to search for dispatch tables, as in `find_dispatch`.
      options: The vendor's options, which are passed to the table's `sandbox_needs`.
      folder: Folder for temporary files; "" for a process without a sandbox.
      readable: Paths of further files that the process may read.
    """
    if folder:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a table that imports NumPy starts no threads
    table = find_dispatch(manufacturer, library_path) if manufacturer else None
    if folder:
        needs = Vendor(table).call("sandbox_needs", options) if table is not None else Sandbox()
        code = _code_folders(table, library_path)
        enter_sandbox(
            replace(
                needs,
                readable=(*needs.readable, *code, *readable),
                writable=(*needs.writable, folder),
            )
        )
    return table


def _code_folders(table: object, library_path: str) -> Iterator[str]:
    """Yields the folders that contain the code of the table and of this package."""
    for package in {type(table).__module__.partition(".")[0], __name__.partition(".")[0]}:
        file = getattr(sys.modules.get(package), "__file__", None)
        if file:
            yield os.path.dirname(os.path.abspath(file))
    if library_path:
        yield os.path.abspath(library_path)
