"""Calls a vendor's functions for the checks, and writes the name of the current function to a trace file."""

from __future__ import annotations

import logging
import mmap
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from litert.abi.definitions import ffi
from litert.conformance.checks import BrokenRuleError
from litert.core.status import Status
from litert.host.python_library.bootstrap import find_vendor


class CallTrace:
    """A small file with the names of the current function and model, which can be read after a crash.

    Between calls, the name of the function is empty.
    """

    _SIZE = 128
    _MODEL_SIZE = 256

    def __init__(self, path: str) -> None:
        """Opens the trace file; the path "" disables the trace."""
        size = self._SIZE + self._MODEL_SIZE
        self._map: Any = bytearray(size)
        if path:
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.ftruncate(fd, size)
                self._map = mmap.mmap(fd, size)
            finally:
                os.close(fd)

    def call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function of the vendor, and writes its name to the trace."""
        text = name.encode()[: self._SIZE]
        self._map[: self._SIZE] = text.ljust(self._SIZE, b"\0")
        result = function(*arguments)
        self._map[:1] = b"\0"
        return result

    def set_model(self, name: str) -> None:
        """Sets the name of the model for the next calls; "" for no model."""
        text = name.encode()[: self._MODEL_SIZE]
        self._map[self._SIZE :] = text.ljust(self._MODEL_SIZE, b"\0")

    @classmethod
    def read(cls, fd: int) -> tuple[str, str]:
        """Reads which function and model a process was using when it ended; both names may be empty."""
        function, model = (
            os.pread(fd, size, start).partition(b"\0")[0].decode("utf-8", "replace")
            for start, size in ((0, cls._SIZE), (cls._SIZE, cls._MODEL_SIZE))
        )
        return function, model if function else ""


class LastError(logging.Handler):
    """The last error message of a Python vendor, read from the log, because C functions return only a status."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self._text = record.getMessage()

    def listen(self) -> None:
        """Starts to collect error messages from the log, until the process ends."""
        logging.getLogger().addHandler(self)

    def forget(self) -> None:
        """Forgets earlier error messages; called before each call of the vendor."""
        self._text = ""

    def told(self) -> str:
        """The message as a suffix, `: <message>`; "" if there is no message, for example from a C library."""
        return f": {self._text}" if self._text else ""


@dataclass(slots=True, eq=False)
class VendorFunctions:
    """The functions of a vendor's library.

    Attributes:
      functions: Function pointers of cffi, by name; NULL or None for missing functions.
      kept: Objects that must live as long as the functions can be called.
      strange: Phrases about functions that returned a number that is not a status.
      error: The last error message of a Python vendor.
    """

    functions: Mapping[str, Any]
    trace: CallTrace
    kept: object = None
    strange: list[str] = field(default_factory=list)
    error: LastError = field(default_factory=LastError)

    def has(self, name: str) -> bool:
        """Returns whether the library has the function."""
        return bool(self.functions.get(name))

    def call(self, name: str, *arguments: Any) -> int:
        """Calls a function and returns its status."""
        self.error.forget()
        status = int(self.call_plain(name, *arguments))
        if not _is_status(status):
            self.strange.append(f"{name} returns {status}")
        return status

    def call_plain(self, name: str, *arguments: Any) -> Any:
        """Calls a function that does not return a status."""
        if not self.has(name):
            raise BrokenRuleError(f"{name} is NULL")
        return self.trace.call(name, self.functions[name], *arguments)

    def succeed(self, name: str, *arguments: Any) -> None:
        """Calls a function; raises an error unless the function returns the status Ok."""
        expect_ok(name, self.call(name, *arguments), self.error)

    def answer(self, name: str, c_type: str, *arguments: Any) -> Any:
        """Calls a function that returns its result through its last argument, and returns this result."""
        answer = ffi.new(f"{c_type}*")
        self.succeed(name, *arguments, answer)
        return answer[0]


_Functions = TypeVar("_Functions", bound=VendorFunctions)


@dataclass(eq=False)
class VendorSubject(Generic[_Functions]):
    """The vendor's library under check.

    Attributes:
      load: Function that loads the library; the first check that needs the library calls this function.
    """

    load: Callable[[], _Functions]

    @cached_property
    def vendor(self) -> _Functions:
        """Its functions."""
        return self.load()


def check_statuses(subject: VendorSubject[Any]) -> None:
    """Makes the check that all functions called so far have returned valid statuses."""
    if subject.vendor.strange:
        raise BrokenRuleError(subject.vendor.strange[0])


def find_checked(origin: str, manufacturer: str, constant: str, trace: CallTrace) -> Any:
    """Finds a vendor: returns the path of its library, or the value of `constant` in its Python module."""
    if origin.endswith(".so"):
        return os.path.abspath(origin)
    spec = {"manufacturer": manufacturer, "origin": origin, "constant": constant}
    vendor = trace.call(f"the import of {origin}", find_vendor, spec)
    is_path = isinstance(vendor, (str, os.PathLike))  # of a package's library
    return os.path.abspath(vendor) if is_path else vendor


def find_symbol(library: Any, name: str) -> Any:
    """Finds a function of a library; returns None if the library does not export the function."""
    try:
        return getattr(library, name)
    except (AttributeError, ffi.error):
        return None


def expect_ok(function: str, status: int, error: LastError | None = None) -> None:
    """Raises an error with the vendor's message if a function failed."""
    if status:
        told = error.told() if error else ""
        raise BrokenRuleError(f"{function} returns {status_name(status)}{told}")


def expect_status(what: str, status: int, *allowed: Status) -> None:
    """Raises an error if a function returned a status that is not in `allowed`."""
    if status not in allowed:
        names = " or ".join(str(each.name) for each in allowed)
        raise BrokenRuleError(f"{what} returns {status_name(status)} instead of {names}")


def expect_no_index(function: str, index: int, number: int, status: int, *others: Status) -> None:
    """Raises unless a function returned an index error, or one of `others`, for an index past the last element."""
    what = f"{function} of index {index}, with {number} elements,"
    expect_status(what, status, Status.INVALID_ARGUMENT, Status.INDEX_OOB, *others)


def status_name(number: int) -> str:
    """Formats a status for messages."""
    return Status(number).name if _is_status(number) else f"{number}, which is not a status"


def expect_utf8(data: bytes, what: str) -> None:
    """Raises an error if the bytes that `what` returned are not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        raise BrokenRuleError(f"{what} returns {data!r:.80}, which is not UTF-8 text") from None


def _is_status(number: int) -> bool:
    return number in Status._value2member_map_
