"""Runs transformations on a model, either before a vendor's plugin gets it or for `litert-npu transform`.

Transformation modules are imported only if the options choose a transformation.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from compiler_plugin.checks import check_output, read_uncompiled, write_output
from compiler_plugin.compiling import Prepare, leave_as_is
from compiler_plugin.outline import model_of
from compiler_plugin.plugin import DataLayout
from compiler_plugin.report import Report
from litert.core.input_file import common_permissions
from litert.core.tracing import SpanKind, measured
from litert.model.graph import Model, Subgraph

if TYPE_CHECKING:
    from compiler_plugin.transform_options import TransformOptions
    from compiler_plugin.transformations.running import Transformations


@common_permissions()
def transform_file(
    model_path: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    options: TransformOptions,
) -> Report:
    """Transforms a TFLite model into another TFLite model, without a vendor's plugin.

    Args:
      model_path: Path of a TFLite model that is not compiled.
      output_path: Path of the output file, which must not be the input file; "" to write no file.
      options: Options that choose the transformations.

    Returns:
      The command's report, with the number of matches of each transformation.

    Raises:
      LiteRtError: The error of the step that failed; after an error, no output file is written.
    """
    start = time.perf_counter()
    source, target = os.fspath(model_path), os.fspath(output_path)
    check_output(target, [source])
    report = Report("transform", source)
    with read_uncompiled(source) as model:
        report.warnings += model.warnings
        before = sum(1 for _ in model.ops())
        transform_model(model, options, report)
        report.notes = [f"ops: {before:,} before, {sum(1 for _ in model.ops()):,} after"]
        write_output(model, target, report)
    report.seconds = time.perf_counter() - start
    return report


@measured(SpanKind.STEP, "transform")
def transform_model(
    model: Model, options: TransformOptions | None, report: Report
) -> Transformations | None:
    """Runs the transformations that the options choose, and adds them to the report.

    Returns:
      The transformations; None if the options choose no transformation.

    Raises:
      LiteRtError: Any error of a transformation; after an error, the model must not be used any more.
    """
    if options is None or not options.is_asked:
        return None
    # Imported here, because most models are compiled without transformations.
    from compiler_plugin.transformations.running import Transformations

    transformations = Transformations(options)
    transformations.run(model)
    report.transformations = transformations.reports()
    report.warnings += transformations.notes
    return transformations


def prepare_partitions(
    layout: DataLayout,
    options: TransformOptions | None = None,
    transformations: Transformations | None = None,
) -> Prepare:
    """Returns the function that changes partitions before the vendor compiles them.

    Args:
      layout: Data layout that the vendor's plugin asks for.
      options: Options of transformations; they can disable the layout change.
      transformations: Transformations; those in the phase `back` run on the partitions after the layout change.
    """
    if layout == "NHWC" or (options is not None and options.keep_layout):
        return leave_as_is
    custom_layouts = transformations.custom_layouts if transformations else None

    def prepare(copies: Sequence[Subgraph]) -> Sequence[str]:
        # Here, since most vendors take TFLite's own layout.
        from compiler_plugin.transformations.layout_change.change import change_layout
        from compiler_plugin.transformations.layout_change.permuted_constants import (
            PermutedConstants,
        )

        permuted, notes = PermutedConstants(), []
        models = [model_of(copy) for copy in copies]
        for model, copy in zip(models, copies, strict=True):
            report = change_layout(model, copy, layout, custom_layouts, permuted)
            if report.ops:
                notes.append(f"{copy.name}: {report}")
        if transformations is not None:
            transformations.run_in_partitions(models, layout)
        return notes

    return prepare
