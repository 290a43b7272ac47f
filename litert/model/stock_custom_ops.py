"""Custom ops that stock LiteRT's CPU has kernels for; nothing runs others that no NPU call has."""

from __future__ import annotations

from collections.abc import Sequence

from litert.model.dispatch_op import is_dispatch_op
from litert.model.graph import Model

_STOCK_CUSTOM_OPS = {
    "AudioSpectrogram", "Convolution2DTransposeBias", "MaxPoolingWithArgmax2D", "MaxUnpooling2D",
    "Mfcc", "NumericVerify", "TFLite_Detection_PostProcess", "aeq.hadamard_rotation",
    "odml.scaled_dot_product_attention",
}  # fmt: skip
"""Of stock's interpreter, or XNNPACK in it, in ai-edge-litert 2.3.0."""


def find_not_runnable(model: Model) -> Sequence[str]:
    """Names of the ops of a model with NPU calls that neither they nor stock's CPU run, once for each op."""
    return [
        op.name
        for op in model.ops()
        if op.is_custom and not is_dispatch_op(op) and op.name not in _STOCK_CUSTOM_OPS
    ]
