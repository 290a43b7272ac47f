"""From a model and a plugin to a compiled file: the Python API of `apply_plugin`.

Read, transform, partition, compile, replace, embed, write. Until the file is written the input and what was at the
output's place are untouched, and the file appears when it is complete.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.asset_files import companion_paths, embed_assets, open_assets
from compiler_plugin.checks import (
    check_native_assets,
    check_output,
    check_required,
    read_uncompiled,
)
from compiler_plugin.compiling import Compilation, CompiledPartition, compile_partitions
from compiler_plugin.custom_layers import find_custom_layers
from compiler_plugin.leftovers import drop_subgraphs
from compiler_plugin.outline import replace_partitions
from compiler_plugin.plan import SubgraphPlan, plan_model, unused_decompositions
from compiler_plugin.registry import (
    DEFAULT_MANUFACTURER,
    RegisteredPlugin,
    choose_soc_model,
    load_plugin,
)
from compiler_plugin.report import Report
from compiler_plugin.reporting import report_assets, report_calls, report_plans
from compiler_plugin.shape_bounds import check_shape_bounds
from compiler_plugin.shape_outputs import add_shape_outputs, check_function_names
from compiler_plugin.transforming import prepare_partitions, transform_model
from compiler_plugin.vendor_plugin import VendorPlugin
from litert.core.environment_options import EnvironmentOptions
from litert.core.option import Goes, given_flags
from litert.model.assets import Asset
from litert.model.blob import Blob
from litert.model.graph import Appended, Model, Op
from litert.model.manifest import Digest, Manifest, ShapeOutput, set_manifest
from litert.model.stamp import Stamp, set_stamp
from litert.model.writer import write_model

__all__ = ["ApplyOptions", "apply_in_memory", "apply_plugin"]

Progress = Callable[[str, int, int], None]
"""Told the step (`compile`, `write`), how much of it is done, and how much there is."""

_logger = logging.getLogger(__name__)


def apply_plugin(
    model_path: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    options: ApplyOptions | None = None,
    progress: Progress | None = None,
) -> Report:
    """Compiles a model for an NPU: the ops that its vendor takes become calls, with their assets embedded.

    Args:
      model_path: a TFLite model that is not compiled.
      output_path: of the compiled file, another than any input; "" to write none.
      options: where they differ from the defaults.
      progress: told how far it is.

    Returns:
      Where each op went, and all else that there is to say.

    Raises:
      LiteRtError: with nothing written.
    """
    start = time.perf_counter()
    tell = progress or no_progress
    target = os.fspath(output_path)
    with apply_in_memory(os.fspath(model_path), options, tell, target) as (model, report):
        if target:
            written = write_model(
                model, target, progress=lambda done, total: tell("write", done, total)
            )
            report.output_path, report.output_size = written.path, written.size
    report.seconds = time.perf_counter() - start
    _logger.info("compiled %s in %.2f s", report.model_path, report.seconds)
    return report


@contextmanager
def apply_in_memory(
    source: str | bytes,
    options: ApplyOptions | None = None,
    progress: Progress | None = None,
    target: str = "",
) -> Iterator[tuple[Model, Report]]:
    """Does all of `apply_plugin` but the writing.

    Args:
      source: path of the model, or its bytes.
      options: as `apply_plugin`.
      progress: as `apply_plugin`.
      target: where it will be written to, so that this is known to be possible before any work is done.

    Yields:
      The compiled model, to be written, and the report, without what writing adds. They hold files that are open
      until the end of the block.

    Raises:
      LiteRtError: as `apply_plugin`.
    """
    options = options or ApplyOptions()
    tell = progress or no_progress
    where = source if isinstance(source, str) else "model from a buffer"
    by_flag = options.compiler.custom_op_infos
    files_given = [source] if isinstance(source, str) else []
    check_output(target, [*files_given, *options.asset_paths])
    with ExitStack() as stack:
        files = dict(stack.enter_context(open_assets(by_flag)))
        # Now, while a plugin's process still starts.
        model = stack.enter_context(read_uncompiled(source))
        registered, soc_model = choose_plugin(options)
        report = new_report("apply", where, options, registered, soc_model)
        plugin = stack.enter_context(create_plugin(registered, options, report))
        report.warnings += model.warnings
        transformations = transform_model(model, options.transform, report)
        by_vendor = plugin.transform(model)
        check_shape_bounds(model, options.compiler.shape_bounds)
        found = find_custom_layers(plugin, options.compiler, model, report)
        infos = [*by_flag, *found]
        check_output(target, [info.asset_path for info in found])
        files.update(stack.enter_context(open_assets(found, "It is a layer of --custom_layers.")))
        assets = embed_assets(model, plugin, infos, files)
        check_output(target, companion_paths(infos, assets, options.compiler.asset_root))
        limit = options.compiler.max_partitions
        plans = plan_model(model, plugin, options.subgraphs, limit)
        compilation = compile_partitions(
            plugin,
            plans,
            limit,
            lambda done, total: tell("compile", done, total),
            prepare_partitions(plugin.data_layout, options.transform, transformations),
        )
        plugin.close()
        report.transformations = [
            *(transformations.reports() if transformations else ()),
            *by_vendor,
        ]
        unused = unused_decompositions(model, plans)
        report_plans(report, plans, unused)
        check_required(report, options.require_npu)
        modules, shape_outputs = _put_calls(model, plans, compilation, plugin.vendor)
        drop_subgraphs(model, unused)
        report_calls(report, plans, compilation, modules)
        native_assets = check_native_assets(compilation.native_assets, assets, plugin.vendor)
        report_assets(report, assets, infos, native_assets)
        set_stamp(model, Stamp(plugin.vendor, soc_model))
        manifest = _manifest(
            plugin, registered, options, assets, modules, shape_outputs, native_assets
        )
        set_manifest(model, manifest)
        yield model, report


def no_progress(step: str, done: int, total: int) -> None:
    """Tells nobody."""


def choose_plugin(options: ApplyOptions) -> tuple[RegisteredPlugin, str]:
    """The plugin and SoC model that options name, or the defaults."""
    manufacturer = options.soc_manufacturer or DEFAULT_MANUFACTURER
    registered = load_plugin(manufacturer, options.libs, options.hosting)
    return registered, choose_soc_model(registered, options.soc_model)


def create_plugin(
    registered: RegisteredPlugin, options: ApplyOptions, report: Report
) -> VendorPlugin:
    """Creates the plugin for the report's SoC model; a context manager, whose warnings the report gets."""
    environment = EnvironmentOptions(compiler_plugin_path=options.libs[0] if options.libs else "")
    return VendorPlugin(
        registered, report.soc_model, environment, options.compiler, report.warnings
    )


