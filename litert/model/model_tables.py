"""Writes a model as tables of a flatbuffer; references between objects become indices.

The code for tensors and ops is optimized, because most of a model consists of tensors and ops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import ConstantTensor
from litert.core.status import Status
from litert.model import schema
from litert.model.assembler import TableLayout
from litert.model.file_digest import RESERVED
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
from litert.model.quantization_table import quantization_table, with_indices
from litert.model.schema_types import IDENTIFIER, union_numbers
from litert.model.schema_writer import Offsets, Scalars, SchemaWriter
from litert.model.table import Table, is_absent

_Item = TypeVar("_Item")

_TENSOR_TYPES = {ElementType[name]: number for number, name in schema.ENUMS["TensorType"].items()}

_TENSOR_OFFSETS = (0, 3, 4, 7, 6, 9)  # shape, name, quantization, signature, sparsity, variants
_TENSOR_SCALARS = ((2, "I"), (10, "I"), (1, "b"), (5, "?"), (8, "?"))
_OP = ((1, 2), ((0, "I"),))  # inputs and outputs; operator code
_OP_WITH_OPTIONS = ((1, 2, 4), ((0, "I"), (3, "B")))


class ModelTables:
    """The flatbuffer tables of one model.

    Attributes:
      absolute: Maps the address of each 64-bit file position in the tables to the data's distance from the end of
        the tables.
      calls: Address of each dispatch op's custom options, by the Python `id` of the op.
    """

    def __init__(
        self,
        model: Model,
        inside: Mapping[int, int],
        outside: Mapping[int, int],
        call_options: Mapping[int, bytes],
    ) -> None:
        """Takes the same data positions as `SchemaWriter`, and dispatch ops' custom options by the op's `id`."""
        self._model = model
        self._writer = SchemaWriter(inside, outside)
        self._buffers = all_buffers(model)
        self._buffer_index = {id(buffer): i for i, buffer in enumerate(self._buffers)}
        self._codes = _with_others(model.operator_codes, [op.code for op in model.ops()])
        self._code_index = {id(code): i for i, code in enumerate(self._codes)}
        self._subgraph_index = {id(subgraph): i for i, subgraph in enumerate(model.subgraphs)}
        self._tensor_index: dict[int, dict[int, int]] = {}  # by the subgraph's id
        self._call_options = call_options
        self.absolute = self._writer.absolute
        self.calls: dict[int, int] = {}

    def assemble(self, alignment: int) -> bytearray:
        """Returns the tables; pads their size to a multiple of `alignment`."""
        model, writer, out = self._model, self._writer, self._writer.out
        buffers = [self._buffer(buffer) for buffer in self._buffers]
        codes = [self._operator_code(code) for code in self._codes]
        metadata = [self._metadata(entry) for entry in model.metadata]
        subgraphs = [self._subgraph(subgraph) for subgraph in model.subgraphs]
        signatures = [self._signature(entry) for entry in model.signatures]
        groups = [writer.copy(table) for table in model.external_buffer_groups]
        external = [writer.copy(table) for table in model.external_buffers]
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
        root = out.table(offsets, [(0, "I", model.version)])
        return out.finish(root, IDENTIFIER, alignment, RESERVED if model.has_digest else b"")

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
        if max(deprecated, builtin) != code.builtin_code:  # the tensor was changed
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
        writer = self._writer
        try:
            tensors = self._tensors(subgraph.tensors, index)
            ops = self._ops(subgraph.ops, index)
            offsets = [
                *writer.tables_field(0, tensors, subgraph.tensors),
                *writer.int_field(1, _indices(subgraph.inputs, index), subgraph.inputs),
                *writer.int_field(2, _indices(subgraph.outputs, index), subgraph.outputs),
                *writer.tables_field(3, ops, subgraph.ops),
                *writer.text_field(4, subgraph.name),
            ]
        except KeyError:
            raise _not_held_together(subgraph) from None
        debug = subgraph.debug_metadata_index
        return writer.out.table(offsets, [] if debug == -1 else [(5, "i", debug)])

    def _tensors(self, tensors: Iterable[Tensor], index: dict[int, int]) -> list[int]:
        out, buffer_index = self._writer.out, self._buffer_index
        text, shape_vector, pack = out.text, out.shared_int_vector, out.pack
        copy = self._writer.copy

        def index_of(scales: ConstantTensor) -> int:
            return index[id(scales)]

        layouts: dict[int, TableLayout] = {}
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
            element_type = _TENSOR_TYPES.get(tensor.element_type)
            if element_type is None:
                raise LiteRtError(
                    Status.INVALID_IR_TYPE,
                    f"tensor '{tensor.name}' has no element type",
                    hint="Set element_type of this tensor to a type other than NONE.",
                )
            packed.append(
                pack(
                    layout,
                    addresses,
                    buffer_index[id(tensor.buffer)],
                    tensor.external_buffer,
                    element_type,
                    tensor.is_variable,
                    tensor.has_rank,
                )
            )
        return packed

    def _ops(self, ops: Iterable[Op], index: dict[int, int]) -> list[int]:
        out, code_index = self._writer.out, self._code_index
        int_vector, pack = out.int_vector, out.pack
        copy = self._writer.copy
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
                number = _number(options, "BuiltinOptions")
                packed.append(pack(out.layout(*_OP_WITH_OPTIONS), addresses, code, number))
        return packed

    def _op_with_more(self, op: Op, code: int, index: dict[int, int]) -> int:
        """Packs an op that has a field which most ops lack, or lacks a field which most ops have."""
        writer, out = self._writer, self._writer.out
        offsets: Offsets = [
            *writer.int_field(1, _indices(op.inputs, index), op.inputs),
            *writer.int_field(2, _indices(op.outputs, index), op.outputs),
            *writer.int_field(8, _indices(op.intermediates, index), op.intermediates),
        ]
        scalars: Scalars = [(0, "I", code)]
        if op.debug_metadata_index != -1:
            scalars.append((13, "i", op.debug_metadata_index))
        if op.options is not None:
            offsets.append((4, writer.copy(op.options)))
            scalars.append((3, "B", _number(op.options, "BuiltinOptions")))
        if op.options_2 is not None:
            offsets.append((12, writer.copy(op.options_2)))
            scalars.append((11, "B", _number(op.options_2, "BuiltinOptions2")))
        if op.custom_options_format:
            scalars.append((6, "b", op.custom_options_format))
        if not is_absent(op.mutating_variable_inputs):
            offsets.append((7, out.byte_vector(bytes(op.mutating_variable_inputs))))
        call, options = self._call_options.get(id(op)), op.custom_options
        if call is not None:
            self.calls[id(op)] = out.byte_vector(call)
            offsets.append((5, self.calls[id(op)]))
        elif options is not None and op.has_large_custom_options:
            return writer.table_with_data(offsets, scalars, 9, options)
        elif options is not None:
            address = writer.data_vector(options)
            offsets.append((5, out.byte_vector(options.view) if address is None else address))
        return out.table(offsets, scalars)

    def _signature(self, signature: Signature) -> int:
        writer, subgraph = self._writer, signature.subgraph
        number = self._subgraph_index.get(id(subgraph))
        if number is None:
            raise LiteRtError(
                Status.INVALID_GRAPH_INVARIANT,
                f"signature '{signature.key}' refers to a subgraph that is not in the model's list of subgraphs",
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
    """Returns the buffers in the model's list, then all other buffers that tensors or metadata use."""
    used = [tensor.buffer for subgraph in model.subgraphs for tensor in subgraph.tensors]
    used += [entry.buffer for entry in model.metadata]
    used += [entry for entry in model.metadata_buffers if isinstance(entry, Buffer)]
    return _with_others(model.buffers, used)


def _with_others(listed: Sequence[_Item], used: Sequence[_Item]) -> list[_Item]:
    """Returns the listed objects, then the used objects that are not listed, each once."""
    known = set(map(id, listed))
    return [*listed, *{id(item): item for item in used if id(item) not in known}.values()]


def _not_held_together(subgraph: Subgraph) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_GRAPH_INVARIANT,
        f"subgraph '{subgraph.name}' uses a tensor that is not in the subgraph's list of tensors",
        hint="Add each tensor that the ops, inputs and outputs use to Subgraph.tensors.",
    )


def _indices(tensors: Iterable[Tensor | None], index: Mapping[int, int]) -> tuple[int, ...]:
    return tuple([index[id(tensor)] for tensor in tensors])


def _number(options: Table, union: str) -> int:
    """Returns the number of a table's type in a union of the schema."""
    number = union_numbers(union).get(options.type_name)
    if number is None:
        raise LiteRtError(
            Status.INVALID_GRAPH_INVARIANT,
            f"{options.type_name} is not a table of the union {union}",
        )
    return number
