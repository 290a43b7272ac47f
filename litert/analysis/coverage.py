"""Finds the ops of models that an NPU can run, by the same plan as `apply_plugin`, but writes no file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.asset_files import open_assets
from compiler_plugin.compiling import compile_partitions
from compiler_plugin.pipeline import load_chosen_plugin, start_run
from compiler_plugin.plan import SubgraphPlan, plan_model, report_plans, unused_decompositions
from compiler_plugin.registry import RegisteredPlugin, choose_soc_model
from litert.analysis.model_bounds import choose_bounds
from litert.analysis.op_costs import CostOptions, ModelCosts, set_shapes
from litert.analysis.op_coverage import OpCoverage, SourcePlaces, list_ops
from litert.analysis.refusals import (
    Refusal,
    add_calls_changes,
    count_refusals,
    find_calls_changes,
    share,
)
from litert.core.errors import LiteRtError
from litert.core.progress import told
from litert.model.graph import Tensor
from litert.model.op_cost import KnownCost

_NO_OPTIONS = CostOptions()


@dataclass(frozen=True, slots=True)
class ModelCoverage:
    """How much of one model an NPU can run.

    Attributes:
      path: Path of the model.
      problem: Reason why the model could not be analysed; "" if the analysis succeeded.
      num_ops, num_npu_ops: Number of ops in all subgraphs, and number of ops on the NPU. If a composite is split,
        each of its parts counts as an op.
      num_calls: Number of NPU calls.
      num_transitions: Number of tensors that pass between CPU ops and NPU calls.
      transition_bytes: Total size of the tensors that pass between CPU ops and NPU calls, without tensors of
        unknown size.
      num_unknown: Number of ops whose arithmetic or traffic is unknown; the numbers below do not include these
        ops.
      macs, operations, bytes: Multiply-accumulates, other operations, and memory traffic of all ops.
      macs_share, arithmetic_share, bytes_share: The NPU's share of each cost, from 0 to 1; None if the total cost
        is 0. In `arithmetic_share`, each multiply-accumulate counts as two operations.
      ops: All ops of the model, in the order of `apply_plugin`'s report.
      refusals: Reasons why ops stay on the CPU, sorted by the cost of these ops, highest first.
      warnings: Warnings of the host.
    """

    path: str
    problem: str = ""
    num_ops: int = 0
    num_npu_ops: int = 0
    num_calls: int = 0
    num_transitions: int = 0
    transition_bytes: int = 0
    num_unknown: int = 0
    macs: int = 0
    operations: int = 0
    bytes: int = 0
    macs_share: float | None = None
    arithmetic_share: float | None = None
    bytes_share: float | None = None
    ops: Sequence[OpCoverage] = ()
    refusals: Sequence[Refusal] = ()
    warnings: Sequence[str] = ()

    @property
    def ops_share(self) -> float | None:
        """Share of ops that are on the NPU, from 0 to 1; None if there are no ops."""
        return share(self.num_npu_ops, self.num_ops)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of several models an NPU can run.

    Attributes:
      soc_manufacturer, soc_model: Manufacturer and model of the NPU's SoC.
      plugin_sdk_version: SDK version of the vendor's compiler plugin.
      models: Coverage of each model, in the order of the given paths.
      refusals: Reasons why ops of any model stay on the CPU, sorted by the cost of these ops, highest first.
    """

    soc_manufacturer: str
    soc_model: str
    plugin_sdk_version: str
    models: Sequence[ModelCoverage]
    refusals: Sequence[Refusal]


def find_coverage(
    paths: Sequence[str],
    options: ApplyOptions,
    costs: CostOptions = _NO_OPTIONS,
    *,
    compiles: bool = False,
) -> Coverage:
    """Finds the ops of models that an NPU can run; an error with a model is stored in the `problem` of this model.

    Args:
      paths: Paths of the models.
      options: Options that select the compiler plugin and are passed to it.
      costs: Cost formulas and input shapes that the user has given.
      compiles: Whether the vendor's compiler also compiles the ops that it takes, which may fail for some ops.

    Raises:
      LiteRtError: If the plugin cannot be loaded or lacks the SoC model, if an asset is missing, or if a shape
        bound fits no model.
    """
    bounds = choose_bounds(paths, options.compiler.shape_bounds)
    registered = load_chosen_plugin(options)
    soc_model = choose_soc_model(registered, options.soc_model)
    models: list[ModelCoverage] = []
    with open_assets(options.compiler.custom_op_infos):
        for path, bound in told("cover", list(zip(paths, bounds, strict=True))):
            own = replace(options, compiler=replace(options.compiler, shape_bounds=bound))
            try:
                models.append(_cover_model(path, own, registered, costs, compiles))
            except LiteRtError as error:
                models.append(ModelCoverage(path, str(error)))
    changes = add_calls_changes(refusal for model in models for refusal in model.refusals)
    return Coverage(
        registered.factory.soc_manufacturer,
        soc_model,
        registered.factory.sdk_version,
        models,
        count_refusals([model.ops for model in models], changes),
    )


def _cover_model(
    path: str,
    options: ApplyOptions,
    registered: RegisteredPlugin,
    costs: CostOptions,
    compiles: bool,
) -> ModelCoverage:
    places, limit = SourcePlaces(), options.compiler.max_partitions
    with start_run("coverage", path, "", options, registered, places.read) as run:
        plans = plan_model(run.model, run.plugin, options.subgraphs, limit)
        if compiles:
            compile_partitions(run.plugin, plans, limit, prepare=run.prepare)
        run.plugin.close()
        run.report.warnings += set_shapes(run.model, costs.shapes)
        there = {op.name for op in run.model.ops()}
        run.report.warnings += [
            f"--flops: the model has no op '{name}'" for name in costs.formulas if name not in there
        ]
        report_plans(run.report, plans, unused_decompositions(run.model, plans))
        reports = run.report.ops
        ops = list(list_ops(plans, reports, places, ModelCosts(run.model, costs.formulas)))
        changes = find_calls_changes(plans, run.plugin.grouping, reports, ops)
        handed = [tensor for plan in plans for tensor in _handed_over(plan)]
        total = KnownCost.of(op.cost for op in ops)
        npu = KnownCost.of(op.cost for op in ops if op.call)
        return ModelCoverage(
            path,
            num_ops=len(ops),
            num_npu_ops=sum(op.call != "" for op in ops),
            num_calls=sum(len(plan.partitions) for plan in plans),
            num_transitions=len(handed),
            transition_bytes=sum(t.type.size_bytes for t in handed if t.type.layout.is_static),
            num_unknown=total.num_unknown,
            macs=total.macs,
            operations=total.operations,
            bytes=total.bytes,
            macs_share=share(npu.macs, total.macs),
            arithmetic_share=share(npu.arithmetic, total.arithmetic),
            bytes_share=share(npu.bytes, total.bytes),
            ops=ops,
            refusals=count_refusals([ops], changes),
            warnings=list(run.report.warnings),
        )


def _handed_over(plan: SubgraphPlan) -> Iterator[Tensor]:
    """Finds the tensors that pass from CPU ops to NPU calls or back."""
    on_npu = {op for partition in plan.partitions for op in partition.ops}
    for op in plan.subgraph.ops:
        is_on_npu = op in on_npu
        for tensor in op.outputs:
            if any((reader in on_npu) is not is_on_npu for reader in tensor.readers):
                yield tensor
