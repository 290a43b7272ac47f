"""Hardware that may run a model; the names and numbers are those of `ai_edge_litert`."""

from enum import IntFlag


class HardwareAccelerator(IntFlag):
    """Hardware that may run a model, as flags that `|` combines.

    NPU calls of a compiled file always run on the NPU, since the CPU cannot run them.

    Attributes:
      CPU: The CPU runs the ops that are not in NPU calls.
      GPU: This runtime uses no GPU. GPU alone is an error; GPU with other hardware is ignored with a warning.
      NPU: The NPU runs its calls. With NPU alone, every op must be in an NPU call.
    """

    CPU = 1
    GPU = 2
    NPU = 4
