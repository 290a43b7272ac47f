"""The reference vendor's own options: `--reference_ops=auto`, `--reference_fp16=half`."""

from __future__ import annotations

from collections.abc import Mapping

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from vendor_reference.compiler.half_tensors import HalfTensors

REFERENCE_OPS = "reference_ops"
REFERENCE_FP16 = "reference_fp16"
AUTO, ALL, NONE = "auto", "all", "none"
DEFAULT_OPS = NONE
"""Default value of `--reference_ops`."""

OPTIONS = {
    REFERENCE_OPS: "Builtin ops that the reference vendor's NPU takes if it supports them: auto "
    "(the ops that are expected to run faster there), all, none (the default), or "
    "names of ops, separated by commas.",
    REFERENCE_FP16: "Element type of float16 tensors in kernels that do not name a type: half, "
    "float, or device (the default: half on a device with fp16 arithmetic, float "
    "on others).",
}
"""Names of the options, with their descriptions."""


def check_options(options: Mapping[str, str]) -> None:
    """Rejects unknown options, and values that an option cannot have."""
    for name in options:
        if name not in OPTIONS:
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"no option '{name}'",
                "vendor 'Reference'",
                did_you_mean(name, OPTIONS) or f"It has {', '.join(OPTIONS)}.",
            )
    half_tensors(options)


def half_tensors(options: Mapping[str, str]) -> HalfTensors:
    """Returns the value of `--reference_fp16`."""
    value = options.get(REFERENCE_FP16, HalfTensors.DEVICE.value)
    *others, last = [known.value for known in HalfTensors]
    try:
        return HalfTensors(value)
    except ValueError:
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"--{REFERENCE_FP16}={value}",
            "vendor 'Reference'",
            f"Use {', '.join(others)} or {last}: what half tensors are in kernels.",
        ) from None
