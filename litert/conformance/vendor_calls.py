"""How the checks call a vendor's functions: each call is traced, and answers what it answers."""

from __future__ import annotations

import logging
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from litert.abi.definitions import ffi
from litert.conformance.checks import BrokenRuleError
from litert.core.status import Status
from litert.host.python_library.bootstrap import find_vendor


class CallTrace:
    """A small file that holds the function that runs, for whoever finds the process dead; empty between calls."""

    _SIZE = 128

    def __init__(self, path: str) -> None:
        """Opens the file; "" for none."""
        self._map: Any = bytearray(self._SIZE)
        if path:
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.ftruncate(fd, self._SIZE)
                self._map = mmap.mmap(fd, self._SIZE)
            finally:
                os.close(fd)

    def call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls one of the vendor's functions."""
        text = name.encode()[: self._SIZE]
        self._map[: self._SIZE] = text.ljust(self._SIZE, b"\0")
        result = function(*arguments)
        self._map[:1] = b"\0"
        return result


class LastError(logging.Handler):
    """What a vendor in Python says of an error, of which C sees a status alone: its sentence goes to the log."""

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


@dataclass(slots=True, eq=False)
class VendorCalls:
    """The functions of a vendor's library.

    Attributes:
      kept: what has to live as long as they do.
      strange: what has answered with a number that is no status, each in a phrase.
      error: what a vendor in Python said last.
    """

    trace: CallTrace
    kept: object = None
    strange: list[str] = field(default_factory=list)
    error: LastError = field(default_factory=LastError)

    def ask(self, name: str, function: Callable[..., int], *arguments: Any) -> int:
        """Calls a function that answers with a status, which is returned."""
        self.error.forget()
        status = int(self.trace.call(name, function, *arguments))
        if not _is_status(status):
            self.strange.append(f"{name} answers {status}")
        return status


_Calls = TypeVar("_Calls", bound=VendorCalls)


@dataclass(slots=True, eq=False)
class VendorSubject(Generic[_Calls]):
    """The library that is checked; it is loaded when the first check asks for it.

    Attributes:
      load: gives its functions; called once.
    """

    load: Callable[[], _Calls]
    _vendor: _Calls | None = field(default=None, init=False)

    @property
    def vendor(self) -> _Calls:
        """Its functions."""
        if self._vendor is None:
            self._vendor = self.load()
        return self._vendor


def check_statuses(subject: VendorSubject[Any]) -> None:
    """The check that what functions have answered by now are statuses."""
    if subject.vendor.strange:
        raise BrokenRuleError(subject.vendor.strange[0])


def find_checked(origin: str, manufacturer: str, constant: str, trace: CallTrace) -> Any:
    """The path of a vendor's library, or what a module in Python has as `constant`."""
    if origin.endswith(".so"):
        return os.path.abspath(origin)
    spec = {"manufacturer": manufacturer, "origin": origin, "constant": constant}
    vendor = trace.call(f"the import of {origin}", find_vendor, spec)
    is_path = isinstance(vendor, (str, os.PathLike))  # of a package's library
    return os.path.abspath(vendor) if is_path else vendor


def open_library(path: str, flags: int, trace: CallTrace) -> Any:
    """Loads a library.

    Raises:
      BrokenRuleError: the loader's words.
    """
    try:
        return trace.call("dlopen", ffi.dlopen, path, flags)
    except OSError as error:
        raise BrokenRuleError(f"dlopen: {error}") from error


def find_symbol(library: Any, name: str) -> Any:
    """A function of a library; None if it does not export it."""
    try:
        return getattr(library, name)
    except (AttributeError, ffi.error):
        return None


def expect_ok(function: str, status: int, error: LastError | None = None) -> None:
    """Raises where a function failed, with what the vendor said of it."""
    if status:
        told = error.told() if error else ""
        raise BrokenRuleError(f"{function} answers {status_name(status)}{told}")


def expect_status(what: str, status: int, *allowed: Status) -> None:
    """Raises where a function answers anything else."""
    if status not in allowed:
        names = " or ".join(str(each.name) for each in allowed)
        raise BrokenRuleError(f"{what} answers {status_name(status)}, and not {names}")


def status_name(number: int) -> str:
    """A status, for people."""
    return Status(number).name if _is_status(number) else f"{number}, which is no status"


def expect_utf8(data: bytes, what: str) -> None:
    """Raises where bytes that `what` gave are no text."""
    try:
        data.decode()
    except UnicodeDecodeError:
        raise BrokenRuleError(f"{what} gives {data!r:.80}, which is no text in UTF-8") from None


def _is_status(number: int) -> bool:
    return number in Status._value2member_map_
