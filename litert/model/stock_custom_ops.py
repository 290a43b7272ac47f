"""The names of the custom ops that stock LiteRT implements on the CPU; other custom ops run only in NPU calls."""

from __future__ import annotations

from collections.abc import Sequence

from litert.model.dispatch_op import is_dispatch_op
from litert.model.graph import Model

_STOCK_CUSTOM_OPS = {
    "AudioSpectrogram", "Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D",
    "Mfcc", "NumericVerify", "TFLite_Detection_PostProcess", "aeq.hadamard_rotation",
    "odml.scaled_dot_product_attention",
}  # fmt: skip
"""Custom ops for which the interpreter of ai-edge-litert 2.3.0 or its delegate XNNPACK has a kernel."""


def find_not_runnable(model: Model) -> Sequence[str]:
    """Returns the names of those ops of a compiled model that neither an NPU call nor stock LiteRT can run.

    If the result contains several ops with the same name, the name occurs several times.
    """
    return [
        op.name
        for op in model.ops()
        if op.is_custom and not is_dispatch_op(op) and op.name not in _STOCK_CUSTOM_OPS
    ]
