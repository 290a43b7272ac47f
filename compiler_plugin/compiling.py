"""Partitions become byte code; what the vendor refuses is tried in smaller parts, and then left on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from compiler_plugin.composites import forget_decompositions
from compiler_plugin.outline import Partition, extract
from compiler_plugin.plan import SubgraphPlan, leave_smallest
from compiler_plugin.plugin import CallInfo, CompiledResult
from compiler_plugin.report import CallReport, Report
from compiler_plugin.vendor_plugin import VendorPlugin
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Subgraph

Prepare: TypeAlias = Callable[[Subgraph], str]
"""Makes of a partition's copy what the vendor gets; says in a sentence what it did, or ""."""


def leave_as_is(subgraph: Subgraph) -> str:
    """Gives the vendor the ops as they are."""
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class CompiledPartition:
    """What the vendor has made of a partition: its call, in a byte code module that others may share."""

    module: Blob
    call: CallInfo


@dataclass(slots=True)
class Compilation:
    """What came of all partitions of a model.

    Attributes:
      partitions: compiled, by the plan's partition.
      notes: sentences for the report, none twice: what partitions went through, and the vendor's.
      native_assets: whose machine code the calls run.
      warnings: the host's.
    """

    partitions: dict[Partition, CompiledPartition] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    native_assets: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)


def compile_partitions(
    plugin: VendorPlugin,
    plans: Sequence[SubgraphPlan],
    max_partitions: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
    prepare: Prepare = leave_as_is,
) -> Compilation:
    """Compiles the partitions of plans, which lose those that are refused.

    All are compiled together, so that they can share byte code. If the vendor refuses (UNSUPPORTED), each is
    compiled alone, then in halves, and at last single ops are left on the CPU; the plans then say why.

    Args:
      plugin: of the vendor; its other errors are raised.
      plans: what to compile.
      max_partitions: of all plans, also where a refused one has become several; 0 is no limit.
      progress: told ops done and ops in all.
      prepare: called with each partition's copy before the vendor gets it; where it raises UNSUPPORTED, that is as
        though the vendor had refused.
    """
    compilation = Compilation()
    batch = [(plan, partition) for plan in plans for partition in plan.partitions]
    waiting: list[tuple[SubgraphPlan, Partition]] = []
    total, done = sum(len(partition.ops) for _, partition in batch), 0
    progress(0, total)
    while batch:
        partitions = [partition for _, partition in batch]
        copies = [extract(partition) for partition in partitions]
        for copy in copies:
            forget_decompositions(copy)
        try:
            result = compile_copies(plugin, copies, prepare)
        except LiteRtError as error:
            if error.status is not Status.UNSUPPORTED:
                raise
            plan, partition = batch[0]
            if len(batch) > 1:
                waiting += reversed(batch)
            elif len(partition.ops) > 1:
                waiting += [(plan, half) for half in reversed(plan.split(partition))]
            else:
                plan.leave(partition, _reason(error))
                done += 1
        else:
            _keep(compilation, result, partitions)
            done += sum(len(partition.ops) for partition in partitions)
        progress(done, total)
        batch = [waiting.pop()] if waiting else []
    leave_smallest(plans, max_partitions)
    for plan in plans:
        plan.partitions.sort(key=lambda partition: partition.positions[0])
    return compilation


def compile_copies(
    plugin: VendorPlugin, copies: Sequence[Subgraph], prepare: Prepare
) -> CompiledResult:
    """What the vendor makes of copies once they are prepared, which the notes begin with."""
    notes = [f"{copy.name}: {note}" for copy in copies if (note := prepare(copy))]
    result = plugin.compile(copies)
    return replace(result, notes=[*notes, *result.notes])


def _keep(
    compilation: Compilation, result: CompiledResult, partitions: Sequence[Partition]
) -> None:
    for partition, call in zip(partitions, result.calls, strict=True):
        module = result.byte_code[call.byte_code_index]
        compilation.partitions[partition] = CompiledPartition(module, call)
    unused = set(range(len(result.byte_code))) - {call.byte_code_index for call in result.calls}
    for index in sorted(unused):
        size = result.byte_code[index].size
        compilation.warnings.append(
            f"no call is in byte code module {index} ({size} bytes): it is left out"
        )
    for note in result.notes:
        if note not in compilation.notes:
            compilation.notes.append(note)
    compilation.native_assets.update(result.native_assets)


def _reason(error: LiteRtError) -> str:
    """A refusal as the vendor words it."""
    words = error.__cause__ if isinstance(error.__cause__, LiteRtError) else error
    where = f" ({words.where})" if words.where else ""
    hint = f". {words.hint}" if words.hint else ""
    return f"{words.what}{where}{hint}"


def report_calls(
    report: Report,
    plans: Sequence[SubgraphPlan],
    compilation: Compilation,
    modules: Sequence[Blob],
) -> None:
    """The calls, and what there is to say of their compilation."""
    index = {id(module): number for number, module in enumerate(modules)}
    report.calls = [
        CallReport.of(part.name, plan.index, part, made.call.name, index[id(made.module)])
        for plan in plans
        for part in plan.partitions
        for made in [compilation.partitions[part]]
    ]
    report.modules = [module.size for module in modules]
    report.notes = compilation.notes
    report.warnings += compilation.warnings
