"""Makes the two sides of a benchmark of runs: a loaded model with its buffers, and a bare OpenCL kernel."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vendor_reference.drivers.driver import known_drivers

Run = Callable[[], object]
Read = Callable[[], "np.ndarray[Any, Any]"]


def load(
    package: Any,
    path: Path,
    accelerator: str,
    threads: int,
    inputs: np.ndarray[Any, Any],
    **more_options: Any,
) -> tuple[Run, Read]:
    """Loads a model with one input and one output, in `litert` or in stock LiteRT's package.

    Args:
      package: Package with CompiledModel and its related classes.
      path: Path of the model.
      accelerator: Name of the accelerator to use together with the CPU.
      threads: Number of threads for the CPU parts.
      inputs: Values of the input, which are written once to a buffer that the model made.
      more_options: Further options, for example options that only one of the two packages has.

    Returns:
      A function that runs the model, and a function that reads its output as a flat array.
    """
    accelerators = package.HardwareAccelerator
    options = package.Options(
        hardware_accelerators=accelerators[accelerator] | accelerators.CPU,
        cpu_options=package.CpuOptions(num_threads=threads),
        **more_options,
    )
    model = package.CompiledModel.from_file(str(path), options=options)
    sources, results = model.create_input_buffers(0), model.create_output_buffers(0)
    sources[0].write(inputs)
    size = model.get_output_buffer_requirements(0)["buffer_size"] // 4

    def run() -> None:
        model.run_by_index(0, sources, results)

    return run, lambda: results[0].read(size, np.float32)


def limit_driver_threads(threads: int) -> None:
    """Limits the threads of all known OpenCL drivers, because any of them may be loaded later in this process."""
    for driver in known_drivers().values():
        if driver.threads_variable:
            os.environ[driver.threads_variable] = str(threads)


def bare_kernel(source: str, name: str, inputs: np.ndarray[Any, Any]) -> tuple[Run, Read]:
    """Returns a run and a read of a kernel with one input and one output of the same size, on pyopencl alone."""
    import pyopencl as cl

    from vendor_reference.device.opencl import load_npu

    device, _ = load_npu()
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    kernel = cl.Kernel(cl.Program(context, source).build(), name)
    flags = cl.mem_flags
    buffers = (
        cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=inputs),
        cl.Buffer(context, flags.WRITE_ONLY, inputs.nbytes),
    )
    kernel.set_args(*buffers)  # the kernel does not keep the buffers alive
    size = (inputs.size,)

    def run() -> None:
        cl.enqueue_nd_range_kernel(queue, kernel, size, None)
        queue.finish()

    def read() -> np.ndarray[Any, Any]:
        result = np.empty_like(inputs)
        cl.enqueue_copy(queue, result, buffers[1])
        return result

    return run, read
