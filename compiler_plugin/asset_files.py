"""Finds and opens the user's asset files, asks the plugin for their companion files, and embeds all of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from litert.core.compiler_options import (
    CUSTOM_LAYERS_VARIABLE,
    CompilerOptions,
    CustomOpInfo,
    environment_layers,
)
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.quoting import name_text
from litert.core.status import Status
from litert.core.tracing import SpanKind, measured
from litert.model.assets import Asset, check_op_name
from litert.model.blob import MappedFile
from litert.model.graph import Model

if TYPE_CHECKING:
    from compiler_plugin.report import Report
    from compiler_plugin.vendor_plugin import VendorPlugin


@contextmanager
def open_assets(
    infos: Sequence[CustomOpInfo],
    hint: str = "Check the path after the comma of --npu_custom_op_info.",
) -> Iterator[Mapping[str, MappedFile]]:
    """Opens and maps the asset file of each op. As this is the first step, a missing file is reported at once.

    Raises:
      LiteRtError: NOT_FOUND or FILE_IO, if a file cannot be read; INVALID_TOOL_CONFIG, if an op name is invalid.
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
                    f"cannot read the asset file of op '{name_text(info.op_name)}': {error.what}",
                    error.where,
                    hint,
                ) from error
        yield files


@measured(SpanKind.STEP, "read assets")
def read_assets(
    plugin: VendorPlugin, infos: Sequence[CustomOpInfo], files: Mapping[str, MappedFile]
) -> list[Asset]:
    """Returns the assets in the order of the flags; the companion files of an asset follow the asset."""
    assets: list[Asset] = []
    for info in infos:
        blob = files[info.op_name].blob()
        assets.append(Asset(info.op_name, "", blob))
        for companion in plugin.companions(info.op_name, info.asset_path, blob.view):
            assets.append(Asset(info.op_name, companion.relative_path, companion.blob))
    return assets


def companion_paths(
    infos: Sequence[CustomOpInfo], assets: Sequence[Asset], asset_root: str = ""
) -> list[str]:
    """Returns all paths at which the companion files of the assets may be.

    A companion file may be in the asset's folder or in the asset root; if the asset is a symbolic link, it may
    also be in the folder of the link's target.
    """
    folders = {
        info.op_name: {
            os.path.dirname(info.asset_path),
            os.path.dirname(os.path.realpath(info.asset_path)),
            *([asset_root] if asset_root else ()),
        }
        for info in infos
    }
    return [
        os.path.join(folder, asset.companion_path)
        for asset in assets
        if asset.companion_path
        for folder in folders[asset.op_name]
    ]


def find_custom_layers(
    plugin: VendorPlugin, options: CompilerOptions, model: Model, report: Report
) -> Sequence[CustomOpInfo]:
    """Returns assets from layer libraries, for the ops of the model that have no asset from a flag.

    The plugin uses these assets from now on. If the libraries in `--custom_layers` contain no layer for any op of
    the model, the report gets a warning.
    """
    by_flag = {info.op_name for info in options.custom_op_infos}
    found = layers_for_any_model(plugin, options, {op.name for op in model.ops()} - by_flag)
    if options.custom_layers and not found:
        report.warnings.append(
            "--custom_layers has no layer for any op of the model; files that do not name their op, such as .cl "
            "files, are not used"
        )
    return found


def layers_for_any_model(
    plugin: VendorPlugin, options: CompilerOptions, op_names: Collection[str]
) -> Sequence[CustomOpInfo]:
    """Returns assets for some ops: from the layers in the options or, if these lack an op, from the environment.

    Raises:
      LiteRtError: Any error of the plugin; if the layers come from the environment, the error contains the
        variable's name.
    """
    found: list[CustomOpInfo] = []
    if options.custom_layers:
        found += plugin.custom_layers(options.custom_layers, sorted(op_names))
    if layers := environment_layers():
        names = sorted(set(op_names) - {info.op_name for info in found})
        try:
            found += plugin.custom_layers(layers, names)
        except LiteRtError as error:
            if error.status is not Status.UNSUPPORTED:  # the vendor has no layers for any model
                where = "; ".join(filter(None, [error.where, f"variable {CUSTOM_LAYERS_VARIABLE}"]))
                raise LiteRtError(error.status, error.what, where, error.hint) from error
    return found


def check_native_assets(
    names: Collection[str], assets: Sequence[Asset], vendor: str
) -> Collection[str]:
    """Checks that each name belongs to an embedded asset, and returns the names.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if no asset has a name that the vendor returned.
    """
    unknown = sorted(set(names) - {asset.name for asset in assets})
    if unknown:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"native_assets of the CompiledResult contains '{unknown[0]:.100}', but the model has no asset with "
            "this name",
            f"vendor '{vendor}', in compile",
            VENDOR_REPAIRS,
        )
    return names
