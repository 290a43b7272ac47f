"""Lowers partitions to an executable through the IR levels IE, IERT and VPUIP."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from litert.core.compiler_options import DumpOptions
from litert.core.tracing import SpanKind, span
from litert.model.collector import collector_held
from litert.model.graph import Subgraph
from vendor_reference.compiler.cpu_layers import choose_cpu_layers
from vendor_reference.compiler.emission.module_emission import Lowered, emit_executable
from vendor_reference.compiler.frontend.importer import Imported, import_partitions
from vendor_reference.compiler.ir.attributes import set_after, soc_of
from vendor_reference.compiler.job import Job
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.memory_description import describe_memory
from vendor_reference.compiler.pass_pipeline import (
    IMPORT,
    compile_passes,
    make_dump_files,
    run_passes,
    write_dump,
)
from vendor_reference.compiler.passes.plan_memory import memory_notes
from vendor_reference.executable.executable import Constant

if TYPE_CHECKING:
    from vendor_reference.compiler.replaced_ir import Replacements

_NO_DUMP = DumpOptions()


@collector_held()
def lower_partitions(
    job: Job, partitions: Sequence[Subgraph], dump: DumpOptions = _NO_DUMP
) -> Lowered:
    """Makes an executable with a function `Partition_<n>` for each partition.

    After these functions come the functions for devices with fp16 arithmetic (see `import_partitions`). The entry
    of tasks for custom ops is "" until `entry_points.py` sets it. `dump` contains the passes after which the IR is
    written to files.

    Raises:
      LiteRtError: UNSUPPORTED, if a partition does not fit into the memory of the SoC, or has an op that the NPU
        does not support; INVALID_ARGUMENT, if an asset does not fit its op.
    """
    notes: list[str] = []
    with span(SpanKind.PASS, IMPORT):
        imported = import_partitions(job, partitions, choose_cpu_layers(job, partitions, notes))
    notes += imported.notes
    files = make_dump_files(dump)
    set_after(imported.module, IMPORT)
    replacements = _read_edits(job, imported)

    def after(name: str, module: ModuleOp) -> None:
        if replacements is not None:
            notes.extend(replacements.put_in(name, module))
        write_dump(files, name, module)

    with replacements.guarded() if replacements is not None else nullcontext():
        after(IMPORT, imported.module)
        run_passes(make_context(), imported.module, compile_passes(), after)
        if files:
            _write_constants(dump.folder, imported)
            names = [os.path.basename(path) for path in files.values()]
            notes.append(f"IR is written to {dump.folder}: {', '.join(names)}.")
        return finish_lowering(imported.module, imported.constants, notes)


def finish_lowering(
    module: ModuleOp, constants: Mapping[str, Constant], notes: Sequence[str]
) -> Lowered:
    """Converts a module to an executable, after all passes have run.

    `constants` holds the constants by the keys of the module's resources.

    Raises:
      LiteRtError: The same errors as `emit_executable`.
    """
    with span(SpanKind.PASS, "emit"):
        lowered = emit_executable(module, constants)
    said = [*notes, *memory_notes(module, soc_of(module))]
    return replace(lowered, notes=said, memory=describe_memory(module))


def _write_constants(folder: str, imported: Imported) -> None:
    # Imported here, since most compilations dump nothing.
    from vendor_reference.compiler.constant_files import write_constants

    write_constants(folder, imported.constants)


def _read_edits(job: Job, imported: Imported) -> Replacements | None:
    """Reads the texts that replace functions; None if there are none."""
    if not job.edits:
        return None
    # Imported here, since most compilations read no text.
    from vendor_reference.compiler.replaced_ir import Replacements

    return Replacements(job, imported)
