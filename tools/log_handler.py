"""Prints log records to standard error, like all other output of commands."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

from litert.core.errors import LiteRtError
from litert.core.quoting import continued

from .console import print_text


class LogHandler(logging.Handler):
    """Prints log records in the same way as `print_text`, since they may contain names from a model."""

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a record to standard error."""
        with suppress(LiteRtError, BrokenPipeError):  # there is nowhere else to say it
            print_text(continued(self.format(record)), sys.stderr)
