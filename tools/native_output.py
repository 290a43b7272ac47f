"""Where native code prints: `printf` in a kernel writes to the process's own standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def native_output_to_stderr(is_wanted: bool) -> Iterator[None]:
    """Sends what kernels print to standard error, while a report is made that is to be alone on the output."""
    if not is_wanted:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
