"""The flags that a compiled file was made with, as far as it says them itself, in its manifest and stamp."""

from __future__ import annotations

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.vendor_names import is_option_of
from litert.model.assets import read_assets
from litert.model.manifest import read_manifest
from litert.model.reader import read_model
from litert.model.stamp import read_stamp

from .command_line import FlagValues


def is_compiled(path: str) -> bool:
    """Whether a model was compiled for an NPU."""
    with read_model(path) as model:
        return read_stamp(model, path) is not None


def add_made_with(flags: FlagValues, path: str) -> list[str]:
    """Sets flags of compiling as a file was made with them, where the user has not.

    Args:
      flags: of a command, parsed.
      path: of a compiled file.

    Returns:
      Options of the file's vendor, as arguments, in the order of their names.

    Raises:
      LiteRtError: INVALID_ARGUMENT, where the file has assets, whose paths it does not say, and the user neither.
    """
    with read_model(path) as model:
        stamp, manifest = read_stamp(model, path), read_manifest(model, path)
        assert stamp is not None
        given = {"soc_manufacturer": stamp.soc_manufacturer, "soc_model": stamp.soc_model}
        given |= manifest.flags if manifest is not None else {}
        ops = [asset.op_name for asset in read_assets(model) if not asset.companion_path]
    if ops and not (flags["npu_custom_op_info"].present or flags["custom_layers"].present):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the file was compiled with assets for {', '.join(ops)}, and does not say their paths",
            path,
            "Give each with --npu_custom_op_info, as apply_plugin had it.",
        )
    own = [n for n in given if n in flags and not flags[n].present]
    flags(["litert-npu", *(f"--{name}={given[name]}" for name in own)])
    return [
        f"--{name}={given[name]}"
        for name in given
        if name not in flags and is_option_of(stamp.soc_manufacturer, name)
    ]
