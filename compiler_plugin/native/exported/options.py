"""What an exported plugin is told where the host has no flags for it: by the environment, and by opaque options.

`LITERT_NPU_CUSTOM_OP_INFO=op,path;op,path` are the assets, as `--npu_custom_op_info` has them.
`LITERT_NPU_OPTIONS=reference_ops=all;check_kernels=false` are flags of `apply_plugin` that a plugin may read:
those of `FLAGS`, and the vendor's own, whose names begin with its manufacturer's. Options of other vendors are
theirs: several exported plugins may be in one process.

A host may hand the same flags over in its opaque options, as a C string under the identifier `litert_npu`, one
in a line; they go before the environment. Our own host does.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from typing import Any

from litert.core.compiler_options import (
    CompilerOptions,
    CustomOpInfo,
    DumpOptions,
)
from litert.core.errors import LiteRtError
from litert.core.option import Flag, Goes, given_flags, options_of, values_by_field
from litert.core.status import Status

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
    flags = _Flags(manufacturer)
    flags.add(f"${OPTIONS_VARIABLE}", environment_parts(OPTIONS_VARIABLE))
    flags.add("the host's opaque options", host_flags)
    assets = [
        *environment_parts(CUSTOM_OP_INFO_VARIABLE),
        *flags.all("npu_custom_op_info"),
    ]
    known = {info.op_name for info in host_infos}
    infos = [info for info in map(CustomOpInfo.parse, assets) if info.op_name not in known]
    given = flags.of(CompilerOptions) | {"custom_op_infos": [*host_infos, *infos]}
    dump = DumpOptions(**flags.of(DumpOptions))
    return CompilerOptions(**given, vendor_options=flags.vendor_options, dump=dump)


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


class _Flags:
    """Flags from several places, each `name=value` or `name`; a later one replaces what an earlier one says.

    Attributes:
      vendor_options: those of the manufacturer.
    """

    def __init__(self, manufacturer: str) -> None:
        self.vendor_options: dict[str, str] = {}
        self._manufacturer = manufacturer
        self._values: dict[str, tuple[list[str], str]] = {}

    def add(self, where: str, flags: Iterable[str]) -> None:
        """Adds the flags of one place.

        Raises:
          LiteRtError: INVALID_TOOL_CONFIG, for a flag that is given twice.
        """
        found: dict[str, tuple[list[str], str]] = {}
        for part in flags:
            name, equals, value = part.lstrip("-").partition("=")
            value = value if equals else "true"
            if name in FLAGS:
                values, _ = found.setdefault(name, ([], where))
                values.append(value)
                if not _OPTIONS[name].flag.is_repeated and len(values) > 1:
                    raise LiteRtError(
                        Status.INVALID_TOOL_CONFIG,
                        f"'{name}' is given twice",
                        where,
                        "Give it once.",
                    )
            elif _plain(name).startswith(_plain(self._manufacturer)):
                self.vendor_options[name] = value
            else:
                _logger.info(
                    "%s has '%s', which is no option for '%s': those begin with its name, or are %s",
                    where, name, self._manufacturer, ", ".join(FLAGS),
                )  # fmt: skip
        self._values.update(found)

    def all(self, name: str) -> list[str]:
        """The values of a flag that may be repeated."""
        return self._values.get(name, ([], ""))[0]

    def of(self, kind: type) -> dict[str, Any]:
        """The values of a dataclass's fields that a plugin may read."""
        declared = [option for option in options_of(kind) if option.flag.name in FLAGS]
        return values_by_field(
            declared, {option.flag.name: self._value(option.flag) for option in declared}
        )

    def _value(self, flag: Flag) -> Any:
        texts = self.all(flag.name)
        if flag.is_repeated:
            return texts
        if not texts:
            return flag.default
        (text,) = texts
        if isinstance(flag.default, bool):
            if text not in ("true", "false"):
                raise self._wrong(flag.name, "true or false")
            return text == "true"
        if isinstance(flag.default, int):
            if not text.isdecimal():
                raise self._wrong(flag.name, "a number")
            return int(text)
        return text

    def _wrong(self, name: str, wanted: str) -> LiteRtError:
        values, where = self._values[name]
        return LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"'{name}' is '{values[0]}'",
            where,
            f"It has to be {wanted}.",
        )


def _plain(name: str) -> str:
    """As flags of a vendor are compared with its name."""
    return name.replace("_", "").replace("-", "").lower()
