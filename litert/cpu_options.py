"""Options for the ops that run on the CPU, with the field names of `ai_edge_litert.cpu_options`."""

from __future__ import annotations

from dataclasses import dataclass

from litert.cpu_kernel_mode import CpuKernelMode


@dataclass
class CpuOptions:
    """Options for the ops that the CPU runs.

    Attributes:
      num_threads: Number of CPU threads that one run uses; 0 means one thread.
      kernel_mode: Kind of kernels that the CPU runs; None means DELEGATE.
      enable_ynnpack: Ignored, because stock LiteRT's interpreter has no YNNPACK and uses XNNPACK.
      xnnpack_flags: Ignored with a warning, because XNNPACK runs with stock LiteRT's flags.
      xnnpack_weight_cache_path: Ignored with a warning, because XNNPACK runs without a weight cache.
    """

    num_threads: int = 0
    kernel_mode: CpuKernelMode | None = None
    enable_ynnpack: bool = False
    xnnpack_flags: int | None = None
    xnnpack_weight_cache_path: str = ""
