"""Where the reference vendor keeps what it can make again: built programs, and what their builds said."""

from __future__ import annotations

import os


def cache_folder() -> str:
    """The folder, which need not exist: `$LITERT_NPU_CACHE_DIR`, else the user's cache folder."""
    folder = os.environ.get("LITERT_NPU_CACHE_DIR")
    if folder:
        return os.path.abspath(folder)
    import platformdirs  # here: most calls find the variable, or no cache at all

    return platformdirs.user_cache_dir("litert-npu", appauthor=False)
