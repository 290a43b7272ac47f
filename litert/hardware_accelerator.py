"""Kinds of hardware that may run a model, with the names and numbers of `ai_edge_litert`."""

from enum import IntFlag


class HardwareAccelerator(IntFlag):
    """Hardware that may run a model, as flags that can be combined with `|`.

    NPU calls of a compiled file always run on the NPU, since the CPU cannot run them.

    Attributes:
      CPU: The CPU runs the ops that are not in NPU calls.
      GPU: This runtime uses no GPU. If a GPU is the only hardware, an error is raised; if other hardware is
        allowed, too, the GPU is ignored with a warning.
      NPU: The NPU runs the NPU calls, the parts of the model that were compiled for the NPU. If only the NPU is
        allowed, every op must be in an NPU call.
    """

    CPU = 1
    GPU = 2
    NPU = 4
