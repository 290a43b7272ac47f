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

from litert.core.compiler_options import (
    CompilerOptions,
    CustomOpInfo,
    DumpOptions,
    parse_shape_bounds,
)
from litert.core.errors import LiteRtError
from litert.core.status import Status

CUSTOM_OP_INFO_VARIABLE = "LITERT_NPU_CUSTOM_OP_INFO"
OPTIONS_VARIABLE = "LITERT_NPU_OPTIONS"
PAYLOAD_IDENTIFIER = "litert_npu"

_ONCE = (
    "compiler_options_max_partitions", "check_kernels", "allow_native_assets", "asset_root",
    "dump_ir_after", "dump_kernels", "dump_folder",
)  # fmt: skip
_REPEATED = ("npu_custom_op_info", "custom_layers", "shape_bounds")
FLAGS = (*_ONCE, *_REPEATED)
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
    return CompilerOptions(
        [*host_infos, *infos],
        flags.number("compiler_options_max_partitions"),
        flags.switch("check_kernels", True),
        flags.switch("allow_native_assets", False),
        flags.vendor_options,
        flags.all("custom_layers"),
        flags.text("asset_root"),
        parse_shape_bounds(flags.all("shape_bounds")),
        DumpOptions(
            flags.text("dump_folder"),
            flags.text("dump_ir_after"),
            flags.switch("dump_kernels", False),
        ),
    )


def environment_parts(variable: str) -> Sequence[str]:
    """The entries of one of the variables above; none where it is not set."""
    return [part.strip() for part in os.environ.get(variable, "").split(";") if part.strip()]


def write_flags(options: CompilerOptions) -> bytes:
    """The options that no vendor has of its own, as the payload `litert_npu`, where they differ from the defaults.

    Assets are left out, which a host tells otherwise, and so is what only a host acts on.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for a value with a line break.
    """
    flags = {
        "check_kernels": "" if options.check_kernels else "false",
        "allow_native_assets": "true" if options.allow_native_assets else "",
        "asset_root": options.asset_root,
        "dump_folder": options.dump.folder,
        "dump_ir_after": options.dump.ir_after,
        "dump_kernels": "true" if options.dump.kernels else "",
    }
    lines = [f"{name}={value}" for name, value in flags.items() if value]
    for name, bound in options.shape_bounds.items():
        lines.append(f"shape_bounds={name}:{'x'.join(map(str, bound))}")
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
                if name in _ONCE and len(values) > 1:
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

    def text(self, name: str) -> str:
        """The value of a flag; "" where it is not given."""
        values = self.all(name)
        return values[0] if values else ""

    def number(self, name: str) -> int:
        """The value of a flag that is a number; 0 where it is not given."""
        text = self.text(name) or "0"
        if not text.isdecimal():
            raise self._wrong(name, "a number")
        return int(text)

    def switch(self, name: str, default: bool) -> bool:
        """The value of a flag that is true or false."""
        text = self.text(name) or str(default).lower()
        if text not in ("true", "false"):
            raise self._wrong(name, "true or false")
        return text == "true"

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
