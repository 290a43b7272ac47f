"""Builds each program of a module once for a device, or once per shape if the program's text contains shapes."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from litert.core.sizes import Shapes, Size
from vendor_reference.device.program_builder import DeviceProgram, ProgramBuilder
from vendor_reference.device.recent import Recent
from vendor_reference.executable.binary_layer import DeviceCode
from vendor_reference.executable.executable import KernelTask, Program, Task
from vendor_reference.executable.size_arguments import argument_sizes
from vendor_reference.executable.source_text import fill_program, hole_values
from vendor_reference.programs.asset_sources import AssetSources
from vendor_reference.programs.program_text import ProgramText, compose_text

MOST_FILLED = 64
"""Number of programs for specific shapes that a module keeps in memory.

Older programs remain in the disk cache.
"""


class ModulePrograms:
    """Builds programs when a function or a shape needs them; several threads may use this object at once."""

    def __init__(
        self,
        builder: ProgramBuilder,
        programs: Sequence[Program],
        sources: AssetSources,
        allow_native_assets: bool,
    ) -> None:
        """Stores the programs to build; `prepare` builds the programs."""
        self._builder = builder
        self._programs = programs
        self._sources = sources
        self._allow_native_assets = allow_native_assets
        self._built: dict[int, DeviceProgram] = {}
        self._sizes: dict[int, Sequence[Size]] = {}
        self._filled: Recent[tuple[int, tuple[int, ...]], DeviceProgram] = Recent(MOST_FILLED)
        self._lock = threading.Lock()

    def prepare(self, indices: Collection[int]) -> None:
        """Builds those given programs that do not depend on shapes; sends only one request to the compiler.

        Raises:
          LiteRtError: NOT_FOUND, if an asset is missing; INVALID_ARGUMENT, if an asset has other contents;
            UNSUPPORTED, if code may not or cannot run here; COMPILATION, if a program does not build.
        """
        texts: dict[int, ProgramText] = {}
        for index in sorted(set(indices) - self._built.keys()):
            program = self._programs[index]
            if found := self._find_code(program):
                self._built[index] = self._load_code(program, found)
                if found.sizes is not None:
                    self._sizes[index] = argument_sizes(program, found.sizes)
            elif not program.holes:
                texts[index] = compose_text(program, self._sources.read)
        self._built.update(zip(texts, self._builder.build(list(texts.values())), strict=True))

    def holes(self, task: Task) -> Sequence[Size]:
        """Returns the sizes that are inserted into the text of a task's program for each run."""
        return self._programs[task.program].holes if isinstance(task, KernelTask) else ()

    def sizes(self, index: int) -> Sequence[Size]:
        """Returns the sizes that are extra arguments of a program's kernels if the program serves all shapes."""
        return self._sizes.get(index, ())

    def find(self, index: int, shapes: Shapes) -> DeviceProgram:
        """Returns the program with the given index for the current shapes; raises the same errors as `prepare`."""
        program = self._programs[index]
        if not program.holes or index in self._built:
            return self._built[index]
        values = hole_values(program, shapes)
        with self._lock:
            return self._filled.get(
                (index, values), lambda: self._make(fill_program(program, values))
            )

    def _make(self, program: Program) -> DeviceProgram:
        if found := self._find_code(program):
            return self._load_code(program, found)
        return self._builder.build([compose_text(program, self._sources.read)])[0]

    def _find_code(self, program: Program) -> DeviceCode | None:
        """Returns the machine code of a program, if the program's asset has machine code for this device."""
        identity = self._builder.identity
        return self._sources.find_code(program, identity, self._allow_native_assets)

    def _load_code(self, program: Program, code: DeviceCode) -> DeviceProgram:
        name = ", ".join(source.file_name for source in program.sources)
        return self._builder.load_code(name, code)
