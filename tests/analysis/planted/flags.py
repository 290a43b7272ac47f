"""How `litert-npu compare` finds the vendor that errors are planted in, and which errors there are."""

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
"""Where each is planted."""
