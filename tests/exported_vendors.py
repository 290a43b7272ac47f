"""Python vendors as shared libraries, each made once for all tests of a process."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from litert_npu_tools.vendor.export_command import export, find_origins, read_origin

from litert.host.python_library.building import find_libpython


@cache
def exported(kind: str, vendor: str) -> Path:
    """A folder with one library.

    Args:
      kind: `compiler_plugin` or `dispatch`.
      vendor: the manufacturer of an installed vendor, or a vendor's Python file.
    """
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    if not find_libpython():
        pytest.skip("this Python has no shared libpython")
    if vendor.endswith(".py"):
        _, manufacturer, origin = read_origin(vendor)
    else:
        manufacturer, origin = vendor, find_origins(vendor)[kind]
    return Path(export(kind, manufacturer, origin, mkdtemp(prefix="exported_"))).parent
