"""Which kernels the CPU runs; names and numbers are `ai_edge_litert`'s."""

from enum import IntEnum


class CpuKernelMode(IntEnum):
    """LiteRT's `LiteRtCpuKernelMode`.

    Attributes:
      DELEGATE: XNNPACK's where it has them, else the builtin ones.
      XNNPACK: an older name for the same.
      REFERENCE: plain C++, slow.
      BUILTIN: TensorFlow Lite's optimized ones.
    """

    DELEGATE = 0
    XNNPACK = 0
    REFERENCE = 1
    BUILTIN = 2
