"""Assets in a model: the user's file for each custom op, and the companion files that an asset names.

The metadata hold each file byte for byte: `litert_npu_asset_<op>` holds an op's asset (the custom
op assets guide, section 2), and `litert_npu_asset_<op>/<relative path>` holds a companion of the
asset.
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
    """An asset or companion file in a model.

    Attributes:
      op_name: Custom code of the ops that the asset implements.
      companion_path: Path of the companion relative to the asset's directory, with `/`; "" for the
        asset itself.
      blob: Bytes of the file.
    """

    op_name: str
    companion_path: str
    blob: Blob

    @property
    def name(self) -> str:
        """The name that `register_asset` of the dispatch table gets: `<op>`, or `<op>/<relative path>`."""
        return f"{self.op_name}/{self.companion_path}" if self.companion_path else self.op_name


def check_op_name(op_name: str) -> None:
    """Raises INVALID_TOOL_CONFIG if a custom op's name cannot be a part of a metadata key."""
    if not op_name or "\0" in op_name:
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"{op_name!r} is not a valid name of a custom op",
            hint="Give the op's custom code; `litert-npu inspect` lists the custom codes of a model.",
        )


def check_companion_path(path: str, where: str = "") -> None:
    """Checks that a companion lies in or below the asset's directory, and that its path is in the normal form.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for an absolute path, a path with `..`, `.` or an empty part, a
        backslash or a zero byte, or a Windows drive.
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
    """Stores assets in a model, in this order; they replace all assets of the model.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG or INVALID_ARGUMENT, for an invalid name or path;
        ALREADY_EXISTS, if two assets have the same key, such as companion `b` of op `a` and the
        asset of an op named `a/b`.
    """
    seen: dict[str, Asset] = {}
    for asset in assets:
        check_op_name(asset.op_name)
        if asset.companion_path:
            check_companion_path(asset.companion_path, f"the asset of op '{asset.op_name}'")
        other = seen.setdefault(asset.name, asset)
        if other is not asset:
            raise LiteRtError(
                Status.ALREADY_EXISTS,
                f"{_describe(other)} and {_describe(asset)} have the same name '{asset.name}'",
                hint="Rename the companion's file or folder.",
            )
    if any(entry.name.startswith(ASSET_KEY_PREFIX) for entry in model.metadata):
        model.metadata = [e for e in model.metadata if not e.name.startswith(ASSET_KEY_PREFIX)]
    for asset in assets:
        model.set_metadata(ASSET_KEY_PREFIX + asset.name, asset.blob)


def read_assets(model: Model) -> Sequence[Asset]:
    """Returns a model's assets; each asset comes before its companions.

    If a key occurs twice, the first entry counts, as for all readers of metadata.
    """
    blobs: dict[str, Blob] = {}
    for entry in model.metadata:
        if entry.name.startswith(ASSET_KEY_PREFIX):
            name = entry.name[len(ASSET_KEY_PREFIX) :]
            blobs.setdefault(name, entry.buffer.blob or Blob(b""))
    return name_assets(blobs)


def name_assets(blobs: Mapping[str, Blob]) -> Sequence[Asset]:
    """Returns assets and companions from files by name; each asset comes before its companions.

    A name with a slash names a companion of an asset if the part before one of its slashes is that asset's name;
    otherwise, the whole name is an op's name.
    """
    owners = {name: _owner(name, blobs) for name in blobs}
    place = {name: index for index, name in enumerate(blobs)}
    ordered = sorted(blobs, key=lambda name: (place[owners[name]], name != owners[name]))
    return [Asset(owners[n], n[len(owners[n]) + 1 :], blobs[n]) for n in ordered]


def _owner(name: str, names: Mapping[str, Blob]) -> str:
    """Returns the op that an asset's name belongs to: the shortest leading part of the name that is an asset."""
    starts = (name[:place] for place, letter in enumerate(name) if letter == "/")
    return next((start for start in starts if start in names), name)


def _describe(asset: Asset) -> str:
    if asset.companion_path:
        return f"companion '{asset.companion_path}' of op '{asset.op_name}'"
    return f"the asset of op '{asset.op_name}'"
