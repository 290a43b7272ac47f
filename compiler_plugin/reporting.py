"""What `apply_plugin` and its fellows tell: a report is made of plans, of what was compiled and of the assets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from compiler_plugin.compiling import Compilation
from compiler_plugin.plan import SubgraphPlan
from compiler_plugin.report import (
    NO_CALLS,
    AssetReport,
    CallReport,
    CompositeReport,
    OpReport,
    Report,
)
from litert.core.compiler_options import CustomOpInfo
from litert.model.assets import Asset
from litert.model.blob import Blob


def report_plans(
    report: Report, plans: Sequence[SubgraphPlan], unused: Collection[int] = ()
) -> None:
    """Where each op of a model goes, and each composite; without the ops of subgraphs that go unused."""
    report.ops = [op for plan in plans if plan.index not in unused for op in _ops(plan)]
    report.composites = [composite for plan in plans for composite in _composites(plan)]


def report_calls(
    report: Report,
    plans: Sequence[SubgraphPlan],
    compilation: Compilation,
    modules: Sequence[Blob],
) -> None:
    """The calls, and what there is to say of their compilation."""
    index = {id(module): number for number, module in enumerate(modules)}
    report.calls = [
        CallReport(
            partition.name,
            plan.index,
            compilation.partitions[partition].function_name,
            index[id(compilation.partitions[partition].module)],
            len(partition.ops),
            len(partition.inputs),
            len(partition.outputs),
        )
        for plan in plans
        for partition in plan.partitions
    ]
    report.modules = [module.size for module in modules]
    report.notes = compilation.notes
    report.warnings += compilation.warnings


def report_assets(
    report: Report,
    assets: Sequence[Asset],
    infos: Sequence[CustomOpInfo],
    native_assets: Collection[str],
) -> None:
    """The assets, what became of them, and the warning where nothing became of anything."""
    paths = {info.op_name: info.asset_path for info in infos}
    report.assets = [
        AssetReport(a.name, a.blob.size, paths.get(a.name, ""), a.name in native_assets)
        for a in assets
    ]
    report.warnings += _asset_warnings(report, assets)
    if report.ops and not report.calls:
        report.warnings.append(NO_CALLS)


def _ops(plan: SubgraphPlan) -> Iterator[OpReport]:
    calls = plan.calls()
    for position, op in enumerate(plan.subgraph.ops):
        reason = "" if position in calls else plan.reasons[position]
        yield OpReport(plan.index, position, op.name, calls.get(position, ""), reason)


def _composites(plan: SubgraphPlan) -> Iterator[CompositeReport]:
    calls = plan.calls()
    for fate in plan.composites:
        if fate.is_apart:
            on_npu = sum(position in calls for position in fate.ops)
            yield CompositeReport(plan.index, fate.name, len(fate.ops), on_npu)
        else:
            (position,) = fate.ops
            call = calls.get(position, "")
            reason = "" if call else plan.reasons[position]
            yield CompositeReport(plan.index, fate.name, call=call, reason=reason)


def _near_name(op_name: str, names: Collection[str]) -> str:
    same = [name for name in sorted(names) if name.lower() == op_name.lower()]
    if same:
        return f", but {same[0]}"
    from difflib import get_close_matches  # here: few models need it

    near = get_close_matches(op_name, sorted(names), 1, cutoff=0.8)
    return f" (is '{near[0]}' meant?)" if near else ""


def _asset_warnings(report: Report, assets: Sequence[Asset]) -> Iterator[str]:
    """What became of the user's assets, where it is not what they were given for."""
    names = {op.name for op in report.ops}
    composites = {composite.name for composite in report.composites}
    for asset in assets:
        if asset.companion_path:
            continue
        if asset.op_name in composites - names:
            yield (
                f"'{asset.op_name}' is the name of a composite, and assets go by ops: STABLEHLO_COMPOSITE is all "
                "composites, or give one for an op that it stands for; its asset is embedded all the same"
            )
        elif asset.op_name not in names:
            but = _near_name(asset.op_name, names)
            yield f"the model has no op '{asset.op_name}'{but}; its asset is embedded all the same"
        left = [op for op in report.cpu_ops if op.name == asset.op_name]
        if left:
            reasons = "; ".join(dict.fromkeys(op.reason for op in left))
            stay = "stays" if len(left) == 1 else "stay"
            its = "its" if len(left) == 1 else "their"
            yield f"{len(left)} {asset.op_name} {stay} on the CPU, despite {its} asset: {reasons}"
