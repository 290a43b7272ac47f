"""Whether a subgraph is still as it was: a plugin that is asked about it may look, and not change it."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from litert.model.graph import Op, Subgraph, Tensor

_Fields = tuple[Any, ...]

_OP_FIELDS = attrgetter(
    "code", "code.builtin_code", "code.custom_code", "code.version", "options", "options_2",
    "custom_options", "intermediates",
)  # fmt: skip
_TENSOR_FIELDS = attrgetter(
    "name", "element_type", "shape", "shape_signature", "buffer", "buffer.blob", "is_variable",
    "sparsity", "producer", "uses",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a subgraph was when it was taken; it holds the subgraph's objects, and copies no bytes."""

    ops: dict[Op, _Fields]
    tensors: dict[Tensor, _Fields]
    ends: _Fields

    @classmethod
    def take(cls, subgraph: Subgraph) -> Snapshot:
        """Remembers all but what is behind a look: a quantization may be decoded meanwhile."""
        return cls(
            {op: _op_fields(op) for op in subgraph.ops},
            {tensor: _tensor_fields(tensor) for tensor in subgraph.tensors},
            _ends(subgraph),
        )

    def find_change(self, subgraph: Subgraph) -> str:
        """What differs now, as in `the ops`, `op 3 (CONV_2D)`, `tensor 'x'`; "" where nothing does."""
        if list(self.ops) != subgraph.ops:
            return "the ops"
        if list(self.tensors) != subgraph.tensors:
            return "the tensors"
        if self.ends != _ends(subgraph):
            return "the name, inputs or outputs"
        for index, (op, fields) in enumerate(self.ops.items()):
            if fields != _op_fields(op):
                return f"op {index} ({op.name})"
        for tensor, fields in self.tensors.items():
            if fields != _tensor_fields(tensor):
                return f"tensor {tensor.name!r:.100}"
        return ""


def _ends(subgraph: Subgraph) -> _Fields:
    return subgraph.name, tuple(subgraph.inputs), tuple(subgraph.outputs)


def _op_fields(op: Op) -> _Fields:
    return *_OP_FIELDS(op), tuple(op.inputs), tuple(op.outputs)


def _tensor_fields(tensor: Tensor) -> _Fields:
    table = tensor.quantization_table
    return *_TENSOR_FIELDS(tensor), tensor.quantization if table is None else table
