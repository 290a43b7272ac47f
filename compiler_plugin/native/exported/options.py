"""Reads the options of an exported plugin from environment variables and from the host's opaque options.

`LITERT_NPU_CUSTOM_OP_INFO=op,path;op,path` names the assets; each entry has the format of `--npu_custom_op_info`.
`LITERT_NPU_OPTIONS=reference_ops=all;check_kernels=false` sets flags of `apply_plugin`: the flags in `FLAGS`, and
the vendor's own flags, whose names begin with the manufacturer's name. A plugin ignores the flags of other
vendors, because one process may contain several exported plugins. A flag name is an error if it is probably a
misspelling of a known name.

A host may also pass flags in its opaque options, as a C string that has one flag on each line; the identifier of
these options is `litert_npu`. This project's host does so. Flags from the host override flags from the
environment.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.core.errors import LiteRtError
from litert.core.option import Flag, Goes, given_flags, options_of, values_by_field
from litert.core.status import Status
from litert.core.suggestion import closest_name
from litert.core.vendor_names import is_option_of, plain_name
from litert.host.extensions import COMPILER_PLUGINS, find_entry_points
from litert.host.stock_vendors import stock_vendor_folders

CUSTOM_OP_INFO_VARIABLE = "LITERT_NPU_CUSTOM_OP_INFO"
OPTIONS_VARIABLE = "LITERT_NPU_OPTIONS"
PAYLOAD_IDENTIFIER = "litert_npu"

_OPTIONS = {
    option.flag.name: option
    for option in options_of(CompilerOptions, DumpOptions)
    if Goes.ENVIRONMENT in option.goes
}
FLAGS = tuple(_OPTIONS)
"""Flags of `apply_plugin` that are passed to plugins; all other flags are for the host only."""

_NEAR = 0.75
"""If difflib's measure of the similarity of two names is at least this, they are spellings of the same name."""

_logger = logging.getLogger(__name__)


def read_options(
    manufacturer: str, host_flags: Sequence[str] = (), host_infos: Sequence[CustomOpInfo] = ()
) -> CompilerOptions:
    """Returns the options of a plugin that runs in a host of another project.

    Args:
      manufacturer: Manufacturer of the plugin; the flags of other manufacturers are ignored.
      host_flags: Flags from the host's opaque options, each as `name=value`.
      host_infos: Assets from the host, which override all other assets for the same op.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if a flag is unknown or has a wrong value.
    """
    given: dict[str, _Given] = {}
    for where, flags in (
        (f"${OPTIONS_VARIABLE}", environment_parts(OPTIONS_VARIABLE)),
        ("the host's opaque options", host_flags),
    ):
        given |= _read_flags(where, flags, manufacturer)
    values = {name: _value(_OPTIONS[name].flag, given.get(name)) for name in FLAGS}
    assets = [*environment_parts(CUSTOM_OP_INFO_VARIABLE), *values["npu_custom_op_info"]]
    known = {info.op_name for info in host_infos}
    infos = [info for info in map(CustomOpInfo.parse, assets) if info.op_name not in known]
    compiler, dump = (
        values_by_field([it for it in options_of(kind) if it.flag.name in FLAGS], values)
        for kind in (CompilerOptions, DumpOptions)
    )
    compiler["custom_op_infos"] = [*host_infos, *infos]
    vendor_options = {name: found.texts[-1] for name, found in given.items() if name not in FLAGS}
    return CompilerOptions(**compiler, vendor_options=vendor_options, dump=DumpOptions(**dump))


def environment_parts(variable: str) -> Sequence[str]:
    """Returns the entries of an environment variable, which `;` separates; empty if the variable is not set."""
    return [part.strip() for part in os.environ.get(variable, "").split(";") if part.strip()]


def write_flags(options: CompilerOptions) -> bytes:
    """Returns the payload `litert_npu`: all flags that differ from their defaults, except vendors' own flags.

    Assets are not in the payload, because the host passes them separately. Options that are only for the host are
    not in the payload either.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if a value contains a line break.
    """
    given = given_flags(options, Goes.PAYLOAD)
    lines = [(name, text) for name, texts in given for text in texts]
    for name, text in lines:
        if len(f"{name}={text}".splitlines()) > 1:
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"the value of option '{name}' contains a line break: {text!r}",
                hint="Remove the line break from the option's value.",
            )
    return "".join(f"{name}={text}\n" for name, text in lines).encode("utf-8", "surrogateescape")


class _Given(NamedTuple):
    """The values of a flag from one source."""

    where: str
    texts: list[str]


def _read_flags(where: str, flags: Iterable[str], manufacturer: str) -> dict[str, _Given]:
    """Reads the flags of one source, each `name=value` or `name`; skips flags of other vendors."""
    found: dict[str, _Given] = {}
    for part in flags:
        name, equals, value = part.lstrip("-").partition("=")
        if name not in FLAGS and not is_option_of(manufacturer, name):
            if near := _find_near(name, manufacturer):
                what, hint = f"there is no option '{name}'", f"Did you mean '{near}'?"
                raise LiteRtError(Status.INVALID_TOOL_CONFIG, what, where, hint)
            _logger.info(
                "%s has the unknown option '%s', which is ignored; options of '%s' begin with "
                "the vendor's name, or are %s",
                where, name, manufacturer, ", ".join(FLAGS),
            )  # fmt: skip
            continue
        texts = found.setdefault(name, _Given(where, [])).texts
        texts.append(value if equals else "true")
        if name in FLAGS and not _OPTIONS[name].flag.is_repeated and len(texts) > 1:
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"option '{name}' is given twice",
                where,
                "Give the option once.",
            )
    return found


def _find_near(name: str, manufacturer: str) -> str:
    """Returns a known option with a similar name; "" if there is none, or for a flag of another vendor."""
    others = [*find_entry_points(COMPILER_PLUGINS), *stock_vendor_folders("compiler")]
    if any(is_option_of(other, name) for other in others):
        return ""
    if flag := closest_name(name, FLAGS, _NEAR):
        return flag
    words = name.split("_")
    for count in range(1, len(words)):
        if closest_name("".join(words[:count]), [plain_name(manufacturer)], _NEAR):
            return "_".join([manufacturer.lower(), *words[count:]])
    return ""


def _value(flag: Flag, given: _Given | None) -> Any:
    """Returns the value of a flag."""
    if flag.is_repeated:
        return given.texts if given else []
    if given is None:
        return flag.default
    (text,) = given.texts
    if isinstance(flag.default, bool):
        if text in ("true", "false"):
            return text == "true"
        wanted = "true or false"
    elif isinstance(flag.default, int):
        if text.isdecimal():
            return int(text)
        wanted = "a whole number of at least 0"
    else:
        return text
    what = f"the value of option '{flag.name}' is '{text}', but must be {wanted}"
    raise LiteRtError(Status.INVALID_TOOL_CONFIG, what, given.where)
