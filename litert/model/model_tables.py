"""A model's tables in a flatbuffer; objects become indices again.

What is everywhere, tensors and ops, is packed with few steps: `Assembler.pack` rather than `table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import ConstantTensor
from litert.core.status import Status
from litert.model import schema
from litert.model.absent import is_absent
from litert.model.assembler import Assembler, Layout
from litert.model.blob import Blob
from litert.model.graph import (
    PLACEHOLDER,
    Buffer,
    Metadata,
    Model,
    Op,
    OperatorCode,
    Signature,
    Subgraph,
    Tensor,
)
from litert.model.placement import SIZE_PREFIX
from litert.model.quantization_table import quantization_table, with_indices
from litert.model.table import Table
from litert.model.table_copy import TableCopier

_IDENTIFIER = b"TFL3"

_TENSOR_TYPES = {ElementType[name]: number for number, name in schema.ENUMS["TensorType"].items()}
_OPTIONS = {name: number for number, name in schema.UNIONS["BuiltinOptions"].items()}
_OPTIONS_2 = {name: number for number, name in schema.UNIONS["BuiltinOptions2"].items()}

_Offsets = list[tuple[int, int]]  # slot, and address of what it points at
_Scalars = list[tuple[int, str, Any]]  # slot, code for `struct`, value

_TENSOR_OFFSETS = (0, 3, 4, 7, 6, 9)  # shape, name, quantization, signature, sparsity, variants
_TENSOR_SCALARS = (
    (2, "I"),
    (10, "I"),
    (1, "b"),
    (5, "?"),
    (8, "?"),
)  # buffer, external, type, flags

_OP = ((1, 2), ((0, "I"),))  # inputs and outputs; operator code
_OP_WITH_OPTIONS = ((1, 2, 4), ((0, "I"), (3, "B")))


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
        calls: Mapping[int, bytes],
    ) -> None:
        """Prepares the tables.

        Args:
          model: to be written.
          inside: places of data vectors, from the tables' end, by the blob's id.
          outside: places of data behind the flatbuffer.
          calls: custom options of dispatch ops, by the op's id, of the size that they will have.
        """
        self._model = model
        self._inside = inside
        self._outside = outside
        self._call_options = calls
        self._out = Assembler()
        self._copier = TableCopier(self._out)
        self._buffers = all_buffers(model)
        self._buffer_index = {id(buffer): i for i, buffer in enumerate(self._buffers)}
        self._codes = _all_codes(model)
        self._code_index = {id(code): i for i, code in enumerate(self._codes)}
        self._tensor_index: dict[int, dict[int, int]] = {}  # by the subgraph's id
        self.absolute: list[tuple[int, int]] = []
        self.calls: dict[int, int] = {}

    def assemble(self, alignment: int) -> bytearray:
        """The tables, which end on a multiple of an alignment."""
        model, out = self._model, self._out
        buffers = [self._buffer(buffer) for buffer in self._buffers]
        codes = [self._operator_code(code) for code in self._codes]
        metadata = [self._metadata(entry) for entry in model.metadata]
        subgraphs = [self._subgraph(subgraph) for subgraph in model.subgraphs]
        subgraph_index = {id(subgraph): i for i, subgraph in enumerate(model.subgraphs)}
        signatures = [self._signature(entry, subgraph_index) for entry in model.signatures]
        offsets: _Offsets = []
        self._vector(offsets, 1, codes, model.operator_codes)
        self._vector(offsets, 2, subgraphs, model.subgraphs)
        if model.description is not None:
            offsets.append((3, out.text(model.description)))
        self._vector(offsets, 4, buffers, model.buffers)
        if not is_absent(model.metadata_buffers):
            indices = tuple(
                entry if isinstance(entry, int) else self._buffer_index[id(entry)]
                for entry in model.metadata_buffers
            )
            offsets.append((5, out.int_vector(indices)))
        self._vector(offsets, 6, metadata, model.metadata)
        self._vector(offsets, 7, signatures, model.signatures)
        for slot, tables in ((8, model.external_buffer_groups), (9, model.external_buffers)):
            self._vector(offsets, slot, [self._copier.copy(table) for table in tables], tables)
        root = out.table(offsets, [(0, "I", model.version)])
        return out.finish(root, _IDENTIFIER, alignment)

    def _vector(
        self, offsets: _Offsets, slot: int, addresses: Sequence[int], values: Sequence[object]
    ) -> None:
        """A field that is a vector of tables, unless the model leaves it out."""
        if addresses or not is_absent(values):
            offsets.append((slot, self._out.offset_vector(addresses)))

    def _name(self, slot: int, name: str) -> _Offsets:
        return [] if is_absent(name) else [(slot, self._out.text(name))]

    def _buffer(self, buffer: Buffer) -> int:
        blob = buffer.blob
        if blob is None:
            return self._out.table([])
        place = None if buffer.is_external else self._inside.get(id(blob))
        if place is not None:
            return self._out.pack(self._out.layout((0,), ()), (SIZE_PREFIX - place,))
        return self._outside_table([], [], 1, blob)

    def _outside_table(self, offsets: _Offsets, scalars: _Scalars, slot: int, blob: Blob) -> int:
        """A table with the offset of data behind the flatbuffer in `slot`, and their size in the next."""
        scalars = [(slot, "Q", 0), (slot + 1, "Q", blob.size), *scalars]
        address = self._out.table(offsets, scalars)
        layout = self._out.layout(
            tuple([slot for slot, _ in offsets]), tuple([(slot, c) for slot, c, _ in scalars])
        )
        self.absolute.append((address - layout.scalar_places[0], self._outside[id(blob)]))
        return address

    def _operator_code(self, code: OperatorCode) -> int:
        deprecated, builtin = code.fields
        if max(deprecated, builtin) != code.builtin_code:
            deprecated, builtin = min(code.builtin_code, PLACEHOLDER), code.builtin_code
        offsets = [] if code.custom_code is None else [(1, self._out.text(code.custom_code))]
        return self._out.table(
            offsets, [(2, "i", code.version), (3, "i", builtin), (0, "b", deprecated)]
        )

    def _metadata(self, entry: Metadata) -> int:
        return self._out.table(
            self._name(0, entry.name), [(1, "I", self._buffer_index[id(entry.buffer)])]
        )

    def _subgraph(self, subgraph: Subgraph) -> int:
        out = self._out
        index = {id(tensor): i for i, tensor in enumerate(subgraph.tensors)}
        self._tensor_index[id(subgraph)] = index
        try:
            tensors = self._tensors(subgraph.tensors, index)
            ops = self._ops(subgraph.ops, index)
            inputs = _indices(subgraph.inputs, index)
            outputs = _indices(subgraph.outputs, index)
        except KeyError:
            raise _not_held_together(subgraph) from None
        offsets: _Offsets = []
        self._vector(offsets, 0, tensors, subgraph.tensors)
        if not is_absent(subgraph.inputs):
            offsets.append((1, out.int_vector(inputs)))
        if not is_absent(subgraph.outputs):
            offsets.append((2, out.int_vector(outputs)))
        self._vector(offsets, 3, ops, subgraph.ops)
        offsets += self._name(4, subgraph.name)
        debug = subgraph.debug_metadata_index
        return out.table(offsets, [] if debug == -1 else [(5, "i", debug)])

    def _tensors(self, tensors: Iterable[Tensor], index: dict[int, int]) -> list[int]:
        out, buffer_index = self._out, self._buffer_index
        text, shape_vector, pack = out.text, out.shared_int_vector, out.pack
        copy = self._copier.copy

        def index_of(scales: ConstantTensor) -> int:
            return index[id(scales)]

        layouts: dict[int, Layout] = {}
        packed = []
        for tensor in tensors:
            addresses = []
            present = 0  # a bit for each field that not all tensors have
            if tensor.shape or not is_absent(tensor.shape):
                present |= 1
                addresses.append(shape_vector(tensor.shape))
            if tensor.name or not is_absent(tensor.name):
                present |= 2
                addresses.append(text(tensor.name))
            table = tensor.quantization_table
            if table is None:
                quantization = tensor.quantization
                if quantization is not None:
                    table = quantization_table(quantization, index_of)
            elif tensor.blockwise is not None:
                table = with_indices(table, tensor.blockwise, index_of)
            if table is not None:
                present |= 4
                addresses.append(copy(table))
            if tensor.shape_signature is not None:
                present |= 8
                addresses.append(shape_vector(tensor.shape_signature))
            if tensor.sparsity is not None:
                present |= 16
                addresses.append(copy(tensor.sparsity))
            if tensor.variant_tensors or not is_absent(tensor.variant_tensors):
                present |= 32
                addresses.append(out.offset_vector([copy(v) for v in tensor.variant_tensors]))
            layout = layouts.get(present)
            if layout is None:
                slots = [slot for i, slot in enumerate(_TENSOR_OFFSETS) if present >> i & 1]
                layout = layouts[present] = out.layout(tuple(slots), _TENSOR_SCALARS)
            packed.append(
                pack(
                    layout,
                    addresses,
                    buffer_index[id(tensor.buffer)],
                    tensor.external_buffer,
                    _TENSOR_TYPES[tensor.element_type],
                    tensor.is_variable,
                    tensor.has_rank,
                )
            )
        return packed

    def _ops(self, ops: Iterable[Op], index: dict[int, int]) -> list[int]:
        out, code_index = self._out, self._code_index
        int_vector, pack = out.int_vector, out.pack
        copy = self._copier.copy
        index = {**index, id(None): -1}  # an optional input that is left out
        packed = []
        for op in ops:
            options = op.options
            code = code_index[id(op.code)]
            if not op.is_plain or id(op) in self._call_options:
                packed.append(self._op_with_more(op, code, index))
                continue
            addresses = [
                int_vector(_indices(op.inputs, index)),
                int_vector(_indices(op.outputs, index)),
            ]
            if options is None:
                packed.append(pack(out.layout(*_OP), addresses, code))
            else:
                addresses.append(copy(options))
                number = _number(options, "BuiltinOptions", _OPTIONS)
                packed.append(pack(out.layout(*_OP_WITH_OPTIONS), addresses, code, number))
        return packed

    def _op_with_more(self, op: Op, code: int, index: dict[int, int]) -> int:
        """An op with fields that most do not have, or without those that most have."""
        out = self._out
        offsets: _Offsets = []
        scalars: _Scalars = [(0, "I", code)]
        if not is_absent(op.inputs):
            offsets.append((1, out.int_vector(_indices(op.inputs, index))))
        if not is_absent(op.outputs):
            offsets.append((2, out.int_vector(_indices(op.outputs, index))))
        if op.options is not None:
            offsets.append((4, self._copier.copy(op.options)))
            scalars.append((3, "B", _number(op.options, "BuiltinOptions", _OPTIONS)))
        options = op.custom_options
        call = self._call_options.get(id(op))
        if call is not None:
            self.calls[id(op)] = out.byte_vector(call)
            offsets.append((5, self.calls[id(op)]))
        elif options is not None and not op.has_large_custom_options:
            place = self._inside.get(id(options))
            address = out.byte_vector(options.view) if place is None else SIZE_PREFIX - place
            offsets.append((5, address))
        if not is_absent(op.mutating_variable_inputs):
            offsets.append((7, out.byte_vector(bytes(op.mutating_variable_inputs))))
        if not is_absent(op.intermediates):
            offsets.append((8, out.int_vector(_indices(op.intermediates, index))))
        if op.options_2 is not None:
            offsets.append((12, self._copier.copy(op.options_2)))
            scalars.append((11, "B", _number(op.options_2, "BuiltinOptions2", _OPTIONS_2)))
        if op.custom_options_format:
            scalars.append((6, "b", op.custom_options_format))
        if op.debug_metadata_index != -1:
            scalars.insert(0, (13, "i", op.debug_metadata_index))
        if op.has_large_custom_options and options is not None and call is None:
            return self._outside_table(offsets, scalars, 9, options)
        return out.table(offsets, scalars)

    def _signature(self, signature: Signature, subgraph_index: Mapping[int, int]) -> int:
        subgraph = signature.subgraph
        number = subgraph_index.get(id(subgraph))
        if number is None:
            raise LiteRtError(
                Status.INVALID_GRAPH_INVARIANT,
                f"signature '{signature.key}' is of a subgraph that the model does not have",
            )
        offsets: _Offsets = []
        self._tensor_map(offsets, 0, signature.inputs, subgraph)
        self._tensor_map(offsets, 1, signature.outputs, subgraph)
        offsets += self._name(2, signature.key)
        return self._out.table(offsets, [(4, "I", number)])

    def _tensor_map(
        self,
        offsets: _Offsets,
        slot: int,
        entries: Sequence[tuple[str, Tensor]],
        subgraph: Subgraph,
    ) -> None:
        index = self._tensor_index[id(subgraph)]
        try:
            tables = [
                self._out.table(self._name(0, name), [(1, "I", index[id(tensor)])])
                for name, tensor in entries
            ]
        except KeyError:
            raise _not_held_together(subgraph) from None
        self._vector(offsets, slot, tables, entries)


def all_buffers(model: Model) -> list[Buffer]:
    """The model's buffers, then those that only a tensor or metadata entry has."""
    seen = {id(buffer) for buffer in model.buffers}
    buffers = list(model.buffers)
    used = [tensor.buffer for subgraph in model.subgraphs for tensor in subgraph.tensors]
    for buffer in (*used, *(entry.buffer for entry in model.metadata)):
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


def _indices(tensors: Iterable[Tensor | None], index: Mapping[int, int]) -> tuple[int, ...]:
    return tuple([index[id(tensor)] for tensor in tensors])


def _number(options: Table, union: str, numbers: Mapping[str, int]) -> int:
    """What a union calls the table that it holds."""
    number = numbers.get(options.type_name)
    if number is None:
        raise LiteRtError(
            Status.INVALID_GRAPH_INVARIANT, f"{options.type_name} is not a table of {union}"
        )
    return number


def _not_held_together(subgraph: Subgraph) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_GRAPH_INVARIANT,
        f"subgraph '{subgraph.name}' uses a tensor that is not among its tensors",
    )
