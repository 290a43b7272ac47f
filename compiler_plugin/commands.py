"""The commands `partition`, `compile`, `noop` and `info` of `apply_plugin`, which stock LiteRT has too."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.checks import check_output, check_required, check_runnable, write_output
from compiler_plugin.compiling import compile_copies
from compiler_plugin.composites import forget_decompositions
from compiler_plugin.graph_copy import CopiedData, copy_ops
from compiler_plugin.isolation.hosting import Hosting
from compiler_plugin.leftovers import drop_subgraphs
from compiler_plugin.outline import extract, replace_partitions
from compiler_plugin.pipeline import Watch, start_run
from compiler_plugin.plan import plan_model, report_plans, unused_decompositions
from compiler_plugin.registry import RegisteredPlugin, find_plugins, load_point
from compiler_plugin.report import CallReport, Report
from litert.core.errors import LiteRtError
from litert.core.input_file import common_permissions
from litert.model.file_digest import check_digest
from litert.model.output import write_plan
from litert.model.placement import Plan
from litert.model.positions import (
    read_control_dependencies,
    set_control_dependencies,
)
from litert.model.reader import read_model


@common_permissions()
def partition_model(
    model_path: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    options: ApplyOptions | None = None,
    watch: Watch = lambda model, report: None,
) -> Report:
    """Writes a partitioned model, in which each partition is a subgraph, and in which dispatch ops lack byte code.

    This function does not compile the partitions and does not embed assets.
    Arguments, result and errors are the same as those of `apply_plugin`.
    """
    options = options or ApplyOptions()
    source, target = os.fspath(model_path), os.fspath(output_path)
    with start_run("partition", source, target, options) as run:
        model, plugin, report = run.model, run.plugin, run.report
        plans = plan_model(model, plugin, options.subgraphs, options.compiler.max_partitions)
        plugin.close()
        unused = unused_decompositions(model, plans)
        report_plans(report, plans, unused)
        check_required(report, options.require_npu)
        watch(model, report)
        partitions = [partition for plan in plans for partition in plan.partitions]
        copies = extract(partitions, share_buffers=True)
        replace_partitions(model, [(plan.dependencies, plan.partitions) for plan in plans])
        drop_subgraphs(model, unused)
        check_runnable(report, model, is_required=options.require_runnable)
        for copy in copies:
            forget_decompositions(copy)
        edges = read_control_dependencies(model)
        model.subgraphs += copies
        set_control_dependencies(model, edges)
        report.calls = [
            CallReport.of(partition.name, plan.index, partition)
            for plan in plans
            for partition in plan.partitions
        ]
        run.report_transformations()
        write_output(model, target, report)
    return report


@common_permissions()
def compile_model(
    model_path: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    options: ApplyOptions | None = None,
) -> Report:
    """Lets the vendor's plugin compile whole subgraphs, without a partition step, and writes only the byte code.

    As in stock LiteRT, the output is the first byte code module. Arguments, result and errors are the same as
    those of `apply_plugin`.
    """
    options = options or ApplyOptions()
    source, target = os.fspath(model_path), os.fspath(output_path)
    with start_run("compile", source, target, options) as run:
        model, plugin, report = run.model, run.plugin, run.report
        data = CopiedData()
        copies = [
            copy_ops(f"Subgraph_{index}", subgraph.inputs, subgraph.ops, subgraph.outputs, data)
            for index, subgraph in enumerate(model.subgraphs)
        ]
        result = compile_copies(plugin, copies, run.prepare)
        plugin.close()
        run.report_transformations()
        report.calls = [
            CallReport.of(f"Subgraph_{index}", index, subgraph, call.name, call.byte_code_index)
            for index, (subgraph, call) in enumerate(
                zip(model.subgraphs, result.calls, strict=True)
            )
        ]
        report.modules = [module.size for module in result.byte_code]
        report.notes = result.notes
        if len(result.byte_code) > 1:
            report.warnings.append(
                f"the vendor returned {len(result.byte_code)} byte code modules, but only the "
                "first module is written"
            )
        if target:
            module = result.byte_code[0]
            write_plan(Plan([(0, module.view)], size=module.size), target)
            report.output_path, report.output_size = target, module.size
    return report


@common_permissions()
def copy_model(
    model_path: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
) -> Report:
    """Reads a model and writes it unchanged to another file, without a plugin (`--cmd=noop`).

    Raises:
      LiteRtError: Any error of `read_model` or `write_model`; after an error, no file is written.
    """
    start = time.perf_counter()
    source, target = os.fspath(model_path), os.fspath(output_path)
    check_output(target, [source])
    report = Report("noop", source)
    with read_model(source) as model:
        assert model.source is not None
        check_digest(model.source, None, source)  # a damaged file gets no new digest
        report.warnings += model.warnings
        write_output(model, target, report)
    report.seconds = time.perf_counter() - start
    return report


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """The facts about one plugin that `--cmd=info` prints.

    Attributes:
      soc_manufacturer, soc_models, sdk_version: The plugin's own description of itself; empty if the plugin cannot
        be loaded.
      origin: File path or installed package in which the plugin was found.
      problem: Reason why the plugin cannot be loaded; "" if it can be loaded.
    """

    soc_manufacturer: str
    soc_models: tuple[str, ...]
    sdk_version: str
    origin: str
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return f"< not loaded > {self.origin} | {self.problem}"
        models = ", ".join(f'"{model}"' for model in self.soc_models)
        return f'< LiteRtCompilerPlugin > "{self.soc_manufacturer}" | {models}'


def list_plugins(libs: Sequence[str] = (), hosting: Hosting | None = None) -> list[PluginInfo]:
    """Returns all installed plugins and all plugins in the folders, including those that cannot be loaded.

    Raises:
      LiteRtError: NOT_FOUND, if a folder does not exist; ALREADY_EXISTS, if two plugins have the same
        manufacturer.
    """
    registry = find_plugins(libs, hosting)
    infos: list[PluginInfo] = []
    for point in registry.installed():
        try:
            infos.append(_info(load_point(point, hosting)))
        except LiteRtError as error:
            infos.append(PluginInfo(point.name, (), "", str(point), str(error)))
    infos += [_info(plugin) for plugin in registry.plugins]
    infos += [PluginInfo("", (), "", path, str(e)) for path, e in registry.broken.items()]
    return sorted(infos, key=lambda info: (info.problem != "", info.soc_manufacturer, info.origin))


def _info(plugin: RegisteredPlugin) -> PluginInfo:
    factory = plugin.factory
    return PluginInfo(
        factory.soc_manufacturer, tuple(factory.soc_models), factory.sdk_version, plugin.origin
    )
