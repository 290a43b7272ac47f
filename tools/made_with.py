"""From a file's manifest and stamp, reads the flags with which the file was compiled.

Since the file is not trusted, the file cannot set flags that give files or folders, or that allow machine code.
"""

from __future__ import annotations

from litert.core.compiler_options import environment_layers
from litert.core.counts import list_text
from litert.core.errors import LiteRtError
from litert.core.option import Goes, holds_path
from litert.core.status import Status
from litert.core.vendor_names import is_option_of
from litert.model.assets import read_assets
from litert.model.manifest import MANIFEST_KEY, read_manifest
from litert.model.reader import read_model
from litert.model.stamp import read_stamp

from .apply_flags import DECLARED
from .command_line import FlagValues, value_error

_RECORDED = {
    *("soc_manufacturer", "soc_model"),
    *(
        o.flag.name
        for o in DECLARED
        if Goes.MANIFEST in o.goes and o.field != "allow_native_assets"
    ),
}
"""The flags that are read from a compiled file. Only the user can allow machine code in assets."""


def is_compiled(path: str) -> bool:
    """Returns whether a model was compiled for an NPU."""
    with read_model(path) as model:
        return read_stamp(model, path) is not None


def add_made_with(flags: FlagValues, path: str) -> list[str]:
    """Sets the flags with which a file was compiled, except flags that the user has set.

    Args:
      flags: Parsed flags of a command.
      path: Path of a compiled file.

    Returns:
      Options of the file's vendor, as command-line arguments sorted by name.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the file was compiled with assets and the command line does not give their
        paths; INVALID_FLATBUFFER, if the file contains an invalid value of a flag.
    """
    from absl.flags import Error

    with read_model(path) as model:
        stamp, manifest = read_stamp(model, path), read_manifest(model, path)
        assert stamp is not None
        given = {"soc_manufacturer": stamp.soc_manufacturer, "soc_model": stamp.soc_model}
        given |= manifest.flags if manifest is not None else {}
        ops = [asset.op_name for asset in read_assets(model) if not asset.companion_path]
    by_flag = flags["npu_custom_op_info"].present or flags["custom_layers"].present
    if ops and not (by_flag or environment_layers()):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the file was compiled with assets for {list_text('op', ops)}. To compile the "
            "model again, the command needs the paths of these assets, which the file does not contain",
            path,
            "Give each asset with --npu_custom_op_info, as for apply_plugin.",
        )
    own = [n for n in given if n in _RECORDED and n in flags and not flags[n].present]
    try:
        flags(["litert-npu", *(f"--{name}={given[name]}" for name in own)])
    except Error as error:
        raise LiteRtError(
            Status.INVALID_FLATBUFFER,
            f"metadata entry {MANIFEST_KEY} of the file contains an invalid flag: "
            f"{value_error(str(error), flags).what}",
            path,
            "Compile the model again.",
        ) from None
    return [
        f"--{name}={text}"
        for name, text in given.items()
        if name not in flags
        and is_option_of(stamp.soc_manufacturer, name)
        and not holds_path(name + text)
    ]
