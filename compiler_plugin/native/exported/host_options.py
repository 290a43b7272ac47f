"""What a host tells a plugin of the user's wishes, read through its compiler context."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from compiler_plugin.native.exported.host_context import HostContext
from compiler_plugin.native.exported.options import PAYLOAD_IDENTIFIER
from litert.abi.definitions import ffi
from litert.abi.status_codes import check
from litert.core.compiler_options import CustomOpInfo
from litert.core.environment_options import EnvironmentOptions

_STRING = 8
_LINE = re.compile(r"""\s*(\w+)\s*=\s*(?:"([^"]*)"|'([^']*)'|(\S+))\s*""")


def read_environment(context: HostContext, environment: Any) -> EnvironmentOptions:
    """Where libraries are, as far as the host says.

    Args:
      context: of the host.
      environment: a `LiteRtEnvironmentOptions`, or NULL.
    """
    if not environment:
        return EnvironmentOptions()
    return EnvironmentOptions(
        compiler_plugin_path=_text_of(context, environment, 0),
        dispatch_library_path=_text_of(context, environment, 1),
    )


def read_flags(context: HostContext, options: Any, manufacturer: str) -> Sequence[str]:
    """The flags that a host has put into opaque options.

    That are the lines under the identifier `litert_npu`, and what is under the vendor's own name, as LiteRT's
    tools write vendors' flags: lines `ops = "all"` under `reference` are the flag `reference_ops=all`.

    Args:
      context: of the host.
      options: a `LiteRtOptions`, or NULL.
      manufacturer: the vendor's name.

    Returns:
      Flags, each `name=value`.
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
    """The assets that the host knows of; none, where it is a host that knows no assets.

    The functions that tell are not in the context: a host that has them exports them.

    Args:
      context: of the host.
      options: a `LiteRtOptions`, or NULL.
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
    """NULL where there are none."""
    function = context.find("get_opaque_options")
    opaque = ffi.new("LiteRtOpaqueOptions*")
    if not options or function is None or function(options, opaque):
        return ffi.NULL
    return opaque[0]


def _payload(context: HostContext, opaque: Any, identifier: str) -> str:
    function = context.find("find_opaque_options_data")
    data = ffi.new("void**")
    if function is None or function(opaque, ffi.new("char[]", identifier.encode()), data):
        return ""
    return _text(ffi.cast("char*", data[0])) if data[0] else ""


def _identifiers(manufacturer: str) -> list[str]:
    """How flags may spell a vendor's name: `MyVendor` is `myvendor` or `my_vendor`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", manufacturer)
    return list(dict.fromkeys(re.sub(r"\W", "_", name).lower() for name in (manufacturer, words)))


def _lines(payload: str) -> Iterator[tuple[str, str]]:
    for line in payload.splitlines():
        if match := _LINE.fullmatch(line):
            yield match[1], next(value for value in match.groups()[1:] if value is not None)


def _text_of(context: HostContext, environment: Any, tag: int) -> str:
    function = context.find("get_environment_options_value")
    value = ffi.new("LiteRtAny*")
    if function is None or function(environment, tag, value) or value.type != _STRING:
        return ""
    return _text(value.str_value) if value.str_value else ""


def _text(pointer: Any) -> str:
    return str(ffi.string(pointer).decode("utf-8", "surrogateescape"))
