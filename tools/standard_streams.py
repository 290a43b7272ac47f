"""Standard streams that are closed when a command starts, as some services have it.

Python then has None for them, and files that are opened later get their numbers: what native code prints would go
into these.
"""

from __future__ import annotations

import os
import sys


def open_standard_streams() -> None:
    """Opens those that are closed: there is nothing to read, and what is written goes nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 (as long as the process)
            os.set_inheritable(
                stream.fileno(), True
            )  # the lowest that was free, and so the stream's
            setattr(sys, name, stream)
