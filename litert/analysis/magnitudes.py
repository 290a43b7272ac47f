"""Changes a model of one op into a model that computes the sum of the magnitudes of the op's terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from litert.core.element_type import ElementType
from litert.model.blob import Blob
from litert.model.graph import Buffer, Op, Subgraph
from litert.model.sparsity import dense_data
from litert.model.tensor_data import decode_constant

_ALL: Sequence[int] = ()
_SIGNS: Mapping[str, Sequence[int]] = {
    "SUB": (1, -1),
    **dict.fromkeys(
        ("ADD", "AVERAGE_POOL_2D", "BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "DIV",
         "FULLY_CONNECTED", "MEAN", "MUL", "SUM"),
        _ALL,
    ),
}  # fmt: skip
"""For each op that adds or multiplies, the signs of its inputs that make all terms positive.

An empty sequence means that all signs are 1.
"""


def remove_signs(subgraph: Subgraph) -> Sequence[int] | None:
    """Makes the op's constants positive where needed, and removes its fused activation.

    Returns:
      For each input of the subgraph, the sign by which the input's magnitude is multiplied. If the subgraph is not
      a single op that adds floats, nothing is changed and the result is None.
    """
    if len(subgraph.ops) != 1 or subgraph.ops[0].name not in _SIGNS:
        return None
    (op,) = subgraph.ops
    signs = dict(zip(op.inputs, _SIGNS[op.name] or (1,) * len(op.inputs), strict=True))
    is_float = op.outputs[0].element_type is ElementType.FLOAT32
    if not is_float or len(signs) < len(op.inputs):  # one tensor cannot have two signs
        return None
    for tensor, sign in signs.items():
        if tensor and tensor.is_constant and tensor.element_type is ElementType.FLOAT32:
            data = dense_data(tensor)
            values = sign * abs(decode_constant(tensor.element_type, tensor.shape, data))
            tensor.buffer, tensor.sparsity = Buffer(Blob(values.tobytes())), None
    _forget_activation(op)
    return [signs[tensor] for tensor in subgraph.inputs]


def _forget_activation(op: Op) -> None:
    if op.options and op.options.fields().get("fused_activation_function"):
        op.options = op.options.with_fields(fused_activation_function=None)
