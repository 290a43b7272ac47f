"""Which built-in defines of sizes a layer's text has: where it has none that a run tells, it is built once."""

from __future__ import annotations

import re

from litert.model.graph import Op
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.kernel_source import decode_source

_SIZES = re.compile(
    r"\b(?:(?:INPUT|OUTPUT)\d+_(?:DIMS|PITCHES|LOWER_PADDING|UPPER_PADDING|OFFSET)|"
    r"(?:GLOBAL|LOCAL)_WORKSIZE)(?:_INIT)?\b"
)


def find_mentions(layer: CustomLayer, op: Op) -> tuple[str, ...] | None:
    """The names, for an op with tensors of dynamic shape; None where the text can make up any, and for other ops.

    A name is looked for wherever it stands, also in comments; `##` can paste one together.
    """
    tensors = [t for t in (*op.inputs, *op.outputs) if t is not None]
    if all(tensor.type.layout.is_static for tensor in tensors):
        return None
    texts = [decode_source(file.data, file.path) for file in (*layer.sources, *layer.headers)]
    texts.append(layer.kernel.build_options)
    if any("##" in text or "\\\n" in text for text in texts):
        return None
    return tuple(sorted({name for text in texts for name in _SIZES.findall(text)}))
