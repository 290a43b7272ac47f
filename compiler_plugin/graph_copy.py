"""Copies ops into a subgraph, with the tensors that they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compiler_plugin.leftovers import block_scales
from litert.model.graph import Buffer, Op, OperatorCode, Subgraph, Tensor


def copy_ops(
    name: str,
    inputs: Sequence[Tensor],
    ops: Sequence[Op],
    outputs: Sequence[Tensor],
    *,
    share_buffers: bool = False,
) -> Subgraph:
    """A subgraph with copies of ops, and of the tensors that they have; `share_buffers` as for `GraphCopy`.

    Bytes are shared, and so are builtin options, which cannot be changed.
    """
    subgraph = Subgraph(name)
    copy = GraphCopy(subgraph, share_buffers=share_buffers)
    subgraph.inputs = [copy.tensor(tensor) for tensor in inputs]
    subgraph.ops = copy.ops(ops)
    subgraph.outputs = [copy.tensor(tensor) for tensor in outputs]
    return subgraph


class GraphCopy:
    """Copies into one subgraph; what two ops share their copies share."""

    def __init__(
        self,
        into: Subgraph,
        known: Mapping[Tensor, Tensor] | None = None,
        *,
        share_buffers: bool,
    ) -> None:
        """Copies nothing yet.

        Args:
          into: gets the tensors; its ops, inputs and outputs are the caller's to set.
          known: tensors that have a counterpart in `into` already.
          share_buffers: whether copies have the originals' buffers and operator codes.
        """
        self._into = into
        self._tensors: dict[Tensor, Tensor] = dict(known or {})
        self._buffers: dict[Buffer, Buffer] | None = None if share_buffers else {}
        self._codes: dict[OperatorCode, OperatorCode] = {}

    def tensor(self, tensor: Tensor) -> Tensor:
        """The copy of a tensor, without an op; the tensors that its quantization names come along."""
        waiting, blockwise = [tensor], []
        while waiting:
            original = waiting.pop()
            if original not in self._tensors:
                self._tensors[original] = self._clone(original)
                if original.blockwise is not None:
                    blockwise.append(original)
                    waiting += block_scales(original)
        for original in blockwise:
            self._name_copies(original)
        return self._tensors[tensor]

    def ops(self, ops: Sequence[Op]) -> list[Op]:
        """Copies of ops, which no subgraph has yet."""
        return [self._op(op) for op in ops]

    def _op(self, op: Op) -> Op:
        copy = Op(
            self._code(op.code),
            [None if tensor is None else self.tensor(tensor) for tensor in op.inputs],
            [self.tensor(tensor) for tensor in op.outputs],
            op.options,
            op.custom_options,
        )
        copy.options_2 = op.options_2
        copy.custom_options_format = op.custom_options_format
        copy.has_large_custom_options = op.has_large_custom_options
        if op.intermediates:
            copy.intermediates = tuple(
                None if tensor is None else self.tensor(tensor) for tensor in op.intermediates
            )
        copy.mutating_variable_inputs = op.mutating_variable_inputs
        copy.debug_metadata_index = op.debug_metadata_index
        return copy

    def _code(self, code: OperatorCode) -> OperatorCode:
        if self._buffers is None:
            return code
        if code not in self._codes:
            self._codes[code] = copy = OperatorCode(
                code.builtin_code, code.custom_code, code.version
            )
            copy.fields = code.fields
        return self._codes[code]

    def _clone(self, tensor: Tensor) -> Tensor:
        copy = tensor.clone()
        self._into.tensors.append(copy)
        if self._buffers is not None:
            old = tensor.buffer
            copy.buffer = self._buffers.setdefault(old, Buffer(old.blob, old.is_external))
        return copy

    def _name_copies(self, tensor: Tensor) -> None:
        """Has the copy's block-wise quantization name copies too."""
        copy, quantization = self._tensors[tensor], tensor.quantization
        assert quantization is not None and quantization.blockwise is not None
        old = quantization.blockwise
        scales, zero_points = (
            self._tensors[named] if isinstance(named, Tensor) else named
            for named in (old.scales, old.zero_points)
        )
        blockwise = replace(old, scales=scales, zero_points=zero_points)
        quantization = replace(quantization, blockwise=blockwise)
        if copy.quantization_table is None:
            copy.quantization = quantization
        else:
            copy.keep_quantization(copy.quantization_table, quantization)
