"""Compiles partitions to byte code; a partition that the vendor refuses is split or stays on the CPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from compiler_plugin.composites import forget_decompositions
from compiler_plugin.leftovers import tensors_of
from compiler_plugin.outline import Partition, extract
from compiler_plugin.plan import SubgraphPlan, leave_smallest
from compiler_plugin.plugin import CallInfo, CompiledResult
from compiler_plugin.report import CallReport, Report
from compiler_plugin.vendor_plugin import VendorPlugin
from litert.core.errors import LiteRtError
from litert.core.progress import tell
from litert.core.status import Status
from litert.core.tracing import SpanKind, measured
from litert.model.blob import Blob
from litert.model.expected_time import ExpectedCall
from litert.model.graph import Buffer, Subgraph
from litert.model.memory_plan import CallMemory

Prepare: TypeAlias = Callable[[Sequence[Subgraph]], Sequence[str]]
"""Function that changes copies of partitions for the vendor, and returns notes about the changes."""

_WORTH_SHARING = 64 << 10
"""Partitions that share at least this many bytes of constants are compiled together to store the bytes once."""


def leave_as_is(copies: Sequence[Subgraph]) -> Sequence[str]:
    """Leaves the copies of partitions unchanged."""
    return ()


@dataclass(frozen=True, slots=True, eq=False)
class CompiledPartition:
    """A compiled partition: a byte code module and the call of one of its functions. Modules may be shared."""

    module: Blob
    call: CallInfo


@dataclass(slots=True)
class Compilation:
    """The result of compiling all partitions of a model.

    Attributes:
      partitions: Compiled partition for each partition of the plan.
      notes: Notes for the report, without duplicates, about changes to the partitions and from the vendor.
      native_assets: Names of the assets that contain machine code which the NPU calls run.
      warnings: Warnings of the host for the report.
    """

    partitions: dict[Partition, CompiledPartition] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    native_assets: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)


@measured(SpanKind.STEP, "compile")
def compile_partitions(
    plugin: VendorPlugin,
    plans: Sequence[SubgraphPlan],
    max_partitions: int = 0,
    prepare: Prepare = leave_as_is,
) -> Compilation:
    """Compiles the partitions in plans; partitions that the vendor refuses are removed from the plans.

    The vendor compiles all partitions together, so that they can share byte code. If the vendor refuses the
    partitions (UNSUPPORTED), each partition is compiled alone. If the vendor refuses a single partition, its
    halves are compiled, and so on. A refused partition of one op stays on the CPU, with the reason in the plan. If
    compiled partitions share large weights, these partitions are compiled once more, all together.

    Args:
      plugin: Plugin of the vendor; its errors are raised, except for errors with the status UNSUPPORTED.
      plans: Plans with the partitions to compile.
      max_partitions: Largest number of partitions in all plans together, counted after partitions are split; 0
        means no limit.
      prepare: Function that changes the copies of partitions before the vendor gets them; if the function raises
        UNSUPPORTED, the partitions count as refused by the vendor.
    """
    compilation = Compilation()
    batch = [(plan, partition) for plan in plans for partition in plan.partitions]
    waiting: list[tuple[SubgraphPlan, Partition]] = []
    total, done = sum(len(partition.ops) for _, partition in batch), 0
    first, is_apart = {partition for _, partition in batch}, False
    tell("compile", 0, total)
    while batch:
        partitions = [partition for _, partition in batch]
        try:
            result = compile_copies(plugin, _copy(partitions), prepare)
        except LiteRtError as error:
            if error.status is not Status.UNSUPPORTED:
                raise
            is_apart = True
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
        tell("compile", done, total)
        batch = [waiting.pop()] if waiting else []
    leave_smallest(plans, max_partitions)
    for plan in plans:
        plan.partitions.sort(key=lambda partition: partition.positions[0])
    kept = [partition for plan in plans for partition in plan.partitions]
    if is_apart and set(kept) != first and _shared_bytes(kept) >= _WORTH_SHARING:
        return _compile_together(plugin, kept, prepare, compilation)
    return compilation


def _compile_together(
    plugin: VendorPlugin, partitions: Sequence[Partition], prepare: Prepare, apart: Compilation
) -> Compilation:
    """Compiles separately compiled partitions together; if this fails, returns `apart`."""
    together = Compilation()
    try:
        _keep(together, compile_copies(plugin, _copy(partitions), prepare), partitions)
    except LiteRtError as error:
        if error.status is not Status.UNSUPPORTED:
            apart.warnings.append(
                "weights that several partitions share are stored once for each partition, "
                f"because the plugin failed to compile the partitions together: {error}"
            )
        return apart
    return together


def _shared_bytes(partitions: Sequence[Partition]) -> int:
    """Returns the bytes of constants that are stored more than once if each partition has its own copy."""
    owners: Counter[Buffer] = Counter()
    for partition in partitions:
        ops = partition.ops if partition.body is None else partition.body.ops
        owners.update({tensor.buffer for tensor in tensors_of(ops)})
    shared = [(buffer.blob, count - 1) for buffer, count in owners.items()]
    return sum(blob.size * more for blob, more in shared if blob is not None)


def _copy(partitions: Sequence[Partition]) -> list[Subgraph]:
    """Returns copies of partitions for the vendor, before they are prepared."""
    copies = extract(partitions)
    for copy in copies:
        forget_decompositions(copy)
    return copies


def compile_copies(
    plugin: VendorPlugin, copies: Sequence[Subgraph], prepare: Prepare
) -> CompiledResult:
    """Prepares copies of partitions and compiles them; in the result, the notes of the preparation come first."""
    notes = prepare(copies)
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
            f"byte code module {index} ({size} bytes) is not stored, because no NPU call uses the "
            "module"
        )
    for note in result.notes:
        if note not in compilation.notes:
            compilation.notes.append(note)
    compilation.native_assets.update(result.native_assets)


def _reason(error: LiteRtError) -> str:
    """Returns the vendor's own message of a refusal."""
    words = error.__cause__ if isinstance(error.__cause__, LiteRtError) else error
    return words.text if words.hint else words.text.removesuffix(".")


def report_calls(
    report: Report,
    plans: Sequence[SubgraphPlan],
    compilation: Compilation,
    modules: Sequence[Blob],
) -> None:
    """Adds the NPU calls to the report, with the notes and warnings from their compilation."""
    index = {id(module): number for number, module in enumerate(modules)}
    report.calls = [
        CallReport.of(part.name, plan.index, part, made.call.name, index[id(made.module)])
        for plan in plans
        for part in plan.partitions
        for made in [compilation.partitions[part]]
    ]
    made = [compilation.partitions[part] for plan in plans for part in plan.partitions]
    calls = [(one.call, index[id(one.module)]) for one in made]
    report.memory = [CallMemory(c.name, m, c.memory) for c, m in calls if c.memory is not None]
    report.expected_times = [
        ExpectedCall(c.name, m, c.expected) for c, m in calls if c.expected is not None
    ]
    report.modules = [module.size for module in modules]
    report.notes = compilation.notes
    report.warnings += compilation.warnings
