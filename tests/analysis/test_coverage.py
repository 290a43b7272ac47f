"""What an NPU takes of models, and why the rest stays."""

from __future__ import annotations

from pathlib import Path

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.commands import partition_model
from litert.analysis.coverage import find_coverage
from litert.core.compiler_options import CompilerOptions

ALL = ApplyOptions(compiler=CompilerOptions(vendor_options={"reference_ops": "all"}))


def no_progress(step: str, done: int, total: int) -> None:
    """Tells nobody."""


def test_coverage_agrees_with_apply_plugin_op_by_op(networks: Path) -> None:
    paths = [str(path) for path in sorted(networks.glob("*.tflite"))]
    assert len(paths) == 14
    for model in find_coverage(paths, ALL, no_progress).models:
        report = partition_model(model.path, "", ALL)
        assert not model.problem
        assert [(op.subgraph, op.index, op.name, op.call, op.reason) for op in model.ops] == [
            (op.subgraph, op.index, op.name, op.call, op.reason) for op in report.ops
        ]
        assert (model.num_npu_ops, model.num_calls) == (len(report.npu_ops), len(report.calls))
