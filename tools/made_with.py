"""The flags that a compiled file was made with, as far as it says them itself, in its manifest and stamp.

A file may be a stranger's: it names no file or folder to read, load or write, and consents to nothing.
"""

from __future__ import annotations

from litert.core.compiler_options import environment_layers
from litert.core.errors import LiteRtError
from litert.core.option import Goes, holds_path
from litert.core.status import Status
from litert.core.vendor_names import is_option_of
from litert.model.assets import read_assets
from litert.model.manifest import read_manifest
from litert.model.reader import read_model
from litert.model.stamp import read_stamp

from .apply_flags import DECLARED
from .command_line import FlagValues

_RECORDED = {
    *("soc_manufacturer", "soc_model"),
    *(
        o.flag.name
        for o in DECLARED
        if Goes.MANIFEST in o.goes and o.field != "allow_native_assets"
    ),
}
"""The flags that a file is believed; consent to machine code in assets is the user's to give."""


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
      LiteRtError: INVALID_ARGUMENT, where the file has assets, whose paths it does not say, and the user neither;
        INVALID_FLATBUFFER, for a value that a flag cannot have.
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
            f"the file was compiled with assets for {', '.join(ops)}, and does not say their paths",
            path,
            "Give each with --npu_custom_op_info, as apply_plugin had it.",
        )
    own = [n for n in given if n in _RECORDED and n in flags and not flags[n].present]
    try:
        flags(["litert-npu", *(f"--{name}={given[name]}" for name in own)])
    except Error as error:
        raise LiteRtError(Status.INVALID_FLATBUFFER, f"its manifest: {error}", path) from None
    return [
        f"--{name}={text}"
        for name, text in given.items()
        if name not in flags
        and is_option_of(stamp.soc_manufacturer, name)
        and not holds_path(name + text)
    ]
