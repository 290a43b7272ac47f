"""Copies ops and their tensors into a subgraph."""

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
    data: CopiedData | None,
) -> Subgraph:
    """Returns a new subgraph with copies of ops and of their tensors; `data` is the same as for `GraphCopy`.

    The copies share constant bytes and builtin options with the originals, because both are immutable.
    """
    subgraph = Subgraph(name)
    copy = GraphCopy(subgraph, data=data)
    subgraph.inputs = [copy.tensor(tensor) for tensor in inputs]
    subgraph.ops = copy.ops(ops)
    subgraph.outputs = [copy.tensor(tensor) for tensor in outputs]
    return subgraph


class CopiedData:
    """Copies of buffers and operator codes; copied tensors share a buffer if the original tensors share one.

    Subgraphs that a vendor compiles together are copied with one `CopiedData`.
    """

    def __init__(self) -> None:
        self._buffers: dict[Buffer, Buffer] = {}
        self._codes: dict[OperatorCode, OperatorCode] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        """Returns the copy of a buffer; both share the same bytes."""
        copy = self._buffers.get(buffer)
        if copy is None:
            copy = self._buffers[buffer] = Buffer(buffer.blob, buffer.is_external)
        return copy

    def code(self, code: OperatorCode) -> OperatorCode:
        """Returns the copy of an operator code."""
        copy = self._codes.get(code)
        if copy is None:
            copy = OperatorCode(code.builtin_code, code.custom_code, code.version)
            copy.fields = code.fields
            self._codes[code] = copy
        return copy


class GraphCopy:
    """Copies ops and their tensors into one subgraph; a tensor that several ops use is copied once."""

    def __init__(
        self,
        into: Subgraph,
        known: Mapping[Tensor, Tensor] | None = None,
        *,
        data: CopiedData | None,
    ) -> None:
        """Creates an object that copies ops and tensors into a subgraph.

        Args:
          into: Subgraph that gets the tensors; the caller sets the ops, inputs and outputs of the subgraph.
          known: Maps tensors that are not copied to the tensors of `into` that replace them.
          data: Buffers and operator codes for the copies; None means that the copies use the original buffers and
            operator codes.
        """
        self._into = into
        self._tensors: dict[Tensor, Tensor] = dict(known or {})
        self._data = data

    def tensor(self, tensor: Tensor) -> Tensor:
        """Copies a tensor without the op that writes it; also copies the tensors of its quantization."""
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
        """Copies ops and their tensors; the caller adds the copied ops to a subgraph."""
        return [self._op(op) for op in ops]

    def _op(self, op: Op) -> Op:
        copy = Op(
            op.code if self._data is None else self._data.code(op.code),
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

    def _clone(self, tensor: Tensor) -> Tensor:
        copy = tensor.clone()
        self._into.tensors.append(copy)
        if self._data is not None:
            copy.buffer = self._data.buffer(tensor.buffer)
        return copy

    def _name_copies(self, tensor: Tensor) -> None:
        """Makes the block-wise quantization of a copy refer to copied tensors."""
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
