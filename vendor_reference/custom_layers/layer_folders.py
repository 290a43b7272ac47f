"""Finds the layers for the ops of any model in description files, or in folders with description files."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from litert.core.compiler_options import CUSTOM_LAYERS_VARIABLE
from litert.core.errors import LiteRtError
from litert.core.quoting import shell_word
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

_KINDS = (
    "Only files with the suffixes {} name the ops that they implement. Assign a file with another suffix to an op "
    "with --npu_custom_op_info=op,path."
)


@dataclass(frozen=True, slots=True)
class FoundLayer:
    """A layer and the path of the file that describes the layer."""

    path: str
    layer: CustomLayer


def find_layers(
    paths: Sequence[str],
    op_names: Collection[str],
    asset_root: str,
    allow_native_assets: bool,
    notes: list[str],
) -> Mapping[str, FoundLayer]:
    """Finds the layers for ops with the given names.

    Args:
      paths: Paths of descriptions, and of folders with descriptions (without subfolders).
      op_names: Names of the ops in the model.
      asset_root: See `read_layer`.
      allow_native_assets: Whether machine code may run, which is necessary to list the layers of a library. If it
        may not run, libraries in folders are skipped, and a note is added for each of them.
      notes: List to which a note is added for each layer whose name differs from an op's name only in upper and
        lower case.

    Returns:
      The layers that were found, by op name; op names must match exactly.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if two files have a layer for the same op, or if a library's machine code
        is not allowed. NOT_FOUND or FILE_IO, for a wrong path. Other statuses, if a description has an error, even
        if the model has none of the described ops.
    """
    found: dict[str, FoundLayer] = {}
    capitals = {name.lower(): name for name in op_names}
    for path in _descriptions(paths):
        reader = find_reader(path)
        assert isinstance(reader, DescriptionReader)  # by the file's suffix
        if reader.runs_to_tell:
            if path not in paths and not allow_native_assets:
                notes.append(
                    f"{path} is ignored, because it is machine code, which may run only with "
                    "--allow_native_assets."
                )
                continue
            check_allowed(allow_native_assets, path)
        with MappedFile(path) as file:
            names = reader.layer_names(AssetFiles(path, asset_root), file.view)
            for name in names:
                if name not in op_names:
                    if near := capitals.get(name.lower()):
                        notes.append(
                            f"{path}: layer '{name}' is not used for op '{near}', because upper and lower "
                            "case must match."
                        )
                    continue
                if name in found:
                    info = shell_word(f"{name},{path}")
                    raise LiteRtError(
                        Status.INVALID_TOOL_CONFIG,
                        f"two files contain a layer for op '{name}': {found[name].path} and {path}",
                        hint=f"Remove one layer, or choose one, as in --npu_custom_op_info={info}.",
                    )
                found[name] = FoundLayer(path, read_layer(name, path, file.view, asset_root))
    return found


def _descriptions(paths: Sequence[str]) -> Sequence[str]:
    """Lists the files of the paths, each once; files of a folder are sorted by name."""
    kinds = _KINDS.format(", ".join(description_suffixes()))
    files: dict[str, str] = {}
    for path in paths:
        found = [path]
        if os.path.isdir(path):
            entries = [os.path.join(path, name) for name in sorted(os.listdir(path))]
            found = [e for e in entries if _is_description(e) and not os.path.isdir(e)]
            if not found:
                what = "the folder contains no layer descriptions"
                raise LiteRtError(Status.NOT_FOUND, what, path, kinds)
        for file in found:
            if not os.path.exists(file):
                hint = f"Check the paths of --custom_layers and {CUSTOM_LAYERS_VARIABLE}."
                raise LiteRtError(Status.NOT_FOUND, "no such file or folder", file, hint)
            if not _is_description(file):
                what = "--custom_layers cannot use this file, because the file does not name an op"
                raise LiteRtError(Status.INVALID_TOOL_CONFIG, what, file, kinds)
            files.setdefault(os.path.realpath(file), file)
    return list(files.values())


def _is_description(path: str) -> bool:
    return isinstance(find_reader(path), DescriptionReader)
