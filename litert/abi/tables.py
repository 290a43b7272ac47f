"""Fills the host's tables of C functions with Python functions.

A Python function receives a handle as a number, and returns a handle by writing a number: the argument `LiteRtOp
op` is an `int`, and `LiteRtOp* op` is an `uintptr_t*`. A tensor type that C passes by value is a
`LiteRtRankedTensorTypeByValue`. All other arguments have cffi's types. For C code, numbers and handles are the
same, and Python can look up a number without a conversion.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from litert.abi.definitions import ffi
from litert.abi.status_codes import answering, status_of
from litert.core.status import Status

_HEADER = "abi_header"
# Structs without a definition that the host does not own: their pointers stay cffi pointers.
_FOREIGN = ("TfLiteOpaqueDelegate", "TfLiteTensor", "AHardwareBuffer")


def fill(
    table: Any,
    implementations: Mapping[str, Callable[..., Any]],
    version: tuple[int, int],
    owner: str,
    log: logging.Logger,
) -> list[object]:
    """Sets the header and all slots of a table.

    Args:
      table: Pointer to a table that begins with a `LiteRtAbiHeader`.
      implementations: Python functions, by the names of their slots. The functions return None or a status number,
        or raise an exception.
      version: Major and minor version of the table.
      owner: Name of the table's owner for the log, such as `vendor 'IntelOpenVINO'`.
      log: Logger for exceptions, and for the first call of each slot without a function.

    Returns:
      The objects that must live as long as C code uses the table.
    """
    type_of_table = ffi.typeof(table).item
    slots = dict(type_of_table.fields)
    unknown = set(implementations) - set(slots)
    assert not unknown, unknown
    header = table.abi_header
    header.struct_size = ffi.sizeof(type_of_table)
    header.major_version, header.minor_version = version
    kept: list[object] = []
    for name, field in slots.items():
        if name == _HEADER:
            continue
        function = implementations.get(name) or _missing(name, owner, log)
        callback = make_callback(field.type, function, name, log)
        setattr(table, name, ffi.cast(field.type, callback))
        kept.append(callback)
    return kept


def slots_of(implementation: object, c_type: str) -> dict[str, Callable[..., Any]]:
    """Returns, by name, the methods of an object that have the names of slots in a C table type."""
    names = [name for name, _ in ffi.typeof(c_type).fields]
    return {name: getattr(implementation, name) for name in names if hasattr(implementation, name)}


def make_callback(
    function_type: Any, function: Callable[..., Any], name: str, log: logging.Logger
) -> Any:
    """Makes a C function pointer that calls a Python function, with arguments as in `fill`.

    The type of the pointer is a type in the headers. The caller must keep the pointer alive as long as C code may
    call it.
    """
    signature, answer = _signature(function_type), answering(function, name, log)
    has_status = function_type.result.kind != "void"

    def act(*arguments: Any) -> None:
        answer(*arguments)

    def fail(_kind: object, error: BaseException, _trace: object) -> int | None:
        """Handles an error outside of the Python function, for example in the conversion of an argument."""
        status = status_of(error, log, name)
        return int(status) if has_status else None

    failed = int(Status.RUNTIME_FAILURE) if has_status else None
    return ffi.callback(signature, answer if has_status else act, failed, fail)


def _missing(name: str, owner: str, log: logging.Logger) -> Callable[..., Any]:
    told = False

    def refuse(*_: object) -> int:
        nonlocal told
        if not told:
            log.warning("%s called %s, which this host does not implement", owner, name)
            told = True
        return Status.UNSUPPORTED

    return refuse


@cache
def _signature(function_type: Any) -> Any:
    """Returns the type of a callback in which numbers replace handles."""
    arguments = ", ".join(_spelling(argument) for argument in function_type.args)
    return ffi.typeof(f"{function_type.result.cname}(*)({arguments or 'void'})")


def _spelling(argument: Any) -> str:
    if _is_handle(argument):
        return "uintptr_t"
    if argument.kind == "pointer" and _is_handle(argument.item):
        return "uintptr_t*"
    if argument.cname == "LiteRtRankedTensorType":
        return "LiteRtRankedTensorTypeByValue"
    return str(argument.cname)


def _is_handle(ctype: Any) -> bool:
    if ctype.kind != "pointer" or ctype.item.kind != "struct":
        return False
    try:
        ffi.sizeof(ctype.item)
    except ffi.error:  # a struct without a definition; to ask for its fields would end the process
        return not any(name in ctype.item.cname for name in _FOREIGN)
    return False
