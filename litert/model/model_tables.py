"""A model's tables in a flatbuffer; objects become indices again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import (
    PLACEHOLDER,
    Buffer,
    Metadata,
    Model,
    OperatorCode,
    Signature,
    Subgraph,
    Tensor,
)
from litert.model.schema_writer import Offsets, SchemaWriter
from litert.model.subgraph_tables import SubgraphTables

_IDENTIFIER = b"TFL3"


class ModelTables:
    """The tables of one model.

    Attributes:
      absolute: address of each ulong that is to hold a place in the file, and the place from the tables' end.
      calls: address of the custom options of each dispatch op, by the op's id.
    """

    def __init__(
        self,
        model: Model,
        inside: Mapping[int, int],
        outside: Mapping[int, int],
        call_options: Mapping[int, bytes],
    ) -> None:
        """Prepares the tables.

        Args:
          model: to be written.
          inside: places of data vectors, from the tables' end, by the blob's id.
          outside: places of data behind the flatbuffer.
          call_options: custom options of dispatch ops, by the op's id, of the size that they will have.
        """
        self._model = model
        self._writer = SchemaWriter(inside, outside)
        self._buffers = all_buffers(model)
        self._buffer_index = {id(buffer): i for i, buffer in enumerate(self._buffers)}
        self._codes = _all_codes(model)
        self._subgraph_index = {id(subgraph): i for i, subgraph in enumerate(model.subgraphs)}
        self._tensor_index: dict[int, dict[int, int]] = {}  # by the subgraph's id
        self._subgraphs = SubgraphTables(
            self._writer,
            self._buffer_index,
            {id(code): i for i, code in enumerate(self._codes)},
            call_options,
        )
        self.absolute = self._writer.absolute
        self.calls = self._subgraphs.calls

    def assemble(self, alignment: int) -> bytearray:
        """The tables, which end on a multiple of an alignment."""
        model, writer, out = self._model, self._writer, self._writer.out
        buffers = [self._buffer(buffer) for buffer in self._buffers]
        codes = [self._operator_code(code) for code in self._codes]
        metadata = [self._metadata(entry) for entry in model.metadata]
        subgraphs = [self._subgraph(subgraph) for subgraph in model.subgraphs]
        signatures = [self._signature(entry) for entry in model.signatures]
        groups = [writer.copier.copy(table) for table in model.external_buffer_groups]
        external = [writer.copier.copy(table) for table in model.external_buffers]
        old_metadata = [
            entry if isinstance(entry, int) else self._buffer_index[id(entry)]
            for entry in model.metadata_buffers
        ]
        offsets = [
            *writer.tables_field(1, codes, model.operator_codes),
            *writer.tables_field(2, subgraphs, model.subgraphs),
            *([] if model.description is None else [(3, out.text(model.description))]),
            *writer.tables_field(4, buffers, model.buffers),
            *writer.int_field(5, old_metadata, model.metadata_buffers),
            *writer.tables_field(6, metadata, model.metadata),
            *writer.tables_field(7, signatures, model.signatures),
            *writer.tables_field(8, groups, model.external_buffer_groups),
            *writer.tables_field(9, external, model.external_buffers),
        ]
        return out.finish(out.table(offsets, [(0, "I", model.version)]), _IDENTIFIER, alignment)

    def _buffer(self, buffer: Buffer) -> int:
        out, blob = self._writer.out, buffer.blob
        if blob is None:
            return out.table([])
        vector = None if buffer.is_external else self._writer.data_vector(blob)
        if vector is None:
            return self._writer.table_with_data([], [], 1, blob)
        return out.pack(out.layout((0,), ()), (vector,))

    def _operator_code(self, code: OperatorCode) -> int:
        deprecated, builtin = code.fields
        if max(deprecated, builtin) != code.builtin_code:  # it was changed
            deprecated, builtin = min(code.builtin_code, PLACEHOLDER), code.builtin_code
        custom = code.custom_code
        return self._writer.out.table(
            [] if custom is None else [(1, self._writer.out.text(custom))],
            [(2, "i", code.version), (3, "i", builtin), (0, "b", deprecated)],
        )

    def _metadata(self, entry: Metadata) -> int:
        return self._writer.out.table(
            self._writer.text_field(0, entry.name),
            [(1, "I", self._buffer_index[id(entry.buffer)])],
        )

    def _subgraph(self, subgraph: Subgraph) -> int:
        index = {id(tensor): i for i, tensor in enumerate(subgraph.tensors)}
        self._tensor_index[id(subgraph)] = index
        try:
            return self._subgraphs.add(subgraph, index)
        except KeyError:
            raise _not_held_together(subgraph) from None

    def _signature(self, signature: Signature) -> int:
        writer, subgraph = self._writer, signature.subgraph
        number = self._subgraph_index.get(id(subgraph))
        if number is None:
            raise LiteRtError(
                Status.INVALID_GRAPH_INVARIANT,
                f"signature '{signature.key}' is of a subgraph that the model does not have",
            )
        offsets = [
            *self._tensor_map(0, signature.inputs, subgraph),
            *self._tensor_map(1, signature.outputs, subgraph),
            *writer.text_field(2, signature.key),
        ]
        return writer.out.table(offsets, [(4, "I", number)])

    def _tensor_map(
        self, slot: int, entries: Sequence[tuple[str, Tensor]], subgraph: Subgraph
    ) -> Offsets:
        writer, index = self._writer, self._tensor_index[id(subgraph)]
        try:
            tables = [
                writer.out.table(writer.text_field(0, name), [(1, "I", index[id(tensor)])])
                for name, tensor in entries
            ]
        except KeyError:
            raise _not_held_together(subgraph) from None
        return writer.tables_field(slot, tables, entries)


def all_buffers(model: Model) -> list[Buffer]:
    """The model's buffers, then those that only a tensor or a metadata entry has."""
    seen = {id(buffer) for buffer in model.buffers}
    buffers = list(model.buffers)
    used = [tensor.buffer for subgraph in model.subgraphs for tensor in subgraph.tensors]
    used += [entry.buffer for entry in model.metadata]
    used += [entry for entry in model.metadata_buffers if isinstance(entry, Buffer)]
    for buffer in used:
        if id(buffer) not in seen:
            seen.add(id(buffer))
            buffers.append(buffer)
    return buffers


def _all_codes(model: Model) -> list[OperatorCode]:
    """The model's operator codes, then those that only an op has."""
    seen = {id(code) for code in model.operator_codes}
    codes = list(model.operator_codes)
    for op in model.ops():
        if id(op.code) not in seen:
            seen.add(id(op.code))
            codes.append(op.code)
    return codes


def _not_held_together(subgraph: Subgraph) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_GRAPH_INVARIANT,
        f"subgraph '{subgraph.name}' uses a tensor that is not among its tensors",
    )
