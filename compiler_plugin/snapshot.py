"""Detects whether a plugin has changed a subgraph that it may only read."""

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
    """The state of a subgraph at one moment; the data of tensors is not copied."""

    ops: dict[Op, _Fields]
    tensors: dict[Tensor, _Fields]
    ends: _Fields

    @classmethod
    def take(cls, subgraph: Subgraph) -> Snapshot:
        """Records the ops, tensors, inputs and outputs of a subgraph."""
        return cls(
            {op: _op_fields(op) for op in subgraph.ops},
            {tensor: _tensor_fields(tensor) for tensor in subgraph.tensors},
            _ends(subgraph),
        )

    def find_change(self, subgraph: Subgraph) -> str:
        """Returns the first difference, such as `the ops` or `op 3 (CONV_2D)`; "" if nothing has changed."""
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
