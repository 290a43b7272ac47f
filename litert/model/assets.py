"""Stores assets in a model: the user's file for each custom op, and the companion files to which an asset refers.

The model's metadata hold an unchanged copy of each file. The key `litert_npu_asset_<op>` holds an op's asset (the
custom op assets guide, section 2), and the key `litert_npu_asset_<op>/<relative path>` holds a companion file of
the asset.
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
    """An asset or a companion file of an asset, stored in a model.

    Attributes:
      op_name: Custom code of the ops that the asset implements.
      companion_path: Path of the companion file relative to the asset's directory, with `/` as separator; "" for
        the asset itself.
      blob: Bytes of the file.
    """

    op_name: str
    companion_path: str
    blob: Blob

    @property
    def name(self) -> str:
        """The file's name for the dispatch table's `register_asset`: `<op>`, or `<op>/<relative path>`."""
        return f"{self.op_name}/{self.companion_path}" if self.companion_path else self.op_name


def check_op_name(op_name: str) -> None:
    """Raises INVALID_TOOL_CONFIG if a custom op's name cannot be part of a metadata key."""
    if not op_name or "\0" in op_name:
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"{op_name!r} is not a valid name of a custom op",
            hint="Give the op's custom code; `litert-npu inspect` lists the custom codes of a "
            "model.",
        )


def check_companion_path(path: str, where: str = "") -> None:
    """Checks that a companion file lies in or below the asset's directory, and that its path is normalized.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the path is absolute, has an empty part or a part `.` or `..`, or contains
        a backslash, a zero byte or a Windows drive.
    """
    parts = path.split("/")  # an absolute path has an empty first part
    if (
        any(part in ("", ".", "..") for part in parts)
        or any(character in path for character in "\\\0")
        or path[1:2] == ":"
    ):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the companion file's path {path!r} is not a plain relative path",
            where,
            "Put the companion file into the asset's folder or a folder below it, and separate "
            "folders by '/'.",
        )


def set_assets(model: Model, assets: Sequence[Asset]) -> None:
    """Stores assets in a model, in the given order; the new assets replace all old assets of the model.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for an invalid op name; INVALID_ARGUMENT, for an invalid path;
        ALREADY_EXISTS, if two files have the same metadata key, such as the companion file `b` of op `a` and the
        asset of an op named `a/b`.
    """
    seen: dict[str, Asset] = {}
    for asset in assets:
        check_op_name(asset.op_name)
        if asset.companion_path:
            check_companion_path(asset.companion_path, f"the asset of op '{asset.op_name}'")
        other = seen.setdefault(asset.name, asset)
        if other is not asset and not (other.companion_path or asset.companion_path):
            raise LiteRtError(
                Status.ALREADY_EXISTS,
                f"custom op '{asset.op_name}' was given two assets",
                hint="Give each op one asset.",
            )
        if other is not asset:
            raise LiteRtError(
                Status.ALREADY_EXISTS,
                f"{_describe(other)} and {_describe(asset)} have the same name '{asset.name}'",
                hint="Rename the companion file or its folder.",
            )
    if any(entry.name.startswith(ASSET_KEY_PREFIX) for entry in model.metadata):
        model.metadata = [e for e in model.metadata if not e.name.startswith(ASSET_KEY_PREFIX)]
    for asset in assets:
        model.set_metadata(ASSET_KEY_PREFIX + asset.name, asset.blob)


def read_assets(model: Model) -> Sequence[Asset]:
    """Returns a model's assets and companion files; each asset comes before its companion files.

    If a metadata key occurs twice, only the first entry with this key is read.
    """
    blobs: dict[str, Blob] = {}
    for entry in model.metadata:
        if entry.name.startswith(ASSET_KEY_PREFIX):
            name = entry.name[len(ASSET_KEY_PREFIX) :]
            blobs.setdefault(name, entry.buffer.blob or Blob(b""))
    return name_assets(blobs)


def name_assets(blobs: Mapping[str, Blob]) -> Sequence[Asset]:
    """Sorts files into assets and companion files by file name; each asset comes before its companion files.

    A file is a companion file if the part of its name before a slash is the name of another file, which is its
    asset. Any other file is the asset of the op that has the same name as the file.
    """
    owners = {name: _owner(name, blobs) for name in blobs}
    place = {name: index for index, name in enumerate(blobs)}
    ordered = sorted(blobs, key=lambda name: (place[owners[name]], name != owners[name]))
    return [Asset(owners[n], n[len(owners[n]) + 1 :], blobs[n]) for n in ordered]


def _owner(name: str, names: Mapping[str, Blob]) -> str:
    """Returns the name of a file's asset: the shortest leading part of the file name that names another file."""
    starts = (name[:place] for place, letter in enumerate(name) if letter == "/")
    return next((start for start in starts if start in names), name)


def _describe(asset: Asset) -> str:
    if asset.companion_path:
        return f"companion file '{asset.companion_path}' of op '{asset.op_name}'"
    return f"the asset of op '{asset.op_name}'"
