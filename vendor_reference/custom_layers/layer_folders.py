"""Layers for any model: files of descriptions, and folders of them; those are taken whose op a model has."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from litert.core.compiler_options import CUSTOM_LAYERS_VARIABLE
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import MappedFile
from vendor_reference.cpu_layer.asking import check_allowed
from vendor_reference.custom_layers.asset_reader import (
    DescriptionReader,
    description_suffixes,
    find_reader,
    read_layer,
)
from vendor_reference.custom_layers.companion_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import CustomLayer

_KINDS = "Layers for any model are {}; give others to their op with --npu_custom_op_info=op,path."


@dataclass(frozen=True, slots=True)
class FoundLayer:
    """A layer, and the file that describes it."""

    path: str
    layer: CustomLayer


def find_layers(
    paths: Sequence[str],
    op_names: Collection[str],
    asset_root: str,
    allow_native_assets: bool,
    notes: list[str],
) -> Mapping[str, FoundLayer]:
    """The layers for ops of those names.

    Args:
      paths: of descriptions, and of folders whose descriptions all count, but not those of folders in them.
      op_names: of a model's ops.
      asset_root: see `read_layer`.
      allow_native_assets: whether machine code may run, which libraries need to name their layers. Without it, one
        in a folder is left out, with a note.
      notes: get a sentence for each layer whose name is an op's but for capitals.

    Returns:
      A layer for each op that has one: a description's layer is for the ops of exactly its name.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, where two files have a layer for one of the ops, and for a library that may
        not run; NOT_FOUND or FILE_IO, for a path that leads nowhere; those of reading, for any description, also
        one whose op is not there.
    """
    found: dict[str, FoundLayer] = {}
    capitals = {name.lower(): name for name in op_names}
    for path in _descriptions(paths):
        reader = find_reader(path)
        assert isinstance(reader, DescriptionReader)  # its suffix says so
        if reader.runs_to_tell:
            if path not in paths and not allow_native_assets:
                notes.append(f"{path} is left out: machine code needs --allow_native_assets.")
                continue
            check_allowed(allow_native_assets, path)
        with MappedFile(path) as file:
            names = reader.layer_names(AssetFiles(path, asset_root), file.view)
            for name in names:
                if name not in op_names:
                    if near := capitals.get(name.lower()):
                        notes.append(f"{path}: layer '{name}' is not for {near}: names are exact.")
                    continue
                if name in found:
                    raise LiteRtError(
                        Status.INVALID_TOOL_CONFIG,
                        f"two layers for op '{name}': in {found[name].path} and in {path}",
                        hint=f"Take one away, or choose with --npu_custom_op_info={name},path.",
                    )
                found[name] = FoundLayer(path, read_layer(name, path, file.view, asset_root))
    return found


def _descriptions(paths: Sequence[str]) -> Sequence[str]:
    """The files that paths mean, each once; those of a folder sorted by name."""
    kinds = _KINDS.format(", ".join(description_suffixes()))
    files: dict[str, str] = {}
    for path in paths:
        found = [path]
        if os.path.isdir(path):
            entries = [os.path.join(path, name) for name in sorted(os.listdir(path))]
            found = [e for e in entries if _is_description(e) and not os.path.isdir(e)]
            if not found:
                what = "no layer descriptions in the folder"
                raise LiteRtError(Status.NOT_FOUND, what, path, kinds)
        for file in found:
            if not os.path.exists(file):
                hint = f"Check the paths of --custom_layers and {CUSTOM_LAYERS_VARIABLE}."
                raise LiteRtError(Status.NOT_FOUND, "no such file or folder", file, hint)
            if not _is_description(file):
                what = "a file that does not name the op that it is for"
                raise LiteRtError(Status.INVALID_TOOL_CONFIG, what, file, kinds)
            files.setdefault(os.path.realpath(file), file)
    return list(files.values())


def _is_description(path: str) -> bool:
    return isinstance(find_reader(path), DescriptionReader)
