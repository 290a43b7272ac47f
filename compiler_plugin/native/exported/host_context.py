"""Calls functions of the host's compiler context, checks their results, and reads the user's options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from compiler_plugin.native.exported.options import PAYLOAD_IDENTIFIER
from litert.abi.definitions import ffi
from litert.abi.status_codes import check
from litert.core.compiler_options import CustomOpInfo
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status

_POINTER_SIZE = ffi.sizeof("void*")


class HostContext:
    """The function table of a host's compiler context; the tables of older hosts have fewer functions."""

    def __init__(self, table: Any) -> None:
        """Wraps a `const LiteRtCompilerContext*`, which must outlive this object; NULL is an error."""
        if not table:
            raise LiteRtError(
                Status.INVALID_ARGUMENT, "the host passed NULL as the compiler context"
            )
        self._table = table
        self._size = int(table.abi_header.struct_size)
        self._functions: dict[str, Any] = {}

    def find(self, slot: str) -> Any:
        """Returns the function in a slot of the host's table; None if the host has no such function."""
        if slot not in self._functions:
            end = ffi.offsetof("LiteRtCompilerContext", slot) + _POINTER_SIZE
            self._functions[slot] = (end <= self._size and getattr(self._table, slot)) or None
        return self._functions[slot]

    def call(self, slot: str, *arguments: Any) -> None:
        """Calls a function of the host; raises an error if the function is missing or its status is not Ok."""
        function = self.find(slot)
        if function is None:
            raise LiteRtError(
                Status.WRONG_VERSION,
                f"the host's LiteRT does not offer the function {slot} to compiler plugins",
                hint="This plugin needs LiteRT 2.1 or newer.",
            )
        check(function(*arguments), f"the host's {slot} failed")

    def tells(self, slot: str, *arguments: Any) -> bool:
        """Calls a function of the host that may be missing or may fail; returns whether the call succeeded."""
        function = self.find(slot)
        return function is not None and not function(*arguments)

    def answer(self, slot: str, handle: Any, c_type: str = "size_t") -> Any:
        """Calls a getter of the host with a handle, and returns the value, of type `c_type`, that it writes."""
        answer = ffi.new(f"{c_type}*")
        self.call(slot, handle, answer)
        return answer[0]

    def text(self, slot: str, handle: Any) -> str:
        """Calls a getter of the host with a handle, and returns the string that the getter writes; "" for NULL.

        Bytes that are not valid UTF-8 become lone surrogates, as in all names of a graph.
        """
        answer = ffi.new("char**")
        self.call(slot, handle, answer)
        return ffi.string(answer[0]).decode("utf-8", "surrogateescape") if answer[0] else ""

    def items(self, kind: str, count_slot: str, item_slot: str, owner: Any) -> list[Any]:
        """Returns handles of all parts of an object that have the C type `kind`, such as a subgraph's ops."""
        answer = ffi.new(f"{kind}*")
        items: list[Any] = []
        for index in range(self.answer(count_slot, owner)):
            self.call(item_slot, owner, index, answer)
            items.append(answer[0])
        return items


_STRING = 8
_LINE = re.compile(r"""\s*(\w+)\s*=\s*(?:"([^"]*)"|'([^']*)'|(\S+))\s*""")


def read_environment(context: HostContext, environment: Any) -> EnvironmentOptions:
    """Returns the library paths from a `LiteRtEnvironmentOptions`; for NULL, the paths are empty."""
    if not environment:
        return EnvironmentOptions()
    return EnvironmentOptions(
        compiler_plugin_path=_text_of(context, environment, 0),
        dispatch_library_path=_text_of(context, environment, 1),
    )


def read_flags(context: HostContext, options: Any, manufacturer: str) -> Sequence[str]:
    """Returns the flags in a host's opaque options, each as `name=value`.

    Each line of the payload with the identifier `litert_npu` is a flag. A payload whose identifier is the vendor's
    name contains flags in the form of LiteRT's tools. For example, the line `ops = "all"` in the payload
    `reference` means the flag `reference_ops=all`. `options` is a `LiteRtOptions` or NULL.
    """
    opaque = _opaque_options(context, options)
    if not opaque:
        return ()
    flags = [
        f"{identifier}_{key}={value}"
        for identifier in _identifiers(manufacturer)
        for key, value in _lines(_payload(context, opaque, identifier))
    ]
    payload = _payload(context, opaque, PAYLOAD_IDENTIFIER)
    return [*flags, *filter(None, map(str.strip, payload.splitlines()))]


def find_custom_op_infos(context: HostContext, options: Any) -> Sequence[CustomOpInfo]:
    """Returns the assets in a host's `LiteRtOptions`; none for NULL, or if the host does not support assets.

    The functions that return assets are not in the compiler context; hosts that support assets export them as
    symbols.
    """
    process = ffi.dlopen(None)
    try:
        find = process.LiteRtFindCompilerOptions
        count = process.LiteRtGetCompilerOptionsNumCustomOpInfo
        get = process.LiteRtGetCompilerOptionsCustomOpInfo
    except (AttributeError, ffi.error):
        return ()
    opaque = _opaque_options(context, options)
    compiler_options = ffi.new("LiteRtCompilerOptions*")
    if not opaque or find(opaque, compiler_options):
        return ()
    number = ffi.new("size_t*")
    check(count(compiler_options[0], number), "LiteRtGetCompilerOptionsNumCustomOpInfo failed")
    infos: list[CustomOpInfo] = []
    name, path = ffi.new("char**"), ffi.new("char**")
    for index in range(number[0]):
        status = get(compiler_options[0], index, name, path)
        check(status, "LiteRtGetCompilerOptionsCustomOpInfo failed")
        infos.append(CustomOpInfo(_text(name[0]), _text(path[0])))
    return infos


def _opaque_options(context: HostContext, options: Any) -> Any:
    """Returns the opaque options; NULL if there are none."""
    opaque = ffi.new("LiteRtOpaqueOptions*")
    if options and context.tells("get_opaque_options", options, opaque):
        return opaque[0]
    return ffi.NULL


def _payload(context: HostContext, opaque: Any, identifier: str) -> str:
    name, data = ffi.new("char[]", identifier.encode()), ffi.new("void**")
    is_there = context.tells("find_opaque_options_data", opaque, name, data)
    return _text(ffi.cast("char*", data[0])) if is_there and data[0] else ""


def _identifiers(manufacturer: str) -> list[str]:
    """Returns the spellings of a vendor's name in flags: `myvendor` and `my_vendor` for `MyVendor`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", manufacturer)
    return list(dict.fromkeys(re.sub(r"\W", "_", name).lower() for name in (manufacturer, words)))


def _lines(payload: str) -> Iterator[tuple[str, str]]:
    for line in payload.splitlines():
        if match := _LINE.fullmatch(line):
            yield match[1], next(value for value in match.groups()[1:] if value is not None)


def _text_of(context: HostContext, environment: Any, tag: int) -> str:
    value = ffi.new("LiteRtAny*")
    is_there = context.tells("get_environment_options_value", environment, tag, value)
    return _text(value.str_value) if is_there and value.type == _STRING and value.str_value else ""


def _text(pointer: Any) -> str:
    return str(ffi.string(pointer).decode("utf-8", "surrogateescape"))
