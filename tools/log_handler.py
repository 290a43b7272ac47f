"""What is logged goes to the standard error as all else that commands print; `--help` of many needs no logging."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

from litert.core.errors import LiteRtError
from litert.core.quoting import continued

from .console import print_text


class LogHandler(logging.Handler):
    """Prints what is logged as `print_text` does: it may have names of a model."""

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a record to the standard error."""
        with suppress(LiteRtError, BrokenPipeError):  # there is nowhere else to say it
            print_text(continued(self.format(record)), sys.stderr)
