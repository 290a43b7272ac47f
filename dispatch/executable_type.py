"""What kind of module byte code is; interface and graph part have it in common."""

from __future__ import annotations

from enum import IntEnum


class ExecutableType(IntEnum):
    """LiteRT's `LiteRtDispatchExecutableType`."""

    UNKNOWN = 0
    DSP_LIBRARY = 1
    ML_MODEL = 2
    JIT_HANDLE = 3
    TFLITE_MODEL = 4
