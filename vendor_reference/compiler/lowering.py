"""Partitions become an executable, level by level: IE, IERT, VPUIP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from litert.core.compiler_options import DumpOptions
from litert.model.collector import collector_held
from litert.model.graph import Subgraph
from vendor_reference.compiler.cpu_layers import choose_cpu_layers
from vendor_reference.compiler.emission.module_emission import emit_executable
from vendor_reference.compiler.frontend.importer import import_partitions
from vendor_reference.compiler.job import Job
from vendor_reference.compiler.kernel_bindings import BoundArgument
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.pass_pipeline import IMPORT, IrDump, compile_passes, run_passes
from vendor_reference.compiler.passes.plan_memory import memory_notes
from vendor_reference.executable.executable import Executable, Program

_NO_DUMP = DumpOptions()


@dataclass(frozen=True, slots=True)
class Lowered:
    """What the partitions became.

    Attributes:
      bindings: for each task of each function what its arguments are, to compare its kernel with.
      notes: sentences for the report.
      titles: of programs with sources, in order: `Layer relu1 using Custom Layer ReLU`.
      samples: its programs as they are for the largest shapes.
    """

    executable: Executable
    bindings: Sequence[Sequence[Sequence[BoundArgument]]]
    notes: Sequence[str]
    titles: Sequence[str]
    samples: Sequence[Program]


@collector_held()
def lower_partitions(
    job: Job, partitions: Sequence[Subgraph], dump: DumpOptions = _NO_DUMP
) -> Lowered:
    """Makes an executable with a function `Partition_<n>` for each partition.

    Functions for fp16 arithmetic stand behind them: see `import_partitions`.

    Its tasks for custom ops have "" as their entry: `entry_points.py` settles it.

    Args:
      job: what it is made for, and with.
      partitions: mostly of ops that `select_ops` took.
      dump: after which pass the levels are written for people to read.

    Raises:
      LiteRtError: UNSUPPORTED, if a partition does not fit into the SoC, or has an op that the NPU does not
        take; INVALID_ARGUMENT, if an asset does not fit its op.
    """
    cpu_layers = choose_cpu_layers(job, partitions)
    imported = import_partitions(job, partitions, cpu_layers.kernels)
    ir_dump = IrDump(dump) if dump.ir_after else None
    after = None
    notes = [*cpu_layers.notes, *imported.notes]
    if ir_dump is not None:
        after = ir_dump.write
        after(IMPORT, imported.module)
    run_passes(make_context(), imported.module, compile_passes(), after)
    if ir_dump is not None:
        notes.append(ir_dump.note())
    notes += memory_notes(imported.module, job.soc)
    emitted = emit_executable(imported.module, imported.constants)
    return Lowered(emitted.executable, emitted.bindings, notes, emitted.titles, emitted.samples)
