"""The options of the reference vendor: `--reference_ops` and `--reference_fp16`."""

from __future__ import annotations

from collections.abc import Mapping

from litert.core.counts import names_text
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
    REFERENCE_OPS: "Builtin ops that run on the reference vendor's NPU: names of ops, "
    "separated by commas, or all, none (the default) or auto. With 'auto', only the ops that are "
    "expected to become faster run on the NPU. An op that the NPU does not support stays on "
    "the CPU.",
    REFERENCE_FP16: "Element type in which kernels get float16 tensors: half, float or device "
    "(the default). With 'device', the type is half on a device with fp16 arithmetic, and float "
    "on other devices. If a layer sets a type itself, its kernel gets that type.",
}
"""The descriptions of the options, by name."""


def check_options(options: Mapping[str, str]) -> None:
    """Rejects unknown options and invalid values."""
    for name in options:
        if name not in OPTIONS:
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"the vendor has no option '{name}'",
                "vendor 'Reference'",
                did_you_mean(name, OPTIONS) or f"{names_text('option', list(OPTIONS))}.",
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
            f"--{REFERENCE_FP16} is '{value}', but must be {', '.join(others)} or {last}",
            "vendor 'Reference'",
            "The option sets the element type in which kernels get float16 tensors.",
        ) from None
