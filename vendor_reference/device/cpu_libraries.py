"""The libraries of CPU layers that this process has loaded, each once; none is ever unloaded."""

from __future__ import annotations

import threading

from vendor_reference.cpu_layer.library import CpuLayerLibrary

_libraries: dict[str, CpuLayerLibrary] = {}
_lock = threading.Lock()


def load_library(name: str, sha256: str, data: memoryview) -> CpuLayerLibrary:
    """A library, loaded on first use.

    Args:
      name: of its file, for messages.
      sha256: of its bytes.
      data: the shared object, which is copied.

    Raises:
      LiteRtError: as `CpuLayerLibrary`.
    """
    with _lock:
        if sha256 not in _libraries:
            _libraries[sha256] = CpuLayerLibrary(data, name)
        return _libraries[sha256]
