"""How the checks call a vendor's functions: each call is traced, and answers what it answers."""

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
    """A small file that holds the function that runs, and the model that it is asked about, if there is one.

    They are for whoever finds the process dead. Between calls the function is empty.
    """

    _SIZE = 128
    _MODEL_SIZE = 256

    def __init__(self, path: str) -> None:
        """Opens the file; "" for none."""
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
        """Calls one of the vendor's functions."""
        text = name.encode()[: self._SIZE]
        self._map[: self._SIZE] = text.ljust(self._SIZE, b"\0")
        result = function(*arguments)
        self._map[:1] = b"\0"
        return result

    def set_model(self, name: str) -> None:
        """Says which model the next calls are about; "" for none."""
        text = name.encode()[: self._MODEL_SIZE]
        self._map[self._SIZE :] = text.ljust(self._MODEL_SIZE, b"\0")

    @classmethod
    def read(cls, fd: int) -> tuple[str, str]:
        """The function in which the process of a trace ended, and the model; each may be empty."""
        function, model = (
            os.pread(fd, size, start).partition(b"\0")[0].decode("utf-8", "replace")
            for start, size in ((0, cls._SIZE), (cls._SIZE, cls._MODEL_SIZE))
        )
        return function, model if function else ""


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
class VendorFunctions:
    """What a vendor's library has.

    Attributes:
      functions: cffi's pointers by name; NULL or None for what is not there.
      kept: what has to live as long as they do.
      strange: what has answered with a number that is no status, each in a phrase.
      error: what a vendor in Python said last.
    """

    functions: Mapping[str, Any]
    trace: CallTrace
    kept: object = None
    strange: list[str] = field(default_factory=list)
    error: LastError = field(default_factory=LastError)

    def has(self, name: str) -> bool:
        """Whether a function is there."""
        return bool(self.functions.get(name))

    def call(self, name: str, *arguments: Any) -> int:
        """Calls a function that answers with a status, which is returned."""
        self.error.forget()
        status = int(self.call_plain(name, *arguments))
        if not _is_status(status):
            self.strange.append(f"{name} answers {status}")
        return status

    def call_plain(self, name: str, *arguments: Any) -> Any:
        """Calls a function that answers with something else, or not at all."""
        if not self.has(name):
            raise BrokenRuleError(f"{name} is NULL")
        return self.trace.call(name, self.functions[name], *arguments)

    def succeed(self, name: str, *arguments: Any) -> None:
        """Calls a function, which must answer Ok."""
        expect_ok(name, self.call(name, *arguments), self.error)

    def answer(self, name: str, c_type: str, *arguments: Any) -> Any:
        """Calls a function that writes one answer, behind its other arguments."""
        answer = ffi.new(f"{c_type}*")
        self.succeed(name, *arguments, answer)
        return answer[0]


_Functions = TypeVar("_Functions", bound=VendorFunctions)


@dataclass(eq=False)
class VendorSubject(Generic[_Functions]):
    """The library that is checked.

    Attributes:
      load: gives its functions; called once, when the first check asks for them.
    """

    load: Callable[[], _Functions]

    @cached_property
    def vendor(self) -> _Functions:
        """Its functions."""
        return self.load()


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


def expect_no_index(function: str, index: int, number: int, status: int, *others: Status) -> None:
    """Raises where a function that was asked for an index behind the last does not say so, or one of `others`."""
    what = f"{function} of index {index}, where there are {number},"
    expect_status(what, status, Status.INVALID_ARGUMENT, Status.INDEX_OOB, *others)


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
