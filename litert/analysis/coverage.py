"""Which ops of models an NPU takes, and which stay on the CPU: as `apply_plugin` plans, with nothing written."""

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
    """What an NPU takes of one model.

    Attributes:
      path: of the model.
      problem: why nothing is known of it; "" where all is.
      num_ops, num_npu_ops: of all subgraphs; with parts of composites that are taken apart.
      num_calls: of the NPU.
      num_transitions: tensors that an op of the CPU hands to an NPU call, or a call to an op.
      transition_bytes: of these; tensors of unknown size count nothing.
      num_unknown: ops whose arithmetic or traffic is not known, and in none of the numbers below.
      macs, operations, bytes: of all ops.
      macs_share, arithmetic_share, bytes_share: the NPU's part, 0 to 1; None where the whole is nothing.
        Arithmetic is two operations for each multiply-accumulate, and the others.
      ops: in the order of `apply_plugin`'s report.
      refusals: why ops stay on the CPU, the costliest first.
      warnings: what the host has to say.
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
        """The part of the ops that is on the NPU, 0 to 1; None where there are no ops."""
        return share(self.num_npu_ops, self.num_ops)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What an NPU takes of models.

    Attributes:
      soc_manufacturer, soc_model: whose NPU, and which.
      plugin_sdk_version: of the vendor's compiler.
      models: in the order given.
      refusals: of all models together, the costliest first.
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
    """Finds out what an NPU takes of models; what goes wrong with one is its `problem`.

    Args:
      paths: of models.
      options: name the plugin, and say what it is told.
      costs: what the user knows of costs.
      compiles: whether the vendor compiles, too, and may so refuse more.

    Raises:
      LiteRtError: for a plugin that cannot be loaded, an SoC model that it does not have, missing assets, and a
        shape bound that fits no model.
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
    """The tensors that ops of the CPU hand to NPU calls, and those that calls hand to ops of the CPU."""
    on_npu = {op for partition in plan.partitions for op in partition.ops}
    for op in plan.subgraph.ops:
        is_on_npu = op in on_npu
        for tensor in op.outputs:
            if any((reader in on_npu) is not is_on_npu for reader in tensor.readers):
                yield tensor
