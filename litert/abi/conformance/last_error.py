"""What a vendor in Python says of an error, of which C sees a status alone: its sentence goes to the log."""

from __future__ import annotations

import logging


class LastError(logging.Handler):
    """The last error that was logged in this process since it was forgotten."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self._text = record.getMessage()

    def listen(self) -> None:
        """Begins; a process listens to its end."""
        logging.getLogger().addHandler(self)

    def forget(self) -> None:
        """Before a call, whose errors are wanted."""
        self._text = ""

    def told(self) -> str:
        """To be put behind a finding: `: its sentence`; "" where there is none, as of a library in C."""
        return f": {self._text}" if self._text else ""
