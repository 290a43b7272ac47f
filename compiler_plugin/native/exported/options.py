"""What an exported plugin is told where the host has no flags for it: by the environment, and by opaque options.

`LITERT_NPU_CUSTOM_OP_INFO=op,path;op,path` are the assets, as `--npu_custom_op_info` has them.
`LITERT_NPU_OPTIONS=reference_ops=all;check_kernels=false` are flags of `apply_plugin` that a plugin may read:
those of `FLAGS`, and the vendor's own, whose names begin with its manufacturer's. Options of other vendors are
theirs: several exported plugins may be in one process. A name that is nearly one of these is an error.

A host may hand the same flags over in its opaque options, as a C string under the identifier `litert_npu`, one
in a line; they go before the environment. Our own host does.
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
"""Flags of `apply_plugin` that reach a plugin; the others are the host's."""

_NEAR = 0.75
"""How alike names are of which one is taken for a slip of the other, as difflib counts; 1 for equal ones."""

_logger = logging.getLogger(__name__)


def read_options(
    manufacturer: str, host_flags: Sequence[str] = (), host_infos: Sequence[CustomOpInfo] = ()
) -> CompilerOptions:
    """The options of a plugin that runs in another host than ours.

    Args:
      manufacturer: whose options are taken.
      host_flags: each `name=value`, from the host's opaque options.
      host_infos: the assets that the host itself knows of; they go before all others.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG.
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
    """The entries of one of the variables above; none where it is not set."""
    return [part.strip() for part in os.environ.get(variable, "").split(";") if part.strip()]


def write_flags(options: CompilerOptions) -> bytes:
    """The options that no vendor has of its own, as the payload `litert_npu`, where they differ from the defaults.

    Assets are left out, which a host tells otherwise, and so is what only a host acts on.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for a value with a line break.
    """
    given = given_flags(options, Goes.PAYLOAD)
    lines = [f"{name}={text}" for name, texts in given for text in texts]
    for line in lines:
        if len(line.splitlines()) > 1:
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG, f"a line break in {line!r}", hint="Rename it."
            )
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


class _Given(NamedTuple):
    """What one place says of a flag."""

    where: str
    texts: list[str]


def _read_flags(where: str, flags: Iterable[str], manufacturer: str) -> dict[str, _Given]:
    """The flags of one place, each `name=value` or `name`: those of `FLAGS`, and the manufacturer's own."""
    found: dict[str, _Given] = {}
    for part in flags:
        name, equals, value = part.lstrip("-").partition("=")
        if name not in FLAGS and not is_option_of(manufacturer, name):
            if near := _find_near(name, manufacturer):
                what, hint = f"no option '{name}'", f"Did you mean {near}?"
                raise LiteRtError(Status.INVALID_TOOL_CONFIG, what, where, hint)
            _logger.info(
                "%s has '%s', which is no option for '%s': those begin with its name, or are %s",
                where, name, manufacturer, ", ".join(FLAGS),
            )  # fmt: skip
            continue
        texts = found.setdefault(name, _Given(where, [])).texts
        texts.append(value if equals else "true")
        if name in FLAGS and not _OPTIONS[name].flag.is_repeated and len(texts) > 1:
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG, f"'{name}' is given twice", where, "Give it once."
            )
    return found


def _find_near(name: str, manufacturer: str) -> str:
    """The option that an unknown name was meant to be; "" where none is near, or another vendor is named."""
    from difflib import get_close_matches  # here: few names are wrong

    others = [*find_entry_points(COMPILER_PLUGINS), *stock_vendor_folders("compiler")]
    if any(is_option_of(other, name) for other in others):
        return ""
    for flag in get_close_matches(name, FLAGS, 1, _NEAR):
        return flag
    words = name.split("_")
    for count in range(1, len(words)):
        if get_close_matches("".join(words[:count]).lower(), [plain_name(manufacturer)], 1, _NEAR):
            return "_".join([manufacturer.lower(), *words[count:]])
    return ""


def _value(flag: Flag, given: _Given | None) -> Any:
    """What a flag's texts say."""
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
        wanted = "a number"
    else:
        return text
    what, hint = f"'{flag.name}' is '{text}'", f"It has to be {wanted}."
    raise LiteRtError(Status.INVALID_TOOL_CONFIG, what, given.where, hint)
