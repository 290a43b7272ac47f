"""Finds constants that are unpacked by a DEQUANTIZE or DENSIFY; the NPU unpacks them once, before all runs."""

from __future__ import annotations

from litert.model.graph import Op, Tensor


def unpacked_constant(op: Op) -> Tensor | None:
    """Returns the constant that a DEQUANTIZE or DENSIFY unpacks; None for other ops.

    For the DEQUANTIZE of a sparse constant, this is the result of the DENSIFY.
    """
    if op.name not in ("DEQUANTIZE", "DENSIFY") or op.is_custom:
        return None
    stored = op.inputs[0] if op.inputs else None
    if stored is None or len(op.outputs) != 1:
        return None
    maker = stored.producer if op.name == "DEQUANTIZE" else None
    is_dense = maker is not None and maker.name == "DENSIFY" and unpacked_constant(maker)
    return stored if stored.is_constant or is_dense else None


def is_known_ahead(tensor: Tensor) -> bool:
    """Returns whether a tensor is a constant, or is unpacked from a constant before runs."""
    maker = tensor.producer
    return tensor.is_constant or (maker is not None and unpacked_constant(maker) is not None)