def new_report(
    cmd: str, source: str, options: ApplyOptions, registered: RegisteredPlugin, soc_model: str
) -> Report:
    """A report that says for whom is compiled."""
    named = {"manufacturer": options.soc_manufacturer, "SoC model": options.soc_model}
    return Report(
        cmd,
        source,
        soc_manufacturer=registered.factory.soc_manufacturer,
        soc_model=soc_model,
        defaults=[what for what, name in named.items() if not name],
        plugin=registered.origin,
        plugin_sdk_version=registered.factory.sdk_version,
        warnings=list(registered.warnings),
    )


def _put_calls(
    model: Model, plans: Sequence[SubgraphPlan], compilation: Compilation, vendor: str
) -> tuple[list[Blob], list[ShapeOutput]]:
    """Replaces the compiled partitions, and appends their byte code to the model.

    Returns:
      The byte code modules, in the order in which the model's ops first name them; and the outputs of all calls
      that have others' shapes.
    """
    compiled: dict[Op, CompiledPartition] = {}
    functions: list[tuple[str, list[ShapeOutput]]] = []
    replaced = replace_partitions(model, [(plan.dependencies, plan.partitions) for plan in plans])
    for plan, calls in zip(plans, replaced, strict=True):
        for partition, call in zip(plan.partitions, calls, strict=True):
            compiled[call] = found = compilation.partitions[partition]
            name = found.function_name
            added = add_shape_outputs(model, plan.subgraph, call, name, found.shape_outputs)
            functions.append((name, added))
    check_function_names(functions, f"vendor '{vendor}', compile")
    modules: dict[int, Appended] = {}
    for op in model.ops():
        if op in compiled:
            module = compiled[op].module
            appended = modules.setdefault(id(module), Appended(module, []))
            appended.users.append((op, compiled[op].function_name))
    model.byte_code += modules.values()
    shape_outputs = [output for added in dict(functions).values() for output in added]
    return [appended.blob for appended in modules.values()], shape_outputs


def _manifest(
    plugin: VendorPlugin,
    registered: RegisteredPlugin,
    options: ApplyOptions,
    assets: Sequence[Asset],
    modules: Sequence[Blob],
    shape_outputs: Sequence[ShapeOutput],
    native_assets: Collection[str],
) -> Manifest:
    return Manifest(
        plugin.vendor,
        plugin.soc_model,
        registered.factory.sdk_version,
        _flags(options),
        {asset.name: Digest.of(asset.blob) for asset in assets},
        [Digest.of(module) for module in modules],
        shape_outputs,
        sorted(native_assets),
    )


def _flags(options: ApplyOptions) -> dict[str, str]:
    """The flags that shaped a file, where they differ from the defaults; none that holds a path."""
    flags = {name: ",".join(texts) for name, texts in given_flags(options, Goes.MANIFEST)}
    vendor = options.compiler.vendor_options.items()
    return flags | {name: text for name, text in vendor if text and not {"/", "\\"} & set(text)}
