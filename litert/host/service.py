"""A child process that answers many calls, one after the other: where foreign native code lives.

It may crash, hang or end in any of them: that call fails, with the name of the native function that it was in, and
so do all later ones. Both processes have a file without a name, for what is too large for a pipe; it is gone with
them. The child ends when this process does, however that ends.

A call that is made often is rung: one number in a page that both have, and a bell. That takes a fifth of the time of
one that is asked.
"""

from __future__ import annotations

import fcntl
import json
import logging
import mmap
import os
import select
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from litert.core.errors import ChildEndedError, LiteRtError
from litert.core.status import Status
from litert.core.tracing import is_recording, take_in
from litert.host.child_process import ChildProcess
from litert.host.child_side import error_message, raise_error
from litert.host.sandbox import Sandbox
from litert.host.serving import NUMBER_WORD, PAGE_SIZE

Answer = Callable[[str, Any], object]
"""Answers a question that the child has in a call: JSON in, JSON out."""

_FIRST_SHARED = 3
"""Lower numbers are the child's standard streams, also where this process has closed its own."""

_logger = logging.getLogger(__name__)


class Service:
    """A running child; a context manager that ends it.

    Attributes:
      subject: who it is, for messages.
      fd: of the shared file, which both read and write.
      words: of the page that both have, as unsigned numbers of 32 bits.
    """

    def __init__(
        self,
        target: str,
        *,
        timeout_s: float,
        subject: str,
        where: str,
        sandbox: Sandbox | None = None,
        shared: Sequence[int] = (),
        memory_bytes: int = 0,
        answer: Answer | None = None,
        describe: Callable[[str], str] | None = None,
    ) -> None:
        """Starts the child, and does not wait for it.

        Args:
          target: `package.module:function`, which gets the shared file's descriptor and returns `Handlers`.
          timeout_s: for each call.
          subject: who failed, for messages: "the compiler plugin libX.so".
          where: what errors say under `where`.
