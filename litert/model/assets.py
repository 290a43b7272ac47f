"""Assets in a model: a user's file for each custom op, and the files that those name.

Each lies in the metadata, byte for byte: `litert_npu_asset_<op>` for an op's asset (the custom op assets guide,
section 2), and `litert_npu_asset_<op>/<relative path>` for a companion of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Model

ASSET_KEY_PREFIX = "litert_npu_asset_"


class Asset(NamedTuple):
    """An asset or companion, as it lies in a model.

    Attributes:
      op_name: the custom code of the ops it is for.
      companion_path: relative to the asset's folder, with `/`; "" for the asset itself.
      blob: the file's bytes.
    """

    op_name: str
    companion_path: str
    blob: Blob

    @property
    def name(self) -> str:
        """What `register_asset` calls it: `<op>`, or `<op>/<relative path>`."""
        return f"{self.op_name}/{self.companion_path}" if self.companion_path else self.op_name


def check_op_name(op_name: str) -> None:
    """Raises INVALID_TOOL_CONFIG where no metadata key can be made of a custom op's name."""
    if not op_name or "\0" in op_name:
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"{op_name!r} is no name of a custom op",
            hint="Give the op's custom code; `litert-npu inspect` lists those of a model.",
        )


def check_companion_path(path: str, where: str = "") -> None:
    """Checks that a companion lies in its asset's folder or below, and that there is one way to name it.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for an absolute path, one with `..`, `.` or an empty part, a backslash
        or a zero byte, or a Windows drive.
    """
    parts = path.split("/")  # an absolute path has an empty first part
    if (
        any(part in ("", ".", "..") for part in parts)
        or any(character in path for character in "\\\0")
        or path[1:2] == ":"
    ):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the companion path {path!r} is not a plain relative path",
            where,
            "Put the file in the asset's folder or below it, and name it with '/'.",
        )


def set_assets(model: Model, assets: Sequence[Asset]) -> None:
    """Puts assets into a model, in this order and in place of all that it had.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG or INVALID_ARGUMENT for a bad name or path; ALREADY_EXISTS where two
        assets have one key, such as companion `b` of op `a` and the asset of an op named `a/b`.
    """
    seen: dict[str, Asset] = {}
    for asset in assets:
        check_op_name(asset.op_name)
        if asset.companion_path:
            check_companion_path(asset.companion_path, f"asset of op '{asset.op_name}'")
        other = seen.setdefault(asset.name, asset)
        if other is not asset:
            raise LiteRtError(
                Status.ALREADY_EXISTS,
                f"{_describe(other)} and {_describe(asset)} are both named '{asset.name}'",
                hint="Rename the companion's file or folder.",
            )
    if any(entry.name.startswith(ASSET_KEY_PREFIX) for entry in model.metadata):
        model.metadata = [e for e in model.metadata if not e.name.startswith(ASSET_KEY_PREFIX)]
    for asset in assets:
        model.set_metadata(ASSET_KEY_PREFIX + asset.name, asset.blob)


def read_assets(model: Model) -> Sequence[Asset]:
    """A model's assets, each asset before its companions.

    A key that occurs twice counts once, as all readers of metadata take the first.
    """
    blobs: dict[str, Blob] = {}
    for entry in model.metadata:
        if entry.name.startswith(ASSET_KEY_PREFIX):
            name = entry.name[len(ASSET_KEY_PREFIX) :]
            blobs.setdefault(name, entry.buffer.blob or Blob(b""))
    return name_assets(blobs)


def name_assets(blobs: Mapping[str, Blob]) -> Sequence[Asset]:
    """Assets and companions by their names, each asset before its companions.

    A name with a slash is a companion where the part before one of its slashes is an asset's name, and an op's
    own name elsewhere.
    """
    owners = {name: _owner(name, blobs) for name in blobs}
    place = {name: index for index, name in enumerate(blobs)}
    ordered = sorted(blobs, key=lambda name: (place[owners[name]], name != owners[name]))
    return [Asset(owners[n], n[len(owners[n]) + 1 :], blobs[n]) for n in ordered]


def _owner(name: str, names: Mapping[str, Blob]) -> str:
    """The op that an asset's name belongs to: its shortest leading part that is an asset."""
    starts = (name[:place] for place, letter in enumerate(name) if letter == "/")
    return next((start for start in starts if start in names), name)


def _describe(asset: Asset) -> str:
    if asset.companion_path:
        return f"companion '{asset.companion_path}' of op '{asset.op_name}'"
    return f"the asset of op '{asset.op_name}'"
