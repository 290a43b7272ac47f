"""Which hardware may run a model; names and numbers are `ai_edge_litert`'s."""

from enum import IntFlag


class HardwareAccelerator(IntFlag):
    """Flags, to be combined with `|`.

    NPU calls of a compiled file run on the NPU whatever is given here: they are nothing that a CPU can run.

    Attributes:
      CPU: the CPU runs what is not for the NPU.
      GPU: there is none in this runtime: alone it is refused, else it is left out with a warning.
      NPU: alone, every op must be in an NPU call.
    """

    CPU = 1
    GPU = 2
    NPU = 4
