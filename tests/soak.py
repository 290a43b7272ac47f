"""`make soak`: checks that a process does not leak while it loads, runs, isolates, compiles and closes models.

The verdict compares the resources in the second and in the last quarter of the time. The first quarter does not
count, because it fills caches.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

import numpy as np

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, HardwareAccelerator, Options
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

_KERNEL = """__kernel void MyOp(__global const float* x, __global float* y) {
    y[get_global_id(0)] = 2.0f * x[get_global_id(0)];
}
"""
_ACCELERATORS = HardwareAccelerator.NPU | HardwareAccelerator.CPU
_MOST_GROWTH = 8 << 20
"""Allowed growth of resident memory in bytes, because allocators keep parts of freed memory."""

_TURNS_IN_A_SAMPLE = 5


class Sample(NamedTuple):
    """The resources of the process at one time."""

    memory_bytes: int
    open_files: int
    threads: int
    children: int


class Soak:
    """The models, and the turns that use them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._random = Random(seed)
        self._model, self._compiled = folder / "model.tflite", folder / "npu.tflite"
        self._again, self._kernel = folder / "again.tflite", folder / "MyOp.cl"
        self._kernel.write_text(_KERNEL)
        b = ModelBuilder()
        x = b.input("x", "float32", (1, 64), shape_signature=(-1, 64))
        y = b.custom("MyOp", [x], [b.tensor("y", "float32", (1, 64), shape_signature=(-1, 64))])
        made = b.tensor("z", "float32", (1, 64), shape_signature=(-1, 64))
        b.output(b.op("ADD", [y, x], [made]))
        write_model(b.build(), self._model)
        self._infos = [CustomOpInfo("MyOp", str(self._kernel))]
        self._compile_to(self._compiled)
        self._open = self._load()
        self._turns: Sequence[Callable[[], None]] = (
            self._run, self._run, self._resize, self._run_async, self._reload, self._compile,
            self._compile_at_load, self._isolate, self._fail,
        )  # fmt: skip

    def turn(self) -> None:
        """Does a random turn."""
        self._random.choice(self._turns)()

    def all_turns(self) -> None:
        """Does each turn once."""
        for turn in self._turns:
            turn()

    def close(self) -> None:
        """Closes the open model."""
        self._open.close()

    def _compile_to(self, path: Path) -> None:
        compiler = CompilerOptions(
            custom_op_infos=self._infos, shape_bounds={"x": (16, 64)}, check_kernels=False
        )
        apply_plugin(self._model, path, ApplyOptions(compiler=compiler))

    def _load(self) -> CompiledModel:
        return CompiledModel.from_file(str(self._compiled), _ACCELERATORS)

    def _run(self) -> None:
        self._check(self._open, 1)

    def _resize(self) -> None:
        self._check(self._open, self._random.randint(1, 16))

    def _run_async(self) -> None:
        self._open.run_async({"x": np.ones((1, 64), np.float32)}).result()

    def _reload(self) -> None:
        self._open.close()
        self._open = self._load()
        self._run()

    def _compile(self) -> None:
        self._compile_to(self._again)

    def _compile_at_load(self) -> None:
        options = Options(_ACCELERATORS, custom_op_infos=self._infos, shape_bounds={"x": (16, 64)})
        with CompiledModel.from_file(str(self._model), options=options) as model:
            self._check(model, 2)

    def _isolate(self) -> None:
        options = Options(_ACCELERATORS, isolated=True)
        with CompiledModel.from_file(str(self._compiled), options=options) as model:
            self._check(model, 1)
            self._check(model, self._random.randint(1, 16))

    def _fail(self) -> None:
        """Loads truncated models, which must be refused; a refused model must not leak either."""
        for data in (b"", self._compiled.read_bytes()[: self._random.randrange(2000)]):
            try:
                CompiledModel.from_buffer(data, _ACCELERATORS).close()
            except LiteRtError:
                continue
            raise RuntimeError("a cut model is taken")

    def _check(self, model: CompiledModel, rows: int) -> None:
        x = np.full((rows, 64), self._random.random(), np.float32)
        (z,) = model.run({"x": x}).values()
        if z.shape != x.shape or not np.allclose(z, 3 * x):
            raise RuntimeError(f"a wrong result for {rows} rows: {z}")


def sample() -> Sample:
    """Returns the current resources of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return Sample(
        pages * os.sysconf("SC_PAGESIZE"),
        len(os.listdir("/proc/self/fd")),
        len(os.listdir("/proc/self/task")),
        len(children),
    )


def judge(samples: Sequence[Sample]) -> Mapping[str, str]:
    """Returns the growth of each resource that grew from the second quarter to the last, as text."""
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    grown = {}
    for name in Sample._fields:
        before = median(getattr(one, name) for one in early)
        after = median(getattr(one, name) for one in late)
        if after - before > (_MOST_GROWTH if name == "memory_bytes" else 0):
            grown[name] = f"{before:,.0f} -> {after:,.0f}"
    return grown


def main() -> int:
    """Does turns until the time is over; returns the exit status, which is 1 if a resource has grown."""
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    end, turns = time.monotonic() + 60 * given.minutes, 0
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="litert-npu-soak-") as folder:
        soak = Soak(Path(folder), given.seed)
        while time.monotonic() < end or len(samples) < 8:
            for _ in range(_TURNS_IN_A_SAMPLE):
                soak.turn()
            turns += _TURNS_IN_A_SAMPLE
            samples.append(sample())
        soak.close()
    last = samples[-1]
    print(
        f"{turns:,} turns; at the end {last.memory_bytes >> 20} MiB, {last.open_files} open files,"
    )
    print(
        f"{last.threads} threads ({threading.active_count()} of Python), {last.children} children"
    )
    grown = judge(samples)
    print("FLAT" if not grown else f"GROWN: {'; '.join(f'{k} {v}' for k, v in grown.items())}")
    return int(bool(grown))


if __name__ == "__main__":
    sys.exit(main())
