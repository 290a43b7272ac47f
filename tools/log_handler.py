"""Prints log records to standard error, like all other output of commands."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

from litert.core.errors import LiteRtError
from litert.core.quoting import continued

from .console import print_text


class LogHandler(logging.Handler):
    """Prints log records with `print_text`, since records may contain names with control characters."""

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a record to standard error."""
        with suppress(LiteRtError, BrokenPipeError):  # there is no other stream for this error
            print_text(continued(self.format(record)), sys.stderr)
