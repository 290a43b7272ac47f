"""The Python API of `apply_plugin`: compiles a model with a vendor's plugin, and writes the compiled file.

The steps are: read, transform, partition, compile, replace, embed, write. The input file never changes. The output
file is replaced only when the new file is complete.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.asset_files import (
    check_native_assets,
    companion_paths,
    find_custom_layers,
    open_assets,
    read_assets,
)
from compiler_plugin.checks import (
    check_ir_flags,
    check_output,
    check_required,
    check_runnable,
    check_shape_bounds,
    read_uncompiled,
    write_output,
)
from compiler_plugin.compiling import (
    Compilation,
    CompiledPartition,
    Prepare,
    compile_partitions,
    report_calls,
)
from compiler_plugin.leftovers import drop_subgraphs
from compiler_plugin.outline import add_shape_outputs, check_function_names, replace_partitions
from compiler_plugin.plan import SubgraphPlan, plan_model, report_plans, unused_decompositions
from compiler_plugin.registry import (
    RegisteredPlugin,
    choose_soc_model,
    load_plugin,
)
from compiler_plugin.report import NO_OUTPUTS, Report, TransformationReport, report_assets
from compiler_plugin.transforming import prepare_partitions, transform_model
from compiler_plugin.vendor_plugin import VendorPlugin
from litert.core.compiler_options import (
    CUSTOM_LAYERS_VARIABLE,
    DEFAULT_MANUFACTURER,
    CustomOpInfo,
)
from litert.core.environment_options import EnvironmentOptions
from litert.core.input_file import common_permissions
from litert.core.option import Goes, given_flags, holds_path
from litert.core.progress import Progress, listening
from litert.core.tracing import SpanKind, measured, span
from litert.host.file_seal import user_seal
from litert.model.assets import set_assets
from litert.model.blob import Blob
from litert.model.expected_time import set_expected_times
from litert.model.graph import Appended, Model, Op
from litert.model.manifest import Digest, Manifest, ShapeOutput, set_manifest
from litert.model.memory_plan import set_memory
from litert.model.stamp import Stamp, set_stamp

if TYPE_CHECKING:
    from compiler_plugin.transformations.running import Transformations

__all__ = ["ApplyOptions", "apply_in_memory", "apply_plugin"]

Watch = Callable[[Model, Report], None]
"""Function that gets a model and its report before NPU calls replace the ops."""

_LAYER_HINT = f"The asset comes from --custom_layers or from {CUSTOM_LAYERS_VARIABLE}; check the layer's file."
_logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class CommandRun:
    """A model that a command is about to compile, with the vendor's plugin and the report.

    Attributes:
      model: Model after the user's transformations.
      plugin: Plugin object for this model.
      report: The command's report, which the command completes.
      layers: Assets for the model's ops, from layer libraries (`--custom_layers`).
      prepare: Function that changes partitions before the plugin compiles them.
    """

    model: Model
    plugin: VendorPlugin
    report: Report
    layers: Sequence[CustomOpInfo]
    prepare: Prepare
    _transformations: Transformations | None
    _by_vendor: Sequence[TransformationReport]

    def report_transformations(self) -> None:
        """Adds the transformations to the report, including the changes that they made to partitions."""
        own = self._transformations.reports() if self._transformations else ()
        self.report.transformations = [*own, *self._by_vendor]


@common_permissions()
def apply_plugin(
    model_path: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    options: ApplyOptions | None = None,
    progress: Progress | None = None,
    watch: Watch = lambda model, report: None,
) -> Report:
    """Compiles a model for an NPU: NPU calls replace the ops that the plugin selects, and assets are embedded.

    Args:
      model_path: Path of a TFLite model that is not compiled.
      output_path: Path of the compiled file; "" to write no file. The compiled file must not replace a file that
        the compilation reads.
      options: Options for compiling the model; None means the default options.
      progress: Function that is called with the progress of the compilation. None means the function of the
        enclosing block `with litert.core.progress.listening(...)`; without such a block, no function is called.
      watch: Function that is called before NPU calls replace the model's ops. The function gets the model, and a
        report with the positions of these ops.

    Returns:
      The report, which says whether each op runs on the NPU or the CPU, and contains notes and warnings.

    Raises:
      LiteRtError: The error of the step that fails; no output file is then written.
    """
    target = os.fspath(output_path)
    with ExitStack() as stack:
        if progress is not None:
            stack.enter_context(listening(progress))
        applied = apply_in_memory(os.fspath(model_path), options, target, watch)
        model, report = stack.enter_context(applied)
        seal = user_seal(report.warnings.append)
        write_output(
            model,
            target,
            report,
            seal=seal,
            digest_weights=bool(options and options.digest_weights),
        )
    _logger.info("compiled %s in %.2f s", report.model_path, report.seconds)
    return report


@contextmanager
def apply_in_memory(
    source: str | bytes,
    options: ApplyOptions | None = None,
    target: str = "",
    watch: Watch = lambda model, report: None,
    registered: RegisteredPlugin | None = None,
) -> Iterator[tuple[Model, Report]]:
    """Compiles a model, given by path or as bytes, without writing a file.

    If the caller will write the model to a file, `target` is the path of this file; the function first checks that
    the file can be written. `registered` is the vendor's plugin, if the caller has already loaded it.

    Yields:
      The compiled model, ready to write, and the report without the path and size of an output file. The files
      that contain the model's data stay open until the end of the `with` block.
    """
    options = options or ApplyOptions()
    by_flag, limit = options.compiler.custom_op_infos, options.compiler.max_partitions
    with ExitStack() as stack:
        files = dict(stack.enter_context(open_assets(by_flag)))
        run = stack.enter_context(start_run("apply", source, target, options, registered))
        model, plugin, report = run.model, run.plugin, run.report
        infos = [*by_flag, *run.layers]
        check_output(target, [info.asset_path for info in run.layers])
        files.update(stack.enter_context(open_assets(run.layers, _LAYER_HINT)))
        assets = read_assets(plugin, infos, files)
        set_assets(model, assets)
        check_output(target, companion_paths(infos, assets, options.compiler.asset_root))
        plans = plan_model(model, plugin, options.subgraphs, limit)
        if not any(plan.partitions for plan in plans):
            check_ir_flags(options.compiler, report)
        compilation = compile_partitions(plugin, plans, limit, run.prepare)
        plugin.close()
        run.report_transformations()
        unused = unused_decompositions(model, plans)
        report_plans(report, plans, unused)
        check_required(report, options.require_npu)
        watch(model, report)
        modules, shape_outputs = _put_calls(model, plans, compilation, plugin.vendor)
        drop_subgraphs(model, unused)
        check_runnable(report, model, is_required=options.require_runnable)
        report_calls(report, plans, compilation, modules)
        native_assets = check_native_assets(compilation.native_assets, assets, plugin.vendor)
        report_assets(report, assets, infos, native_assets)
        set_stamp(model, Stamp(plugin.vendor, plugin.soc_model))
        manifest = Manifest(
            plugin.vendor,
            plugin.soc_model,
            report.plugin_sdk_version,
            _flags(options),
            {asset.name: Digest.of(asset.blob) for asset in assets},
            [Digest.of(module) for module in modules],
            shape_outputs,
            sorted(native_assets),
            has_digest=True,
        )
        set_manifest(model, manifest)
        set_memory(model, report.memory)
        set_expected_times(model, report.expected_times)
        yield model, report


@contextmanager
def start_run(
    cmd: str,
    source: str | bytes,
    target: str,
    options: ApplyOptions,
    registered: RegisteredPlugin | None = None,
    look: Callable[[Model], None] = lambda model: None,
) -> Iterator[CommandRun]:
    """Reads and transforms a command's model, and loads the plugin; the report gets the `with` block's duration.

    Args:
      cmd: Name of the command.
      source: Path of the model, or the model's bytes.
      target: Path of the file that the command will write; "" for no output file.
      options: Options, which include the name of the vendor.
      registered: Plugin of the vendor, if the caller has already loaded it.
      look: Function that gets the model as read from the file, before any changes.
    """
    start = time.perf_counter()
    where, files = (source, [source]) if isinstance(source, str) else ("model from a buffer", [])
    check_output(target, [*files, *options.asset_paths])
    with span(SpanKind.COMPILE, where, command=cmd), ExitStack() as stack:
        # Read the model now, while the plugin's process starts.
        model = stack.enter_context(read_uncompiled(source))
        look(model)
        registered = registered or load_chosen_plugin(options)
        soc_model = choose_soc_model(registered, options.soc_model)
        report = _new_report(cmd, where, options, registered, soc_model)
        folder = options.libs[0] if options.libs else ""
        environment = EnvironmentOptions(compiler_plugin_path=folder)
        plugin = stack.enter_context(
            VendorPlugin(registered, soc_model, environment, options.compiler, report.warnings)
        )
        report.warnings += model.warnings
        if model.subgraphs[0].ops and not model.subgraphs[0].outputs:
            report.warnings.append(NO_OUTPUTS)
        transformations = transform_model(model, options.transform, report)
        by_vendor = plugin.transform(model)
        check_shape_bounds(model, options.compiler.shape_bounds)
        layers = find_custom_layers(plugin, options.compiler, model, report)
        prepare = prepare_partitions(plugin.data_layout, options.transform, transformations)
        yield CommandRun(model, plugin, report, layers, prepare, transformations, by_vendor)
    report.seconds = time.perf_counter() - start


@measured(SpanKind.STEP, "load plugin")
def load_chosen_plugin(options: ApplyOptions) -> RegisteredPlugin:
    """Loads the plugin of the vendor given in the options.

    Raises:
      LiteRtError: Any error of `load_plugin`.
    """
    manufacturer = options.soc_manufacturer or DEFAULT_MANUFACTURER
    return load_plugin(manufacturer, options.libs, options.hosting)


def _new_report(
    cmd: str, source: str, options: ApplyOptions, registered: RegisteredPlugin, soc_model: str
) -> Report:
    """Creates the report with the vendor, the SoC model and the plugin."""
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


@measured(SpanKind.STEP, "put calls")
def _put_calls(
    model: Model, plans: Sequence[SubgraphPlan], compilation: Compilation, vendor: str
) -> tuple[list[Blob], list[ShapeOutput]]:
    """Replaces the compiled partitions, and appends their byte code to the model.

    Returns:
      The byte code modules, in the order in which the model's ops first use them; and the shape outputs of all
      calls.
    """
    compiled: dict[Op, CompiledPartition] = {}
    functions: list[tuple[str, list[ShapeOutput]]] = []
    replaced = replace_partitions(model, [(plan.dependencies, plan.partitions) for plan in plans])
    for plan, ops in zip(plans, replaced, strict=True):
        for partition, op in zip(plan.partitions, ops, strict=True):
            compiled[op] = compilation.partitions[partition]
            call = compiled[op].call
            added = add_shape_outputs(model, plan.subgraph, op, call.name, call.shape_outputs)
            functions.append((call.name, added))
    check_function_names(functions, f"vendor '{vendor}', in compile")
    modules: dict[int, Appended] = {}
    for op in model.ops():
        if op in compiled:
            module = compiled[op].module
            appended = modules.setdefault(id(module), Appended(module, []))
            appended.users.append((op, compiled[op].call.name))
    model.byte_code += modules.values()
    shape_outputs = [output for added in dict(functions).values() for output in added]
    return [appended.blob for appended in modules.values()], shape_outputs


def _flags(options: ApplyOptions) -> dict[str, str]:
    """Returns the flags for the manifest that differ from their defaults, without flags that contain paths."""
    flags = {name: ",".join(texts) for name, texts in given_flags(options, Goes.MANIFEST)}
    vendor = options.compiler.vendor_options.items()
    return flags | {name: text for name, text in vendor if text and not holds_path(text)}
