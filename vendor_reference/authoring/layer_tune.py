"""`litert-npu layer tune`: what local sizes cost on this device."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from statistics import median

import numpy as np

from litert.core.errors import LiteRtError
from litert.core.progress import told
from litert.core.status import Status
from vendor_reference.authoring.compiled_layer import LayerOptions, compile_layer
from vendor_reference.authoring.kernel_listing import find_signature
from vendor_reference.authoring.layer_run import Array, RunningLayer, run_on_device
from vendor_reference.authoring.local_size_edit import copy_with_local_size
from vendor_reference.authoring.local_sizes import LocalSize
from vendor_reference.authoring.subject import Subject, check_alike
from vendor_reference.executable.executable import work_size

_RELATIVE, _ABSOLUTE = 1e-4, 1e-5  # sums in another order


@dataclass(frozen=True, slots=True)
class TuneStart:
    """A layer before it is tuned.

    Attributes:
      global_sizes: of each op.
      local_size: that it has; empty is the driver's choice.
      most_items: in a group, that the device takes of this kernel.
      measured: index of the op with the most work items: it is measured.
    """

    global_sizes: Sequence[Sequence[int]]
    local_size: LocalSize
    most_items: int
    measured: int


def begin_tuning(options: LayerOptions, subjects: Sequence[Subject]) -> TuneStart:
    """Compiles a layer for all its ops, to know its sizes.

    Raises:
      LiteRtError: what is wrong with the layer; UNSUPPORTED, for ops whose sizes have other numbers of dimensions.
    """
    global_sizes: list[LocalSize] = []
    local_sizes: list[LocalSize] = []
    most_items = []
    for subject in subjects:
        with compile_layer(subject, options) as compiled:
            task, program = compiled.find_kernel()
            signature = find_signature(program, task.entry)
            bounds = [shape.bound for shape in compiled.function.shapes]
            sizes = task.global_size, task.local_size
            items, group = work_size(*sizes, bounds.__getitem__, options.path)
            global_sizes.append(items)
            local_sizes.append(group or ())
            most_items.append(signature.max_group_size if signature else 256)
    what = "ops whose global sizes have other numbers of dimensions"
    check_alike(map(len, global_sizes), what, options.path)
    measured = max(range(len(subjects)), key=lambda index: prod(global_sizes[index]))
    return TuneStart(global_sizes, local_sizes[measured], min(most_items), measured)


def run_outputs(subject: Subject, options: LayerOptions, arrays: Sequence[Array]) -> list[Array]:
    """What a layer makes of some inputs.

    Raises:
      LiteRtError: RUNTIME_FAILURE, if the kernel does what it must not.
    """
    with compile_layer(subject, options) as compiled, run_on_device(compiled) as running:
        running.set_inputs(arrays)
        return _run(running, options.path)


def try_local_size(
    subject: Subject,
    options: LayerOptions,
    size: LocalSize,
    arrays: Sequence[Array],
    expected: Sequence[Array],
    repeat: int,
) -> float:
    """The median of a kernel's time with a local size, in seconds.

    Raises:
      LiteRtError: RUNTIME_FAILURE, if the outputs are not those expected; what the device says of the size.
    """
    with (
        copy_with_local_size(options, subject.op, size) as copied,
        compile_layer(subject, copied) as compiled,
        run_on_device(compiled) as running,
    ):
        running.set_inputs(arrays)
        for actual, wanted in zip(_run(running, options.path), expected, strict=True):
            is_alike = actual.shape == wanted.shape
            if not is_alike or not np.allclose(actual, wanted, _RELATIVE, _ABSOLUTE, True):
                raise LiteRtError(
                    Status.RUNTIME_FAILURE, "other outputs: the kernel counts on its groups"
                )
        return median(running.measure_kernel(repeat))


def compare_local_sizes(
    subject: Subject,
    options: LayerOptions,
    sizes: Sequence[LocalSize],
    arrays: Sequence[Array],
    rounds: int,
) -> list[list[float]]:
    """Times of a kernel in seconds, for each local size one from each round: they run in turn."""
    with ExitStack() as stack:
        running: list[RunningLayer] = []
        for size in sizes:
            copied = stack.enter_context(copy_with_local_size(options, subject.op, size))
            compiled = stack.enter_context(compile_layer(subject, copied))
            running.append(stack.enter_context(run_on_device(compiled)))
            running[-1].set_inputs(arrays)
            running[-1].measure_kernel(1)
        times: list[list[float]] = [[] for _ in sizes]
        for number in told("compare", range(rounds)):
            # Who comes first changes, as what runs before another leaves the caches to it.
            for index in range(len(sizes)):
                place = (index + number) % len(sizes)
                times[place].append(min(running[place].measure_kernel(2)))
        return times


def _run(running: RunningLayer, path: str) -> list[Array]:
    outputs, problems = running.run()
    if problems:
        raise LiteRtError(Status.RUNTIME_FAILURE, "; ".join(problems), path)
    return outputs
