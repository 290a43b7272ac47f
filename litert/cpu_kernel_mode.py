"""The kind of kernels that the CPU runs, with the names and numbers of `ai_edge_litert`."""

from enum import IntEnum


class CpuKernelMode(IntEnum):
    """The kind of kernels that the CPU runs (LiteRT's `LiteRtCpuKernelMode`).

    Attributes:
      DELEGATE: XNNPACK's kernels, and TensorFlow Lite's builtin kernels for ops that XNNPACK does not support.
      XNNPACK: An older name of DELEGATE.
      REFERENCE: Slow kernels in plain C++.
      BUILTIN: TensorFlow Lite's optimized kernels.
    """

    DELEGATE = 0
    XNNPACK = 0
    REFERENCE = 1
    BUILTIN = 2
