"""Reads subgraphs with their tensors and ops; most tables of a file are tensors and ops.

The loops in this module run ten thousand times for a large model. To keep the loops fast, separate methods read
the fields that few tensors and ops have.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from litert.core.counts import index_range
from litert.core.element_type import ElementType
from litert.core.quantization import ConstantTensor
from litert.model import schema
from litert.model.flatbuffer import OUTSIDE, i8, i32, u32, u64
from litert.model.graph import Buffer, Op, OperatorCode, Subgraph, Tensor
from litert.model.quantization_table import read_quantization
from litert.model.schema_reader import MIN_EXTERNAL_OFFSET, SchemaReader
from litert.model.table import NO_TEXT, NO_VECTOR, AbsentList, Table

_ELEMENT_TYPES = {number: ElementType[name] for number, name in schema.ENUMS["TensorType"].items()}

_SHORT_NAME = 256  # not worth counting

_Layout = tuple[tuple[int, ...], tuple[int, ...], bool]
"""Offsets of the five fields that most tensors or ops have; offsets of the other fields; and whether a table has
any of these other fields.
"""


class SubgraphReader:
    """Reads the subgraphs of one file."""

    def __init__(
        self, reader: SchemaReader, buffers: Sequence[Buffer], codes: Sequence[OperatorCode]
    ) -> None:
        self._reader = reader
        self._buffers = buffers
        self._no_buffer = buffers[0] if buffers else Buffer()
        self._codes = codes

    def read(self, subgraph: Subgraph, index: int, table: int) -> None:
        """Reads the table at position `table` into a subgraph."""
        reader = self._reader
        where = f"subgraph {index}"
        reader.place = where
        tensors, inputs, outputs, ops, name, debug = reader.fields("SubGraph", table)
        subgraph.name = reader.text(table, name)
        if debug:
            subgraph.debug_metadata_index = i32(reader.view, table + debug)[0]
        if tensors:
            self._read_tensors(subgraph, where, reader.tables(table + tensors))
        else:
            subgraph.tensors = AbsentList()
        reader.place = where
        subgraph.inputs = self._tensor_list(subgraph, table, inputs, "input")
        subgraph.outputs = self._tensor_list(subgraph, table, outputs, "output")
        if ops:
            self._read_ops(subgraph, where, reader.tables(table + ops))
        else:
            subgraph.ops = AbsentList()

    def _tensor_list(self, subgraph: Subgraph, table: int, offset: int, what: str) -> list[Tensor]:
        if not offset:
            return AbsentList()
        indices = self._reader.numbers(table + offset)
        return [tensor_at(self._reader, subgraph, index, what) for index in indices]

    def _read_tensors(self, subgraph: Subgraph, where: str, tables: list[int]) -> None:
        reader, buffers, no_buffer = self._reader, self._buffers, self._no_buffer
        reader.budget.spend_nodes(len(tables))
        view, source, numbers = reader.view, reader.source, reader.numbers
        append = subgraph.tensors.append
        layouts: dict[int, _Layout] = {}
        quantization_layouts: dict[int, tuple[int, ...]] = {}
        block_wise: list[Tensor] = []
        index = 0
        try:
            for index, table in enumerate(tables):
                vtable = table - i32(view, table)[0]
                layout = layouts.get(vtable)
                if layout is None:
                    layout = layouts[vtable] = _split(reader.layout("Tensor", vtable))
                (shape_at, type_at, buffer_at, name_at, quantization_at), more, has_more = layout
                name: str = NO_TEXT
                if name_at:
                    start = table + name_at
                    start += u32(view, start)[0]
                    end = start + 4 + u32(view, start)[0]
                    if end > source.size:
                        raise struct.error
                    if end - start > _SHORT_NAME:
                        reader.budget.spend_bytes(end - start)
                    name = str(view[start + 4 : end], "utf-8", "surrogateescape")
                buffer = no_buffer
                if buffer_at:
                    number = u32(view, table + buffer_at)[0]
                    if number:
                        if number >= len(buffers):
                            reader.place = f"tensor {index} of {where}"
                            raise reader.damaged(
                                f"buffer {number} is used, but {index_range('buffer', len(buffers))}"
                            )
                        buffer = buffers[number]
                number = i8(view, table + type_at)[0] if type_at else 0
                element_type = _ELEMENT_TYPES.get(number)
                if element_type is None:
                    reader.place = f"tensor {index} of {where}"
                    raise reader.damaged(f"element type {number} is not in the schema")
                shape = numbers(table + shape_at) if shape_at else NO_VECTOR
                tensor = Tensor(name, element_type, shape, buffer)
                if quantization_at:
                    position = table + quantization_at
                    position += u32(view, position)[0]
                    tensor.quantization_table = Table("QuantizationParameters", source, position)
                    vtable = position - i32(view, position)[0]
                    quantization = quantization_layouts.get(vtable)
                    if quantization is None:
                        quantization = reader.layout("QuantizationParameters", vtable)
                        quantization_layouts[vtable] = quantization
                    if quantization[5]:  # details
                        block_wise.append(tensor)
                if has_more:
                    self._read_more_of_tensor(tensor, table, more)
                append(tensor)
            for tensor in block_wise:
                self._resolve(subgraph, tensor)
        except (struct.error, IndexError):
            reader.place = f"tensor {index} of {where}"
            raise reader.damaged(OUTSIDE) from None

    def _read_more_of_tensor(self, tensor: Tensor, table: int, more: tuple[int, ...]) -> None:
        """Reads the fields that most tensors lack."""
        reader, view = self._reader, self._reader.view
        variable_at, sparsity_at, signature_at, ranked_at, variants_at, external_at = more
        if signature_at:
            tensor.shape_signature = reader.numbers(table + signature_at)
        if ranked_at:
            tensor.has_rank = bool(view[table + ranked_at])
        if variable_at:
            tensor.is_variable = bool(view[table + variable_at])
        if sparsity_at:
            tensor.sparsity = reader.table("SparsityParameters", table + sparsity_at)
        if variants_at:
            tensor.variant_tensors = tuple(
                Table("VariantSubType", reader.source, position)
                for position in reader.tables(table + variants_at)
            )
        if external_at:
            tensor.external_buffer = u32(view, table + external_at)[0]

    def _resolve(self, subgraph: Subgraph, tensor: Tensor) -> None:
        """Replaces the tensor indices in a block-wise quantization by tensors, after all tensors were read."""

        def tensor_of(index: int) -> ConstantTensor | None:
            if index == -1:
                return None
            return tensor_at(self._reader, subgraph, index, "scales or zero points")

        table = tensor.quantization_table
        assert table is not None
        tensor.keep_quantization(table, read_quantization(table, tensor_of))

    def _read_ops(self, subgraph: Subgraph, where: str, tables: list[int]) -> None:
        reader, codes = self._reader, self._codes
        reader.budget.spend_nodes(len(tables))
        view, numbers = reader.view, reader.numbers
        count = len(subgraph.tensors)
        tensors: list[Tensor | None] = [*subgraph.tensors, None]  # the last entry is for index -1
        append = subgraph.ops.append
        layouts: dict[int, _Layout] = {}
        index = 0
        try:
            for index, table in enumerate(tables):
                vtable = table - i32(view, table)[0]
                layout = layouts.get(vtable)
                if layout is None:
                    layout = layouts[vtable] = _split(reader.layout("Operator", vtable))
                (code_at, inputs_at, outputs_at, type_at, options_at), more, has_more = layout
                code = codes[u32(view, table + code_at)[0] if code_at else 0]
                inputs = numbers(table + inputs_at) if inputs_at else NO_VECTOR
                outputs = numbers(table + outputs_at) if outputs_at else NO_VECTOR
                if inputs and (min(inputs) < -1 or max(inputs) >= count):
                    raise IndexError
                if outputs and min(outputs) < 0:
                    raise IndexError
                op = Op.from_lists(
                    code,
                    [tensors[i] for i in inputs] if inputs_at else AbsentList(),
                    [subgraph.tensors[i] for i in outputs] if outputs_at else AbsentList(),
                )
                if options_at:
                    number = view[table + type_at] if type_at else 0
                    op.options = reader.union("BuiltinOptions", number, table + options_at)
                if has_more:
                    reader.place = f"op {index} of {where}"
                    self._read_more_of_op(op, table, more, tensors)
                append(op)
        except IndexError:
            reader.place = f"op {index} of {where}"
            raise reader.damaged(
                f"an index is out of range: {index_range('operator code', len(codes))}, and "
                f"{index_range('tensor', count)}"
            ) from None
        except struct.error:
            reader.place = f"op {index} of {where}"
            raise reader.damaged(OUTSIDE) from None

    def _read_more_of_op(
        self, op: Op, table: int, more: tuple[int, ...], tensors: Sequence[Tensor | None]
    ) -> None:
        """Reads the fields that most ops lack; the last element of `tensors` is None."""
        reader, view, source = self._reader, self._reader.view, self._reader.source
        (
            custom_at, format_at, mutating_at, intermediates_at, large_offset_at, large_size_at,
            type_2_at, options_2_at, debug_at,
        ) = more  # fmt: skip
        if custom_at:
            vector = source.target(table + custom_at)
            op.custom_options = reader.blob(vector + 4, u32(view, vector)[0])
        if format_at:
            op.custom_options_format = i8(view, table + format_at)[0]
        if mutating_at:
            _, start, end = source.span(source.target(table + mutating_at), 1)
            reader.budget.spend_bytes(end - start)
            op.mutating_variable_inputs = tuple([bool(flag) for flag in view[start:end]])
        if intermediates_at:
            indices = reader.numbers(table + intermediates_at)
            if indices and (min(indices) < -1 or max(indices) >= len(tensors) - 1):
                raise IndexError
            op.intermediates = tuple([tensors[i] for i in indices])
        large_offset = u64(view, table + large_offset_at)[0] if large_offset_at else 0
        if large_offset >= MIN_EXTERNAL_OFFSET:
            large_size = u64(view, table + large_size_at)[0] if large_size_at else 0
            op.custom_options = reader.blob(large_offset, large_size)
            op.has_large_custom_options = True
        if options_2_at:
            number = view[table + type_2_at] if type_2_at else 0
            op.options_2 = reader.union("BuiltinOptions2", number, table + options_2_at)
        if debug_at:
            op.debug_metadata_index = i32(view, table + debug_at)[0]


def tensor_at(reader: SchemaReader, subgraph: Subgraph, index: int, what: str) -> Tensor:
    """Returns the tensor at an index that comes from the file; `what` is the tensor's role for error messages."""
    if not 0 <= index < len(subgraph.tensors):
        raise reader.damaged(
            f"tensor {index} is used as {what}, but {index_range('tensor', len(subgraph.tensors))}"
        )
    return subgraph.tensors[index]


def _split(offsets: tuple[int, ...]) -> _Layout:
    return offsets[:5], offsets[5:], any(offsets[5:])
