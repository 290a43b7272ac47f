"""Layers for any model (`--custom_layers`): those whose ops a model has become its assets."""

from __future__ import annotations

from collections.abc import Sequence

from compiler_plugin.report import Report
from compiler_plugin.vendor_plugin import VendorPlugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.graph import Model


def find_custom_layers(
    plugin: VendorPlugin, options: CompilerOptions, model: Model, report: Report
) -> Sequence[CustomOpInfo]:
    """The assets that a model gets beside those that flags give it: for ops that no flag names.

    Args:
      plugin: which uses from now on what it finds.
      options: with the files and folders of layers.
      model: to be compiled.
      report: gets a warning where layers are given, and none is for the model.

    Raises:
      LiteRtError: what the vendor refuses, such as two layers for one op.
    """
    if not options.custom_layers:
        return ()
    by_flag = {info.op_name for info in options.custom_op_infos}
    names = sorted({op.name for op in model.ops()} - by_flag)
    found = plugin.custom_layers(options.custom_layers, names)
    if not found:
        report.warnings.append("no layer of --custom_layers is for an op of the model")
    return found
