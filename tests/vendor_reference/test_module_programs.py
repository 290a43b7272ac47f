"""Tests that functions of a module that ask for a program at the same time share one build."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from litert.core.sizes import Dimension
from tests.vendor_reference.executables import source
from vendor_reference.device.module_programs import ModulePrograms
from vendor_reference.executable.executable import HOLE, Program
from vendor_reference.programs.asset_sources import AssetSources
from vendor_reference.programs.program_text import ProgramText

KERNEL = "__kernel void MyOp(__global float* y) { y[0] = N; }"


class SlowBuilder:
    """Builds a program when a second caller arrives, or after a short wait."""

    identity = ("none",)

    def __init__(self) -> None:
        self.built: list[str] = []
        self._second = threading.Event()

    def build(self, texts: Sequence[ProgramText]) -> Sequence[object]:
        self.built += [text.text for text in texts]
        if len(self.built) > 1:
            self._second.set()
        self._second.wait(0.1)
        return [object() for _ in texts]


def test_two_runs_with_one_new_shape_build_its_program_once() -> None:
    builder = SlowBuilder()
    program = Program(f"#define N {HOLE}\n", (source(KERNEL),), holes=(Dimension(0, 0),))
    sources = AssetSources(lambda _: memoryview(KERNEL.encode()))
    programs = ModulePrograms(builder, [program], sources, False)  # type: ignore[arg-type]
    found: list[object] = []

    def find() -> None:
        found.append(programs.find(0, lambda _: (4,)))

    threads = [threading.Thread(target=find) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builder.built) == 1 and found[0] is found[1]
