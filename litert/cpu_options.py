"""How the CPU runs its part of a model; fields are those of `ai_edge_litert.cpu_options`."""

from __future__ import annotations

from dataclasses import dataclass

from litert.cpu_kernel_mode import CpuKernelMode


@dataclass
class CpuOptions:
    """Options of the CPU.

    Attributes:
      num_threads: of one run; 0 is the runtime's choice, which is 1.
      kernel_mode: None is DELEGATE.
      enable_ynnpack: there is none in stock's interpreter, which takes XNNPACK instead.
      xnnpack_flags: stock's interpreter has its own; others are left out with a warning.
      xnnpack_weight_cache_path: as the flags.
    """

    num_threads: int = 0
    kernel_mode: CpuKernelMode | None = None
    enable_ynnpack: bool = False
    xnnpack_flags: int | None = None
    xnnpack_weight_cache_path: str = ""
