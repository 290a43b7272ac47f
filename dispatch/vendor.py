"""Calls functions of a vendor's dispatch table, and adds the names of vendor and function to each error."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dispatch.api import Dispatch
from dispatch.event import Event
from dispatch.table_check import check_table
from litert.core.counts import count_text
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.host.serving import at_work
from litert.host.vendor_call import ENDING, VendorCall

_LOG = logging.getLogger(__name__)
_ASYNC_FUNCTIONS = ("attach_input_event", "invoke_async")


class Vendor:
    """A vendor's dispatch table; the host calls the table's functions through this object."""

    __slots__ = ("dispatch",)

    def __init__(self, dispatch: Dispatch[Any, Any]) -> None:
        self.dispatch = dispatch

    def call(self, function: str, *args: Any, detail: str = "") -> Any:
        """Calls a function of the table or of its asynchronous part; messages show `detail` after the name.

        Raises:
          LiteRtError: The vendor's LiteRtError, with its status; any other exception becomes RUNTIME_FAILURE.
            KeyboardInterrupt and SystemExit are raised unchanged, because signal handlers can raise them anywhere.
        """
        part: object = self.dispatch
        if function in _ASYNC_FUNCTIONS:
            part = self.dispatch.async_interface
        name = function + detail
        try:
            with at_work(name):
                return getattr(part, function)(*args)
        except ENDING:
            raise
        except BaseException:
            with VendorCall(self.dispatch.vendor_id, name):
                raise

    def bind(self, function: str, *first: Any, detail: str = "") -> Callable[..., Any]:
        """Returns a function that calls the table's function with fixed first arguments; this saves time."""
        target = getattr(self.dispatch, function)

        def call(*args: Any) -> Any:
            try:
                return target(*first, *args)
            except ENDING:
                raise
            except BaseException:
                with VendorCall(self.dispatch.vendor_id, function + detail):
                    raise

        return call

    def create(self, function: str, *args: Any, detail: str = "") -> Any:
        """Calls a function that must return a new object; raises an error if the function returns None."""
        created = self.call(function, *args, detail=detail)
        if created is None:
            raise self.nonsense(
                function + detail,
                "the function returned None",
                "The function must return the object that it created.",
            )
        return created

    def start(self, context: Any, function_name: str, num_outputs: int) -> Sequence[Event]:
        """Starts an asynchronous run; raises an error if the vendor does not return one event for each output."""
        detail = f" of '{function_name}'"
        events = self.call("invoke_async", context, detail=detail)
        if (
            not isinstance(events, Sequence)
            or len(events) != num_outputs
            or not all(isinstance(event, Event) for event in events)
        ):
            raise self.nonsense(
                f"invoke_async{detail}",
                f"the function returned {events!r:.80}, not a list of {count_text(num_outputs, 'event')}",
                "The function must return a list with one Event for each output.",
            )
        return events

    def nonsense(self, call: str, what: str, hint: str) -> LiteRtError:
        """Returns the error for an invalid result of a vendor's function; `hint` says what would be valid."""
        where = f"vendor '{self.dispatch.vendor_id}', in {call}"
        return LiteRtError(Status.RUNTIME_FAILURE, what, where, f"{VENDOR_REPAIRS} {hint}")


def clean_up(steps: Iterable[Callable[[], object]]) -> None:
    """Runs all clean-up steps; if a step raises an error, logs the error and continues."""
    interrupt: BaseException | None = None
    for step in steps:
        try:
            step()
        except Exception as error:
            _LOG.error("error while cleaning up: %s", error)
        except BaseException as error:  # Ctrl-C: release first, then stop
            interrupt = interrupt or error
    if interrupt is not None:
        try:
            raise interrupt
        finally:
            del interrupt  # the traceback refers to this frame


class _Table:
    """A table whose initialization is recorded; the record is removed with the table."""

    def __init__(self, dispatch: Dispatch[Any, Any]) -> None:
        self.lock = threading.RLock()
        self.is_initialized = False
        weakref.finalize(dispatch, _tables.pop, id(dispatch), None).atexit = False


_tables: dict[int, _Table] = {}  # by id, since a vendor's table need not be hashable
_tables_lock = threading.Lock()


def initialize_once(
    dispatch: Dispatch[Any, Any],
    environment_options: EnvironmentOptions,
    options: Mapping[str, str],
) -> None:
    """Checks a dispatch table's compatibility and initializes the table, once in a process.

    Other threads wait until the initialization has ended. If the initialization fails, the next thread tries it
    again.
    """
    with _tables_lock:
        table = _tables.get(id(dispatch)) or _tables.setdefault(id(dispatch), _Table(dispatch))
    if table.is_initialized:
        return
    with table.lock:
        if not table.is_initialized:
            check_table(dispatch, where=f"class {type(dispatch).__qualname__}")
            Vendor(dispatch).call("initialize", environment_options, options)
            table.is_initialized = True
