"""`litert-npu layer tune`: measures a layer with different local sizes on this device."""

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

_RELATIVE, _ABSOLUTE = 1e-4, 1e-5  # kernels with other groups may add in another order


@dataclass(frozen=True, slots=True)
class TuneStart:
    """The state of a layer before other local sizes are tried.

    Attributes:
      global_sizes: Global work size of each op.
      local_size: Local size in the layer's description; empty if the driver chooses.
      most_items: Maximum number of work items that the device supports in a work group of this kernel.
      measured: Index of the op with the most work items, which is the op to measure.
    """

    global_sizes: Sequence[Sequence[int]]
    local_size: LocalSize
    most_items: int
    measured: int


def begin_tuning(options: LayerOptions, subjects: Sequence[Subject]) -> TuneStart:
    """Compiles a layer for all its ops, and returns its sizes.

    Raises:
      LiteRtError: UNSUPPORTED, if the ops' global sizes have different numbers of dimensions; another status, for
        any other problem with the layer.
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
    what = (
        "one local size cannot fit all the ops, because their global work sizes have different numbers of "
        "dimensions"
    )
    check_alike(map(len, global_sizes), what, options.path)
    measured = max(range(len(subjects)), key=lambda index: prod(global_sizes[index]))
    return TuneStart(global_sizes, local_sizes[measured], min(most_items), measured)


def run_outputs(subject: Subject, options: LayerOptions, arrays: Sequence[Array]) -> list[Array]:
    """Runs a layer on given inputs, and returns its outputs.

    Raises:
      LiteRtError: RUNTIME_FAILURE, if the checks find forbidden behaviour of the kernel.
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
    """Returns the median time of a kernel with a local size, in seconds.

    Raises:
      LiteRtError: RUNTIME_FAILURE, if the outputs differ from the expected outputs; any error of the device for
        this local size.
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
                    Status.RUNTIME_FAILURE,
                    "the outputs differ from those with the old local size, so the kernel's results depend on "
                    "the local size",
                )
        return median(running.measure_kernel(repeat))


def compare_local_sizes(
    subject: Subject,
    options: LayerOptions,
    sizes: Sequence[LocalSize],
    arrays: Sequence[Array],
    rounds: int,
) -> list[list[float]]:
    """Measures a kernel with each local size in turn.

    Returns one time per round for each local size, in seconds.
    """
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
            # The order changes from round to round, since each call finds the caches as the call
            # before it left them.
            for index in range(len(sizes)):
                place = (index + number) % len(sizes)
                times[place].append(min(running[place].measure_kernel(2)))
        return times


def _run(running: RunningLayer, path: str) -> list[Array]:
    outputs, problems = running.run()
    if problems:
        raise LiteRtError(Status.RUNTIME_FAILURE, "; ".join(problems), path)
    return outputs
