"""The flags that make `litert-npu compare` find the vendor with planted errors, and the list of errors."""

from __future__ import annotations

from pathlib import Path

PLANTED = Path(__file__).parent
VENDOR = (
    f"--libs={PLANTED / 'vendor'}",
    f"--dispatch_library_path={PLANTED / 'vendor'}",
    "--soc_manufacturer=Planted",
)
TRIPLE = f"--reference_function=Triple,{PLANTED / 'network.py'}:triple"

ERRORS = {
    "kernel": "bent",
    "last row": "pointwise",
    "scale": "qconv",
    "zero point": "qpointwise",
    "inputs": "mixed",
    "padding": "conv",
    "activation": "depthwise",
    "half": "energy",
    "channel": "logits",
    "race": "added",
}
"""The errors, each with the tensor whose op gets it."""
