"""Checks a vendor's dispatch table before the host calls any of its functions."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from dispatch.api import AsyncInterface, BufferHandlers, Capability, Dispatch, is_filled
from dispatch.parts import GraphInterface
from dispatch.tensor_buffer import BufferType
from litert.core.counts import count_text
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.core.suggestion import closest_name
from litert.core.version import DISPATCH_API_VERSION, ApiVersion

_LOG = logging.getLogger(__name__)

_REQUIRED = ("device_context_create", "invoke")  # without a default
_METRICS = ("start_metrics_collection", "stop_metrics_collection")
_PARTS = (
    (Capability.ASYNC, "async_interface", AsyncInterface),
    (Capability.GRAPH, "graph_interface", GraphInterface),
)


def check_table(table: object, where: str) -> Dispatch[Any, Any]:
    """Checks that a dispatch table is complete and that its version is supported, and returns the table.

    Raises:
      LiteRtError: WRONG_VERSION, if the host does not support the table's version; DYNAMIC_LOADING, for every
        other problem.
    """
    try:
        return _check_table(table, where)
    except LiteRtError:
        raise
    except Exception as error:  # of a property
        raise _broken(
            "the dispatch table cannot be checked, because one of its attributes raises "
            f"{type(error).__name__}: {error}",
            where,
            VENDOR_REPAIRS,
        ) from error


def _check_table(table: object, where: str) -> Dispatch[Any, Any]:
    if isinstance(table, type) and issubclass(table, Dispatch):
        raise _broken(
            f"DISPATCH is the class {table.__name__}, not an instance of the class",
            where,
            f"Write DISPATCH = {table.__name__}().",
        )
    if not isinstance(table, Dispatch):
        raise _broken(
            f"DISPATCH has type {type(table).__name__}, which is not derived from Dispatch",
            where,
            "Write DISPATCH = MyDispatch(), with a class that is derived from dispatch.api.Dispatch.",
        )
    _check_version(table, where)
    _check_ids(table, where)
    name = type(table).__name__
    _check_functions(table, Dispatch, where)
    for function in _REQUIRED:
        if not is_filled(table, function):
            raise _broken(
                f"the dispatch table has no function '{function}'",
                where,
                f"Override {function} in class {name}.",
            )
    if is_filled(table, _METRICS[0]) is not is_filled(table, _METRICS[1]):
        raise _broken(
            "the dispatch table has only one of the functions start_metrics_collection and "
            "stop_metrics_collection",
            where,
            "Override both functions, or neither of them.",
        )
    _check_parts(table, where)
    _check_handlers(table, where)
    _warn_of_misspellings(table, where)
    return table


def _check_version(table: Dispatch[Any, Any], where: str) -> None:
    version: object = table.api_version
    if (
        not isinstance(version, tuple)
        or len(version) != 3
        or not all(isinstance(number, int) for number in version)
    ):
        raise _broken(
            f"api_version of the dispatch table is {version!r}, not three numbers",
            where,
            f"Set api_version to {tuple(DISPATCH_API_VERSION)}.",
        )
    if not _speaks(ApiVersion(*version)):
        raise LiteRtError(
            Status.WRONG_VERSION,
            f"the dispatch table has version {ApiVersion(*version)} of the dispatch API, but this "
            f"host needs version {DISPATCH_API_VERSION}",
            where,
            "Install matching releases of the vendor's package and of litert-npu.",
        )


def _speaks(version: ApiVersion) -> bool:
    """Returns whether the host supports an API version; below 1.0, minor versions are incompatible."""
    host = DISPATCH_API_VERSION
    if version.major != host.major:
        return False
    return version.minor == host.minor if host.major == 0 else version.minor <= host.minor


def _check_ids(table: Dispatch[Any, Any], where: str) -> None:
    vendor_id: object = getattr(table, "vendor_id", None)
    if not isinstance(vendor_id, str) or not vendor_id:
        raise _broken(
            f"vendor_id of the dispatch table is {vendor_id!r}, not a name",
            where,
            "Set vendor_id to the vendor's name.",
        )
    build_id: object = table.build_id
    if not isinstance(build_id, str):
        raise _broken(
            f"build_id of the dispatch table is {build_id!r}, not a string",
            where,
            "Set build_id to a string, which may be empty.",
        )


def _check_parts(table: Dispatch[Any, Any], where: str) -> None:
    capabilities: object = table.capabilities
    if not isinstance(capabilities, int) or not capabilities & Capability.BASIC:
        raise _broken(
            f"the capabilities of the dispatch table are {capabilities!r}, but must include BASIC",
            where,
            "Add Capability.BASIC to the capabilities.",
        )
    for bit, attribute, interface in _PARTS:
        part: object = getattr(table, attribute)
        if bool(capabilities & bit) is not (part is not None):
            has = f"Capability.{bit.name}, but no {attribute}"
            if part is not None:
                article = "an" if attribute[0] == "a" else "a"
                has = f"{article} {attribute}, but no Capability.{bit.name}"
            raise _broken(f"the dispatch table has {has}", where, "Define both, or remove both.")
        if part is not None:
            _check_derived(attribute, part, interface, where)
            _check_functions(part, interface, where)


def _check_handlers(table: Dispatch[Any, Any], where: str) -> None:
    handlers = table.buffer_handlers
    if handlers is None:
        return
    _check_derived("buffer_handlers", handlers, BufferHandlers, where)
    types: object = handlers.supported_types
    if (
        not isinstance(types, (list, tuple))
        or not types
        or not all(isinstance(kind, int) and kind > BufferType.HOST_MEMORY for kind in types)
    ):
        raise _broken(
            f"supported_types of buffer_handlers is {types!r:.80}, but must be a list of the "
            "vendor's memory types",
            where,
            "Set supported_types to a list of numbers from 100 to 199.",
        )


def _check_derived(attribute: str, value: object, interface: type, where: str) -> None:
    if not isinstance(value, interface):
        name = interface.__name__
        raise _broken(
            f"{attribute} is {value!r:.80}, not an instance of a class derived from {name}",
            where,
            f"Derive a class from {name}, and assign an instance of this class.",
        )


def _check_functions(table: object, interface: type, where: str) -> None:
    """Checks that each function of the interface can be called with the host's arguments."""
    for function, wanted in vars(interface).items():
        if function.startswith("_") or not inspect.isfunction(wanted):
            continue
        filled = getattr(table, function)
        if not callable(filled):
            raise _broken(
                f"the attribute '{function}' of the dispatch table is {filled!r}, not a function",
                where,
                f"Define a method {function} in class {type(table).__name__}, or remove the attribute.",
            )
        if getattr(filled, "__func__", None) is wanted:
            continue
        if inspect.iscoroutinefunction(filled) or inspect.isgeneratorfunction(filled):
            raise _broken(
                f"the function '{function}' of the dispatch table uses async or yield, so a call would not run it",
                where,
                "Write a plain function without async or yield.",
            )
        _check_arguments(function, filled, list(inspect.signature(wanted).parameters)[1:], where)


