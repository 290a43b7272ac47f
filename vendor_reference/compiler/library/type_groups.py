"""Element types that kernels of the library treat alike."""

from __future__ import annotations

from litert.core.element_type import ElementType

FLOATS = (ElementType.FLOAT32, ElementType.FLOAT16)
INTEGERS = (ElementType.INT32, ElementType.INT64)
BYTES = (ElementType.INT8, ElementType.UINT8)
WITH_SHORTS = (*BYTES, ElementType.INT16)
"""Quantized types; of most functions of int16, stock's interpreter has an approximation of its own."""
