"""The user's asset files: opened, handed to the plugin for their companions, and embedded in a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from compiler_plugin.vendor_plugin import VendorPlugin
from litert.core.compiler_options import CustomOpInfo
from litert.core.errors import LiteRtError
from litert.model.assets import Asset, check_op_name, set_assets
from litert.model.blob import MappedFile
from litert.model.graph import Model


@contextmanager
def open_assets(infos: Sequence[CustomOpInfo]) -> Iterator[Mapping[str, MappedFile]]:
    """Opens and maps each asset, so that a file that is missing or unreadable is known first.

    Yields:
      The files by op.

    Raises:
      LiteRtError: NOT_FOUND or FILE_IO, naming op and file; INVALID_TOOL_CONFIG, for a bad name.
    """
    with ExitStack() as stack:
        files: dict[str, MappedFile] = {}
        for info in infos:
            check_op_name(info.op_name)
            try:
                files[info.op_name] = stack.enter_context(MappedFile(info.asset_path))
            except LiteRtError as error:
                raise LiteRtError(
                    error.status,
                    f"asset of op '{info.op_name}': {error.what}",
                    error.where,
                    "Check the path after the comma of --npu_custom_op_info.",
                ) from error
        yield files


def embed_assets(
    model: Model,
    plugin: VendorPlugin,
    infos: Sequence[CustomOpInfo],
    files: Mapping[str, MappedFile],
) -> list[Asset]:
    """Puts the assets and the companions that they name into a model.

    Returns:
      Each asset before its companions, in the order of the flags. Bytes stay where they are: they are copied
      when the model is written.
    """
    assets: list[Asset] = []
    for info in infos:
        blob = files[info.op_name].blob()
        assets.append(Asset(info.op_name, "", blob))
        for companion in plugin.companions(info.op_name, info.asset_path, blob.view):
            assets.append(Asset(info.op_name, companion.relative_path, companion.blob))
    set_assets(model, assets)
    return assets


def companion_paths(infos: Sequence[CustomOpInfo], assets: Sequence[Asset]) -> list[str]:
    """Where the companions among assets lie: in their asset's folder, or in that of the file it is a link to."""
    asset_paths = {info.op_name: info.asset_path for info in infos}
    return [
        os.path.join(os.path.dirname(path), asset.companion_path)
        for asset in assets
        if asset.companion_path
        for path in (asset_paths[asset.op_name], os.path.realpath(asset_paths[asset.op_name]))
    ]