def _check_arguments(
    function: str, filled: Callable[..., object], names: list[str], where: str
) -> None:
    try:
        signature = inspect.signature(filled)
    except ValueError:
        return  # native code without a signature
    try:
        signature.bind(*names)
    except TypeError as error:
        raise _broken(
            f"the function '{function}' of the dispatch table does not accept the host's "
            f"{count_text(len(names), 'argument')}",
            where,
            f"Define the function as {function}({', '.join(['self', *names])}).",
        ) from error


def _warn_of_misspellings(table: Dispatch[Any, Any], where: str) -> None:
    """Logs a warning for each method whose name resembles a function of the interface, but differs."""
    unfilled = [
        name
        for name, default in vars(Dispatch).items()
        if name[0] != "_" and inspect.isfunction(default) and not is_filled(table, name)
    ]
    for name in dir(table):
        # Static: a property may need a driver that is not loaded yet.
        filled = inspect.getattr_static(table, name, None)
        is_own = name[0] != "_" and not hasattr(Dispatch, name) and callable(filled)
        if is_own and (function := closest_name(name, unfilled, 0.85)):
            _LOG.warning(
                "%s: the host never calls the method '%s'. Did you mean '%s'?",
                where,
                name,
                function,
            )


def _broken(what: str, where: str, hint: str) -> LiteRtError:
    return LiteRtError(Status.DYNAMIC_LOADING, what, where, hint)
