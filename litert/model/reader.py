"""Reads a TFLite flatbuffer as a `Model`: indices become objects, and data views of the file.

Nothing is trusted: each offset and index is checked, and damage ends in a `LiteRtError` that names the place.
Options, quantization and other tables are left where they are until someone asks, or writes. Schema:
`tflite/converter/schema/schema.fbs` of LiteRT; slots as in `schema.py`.
"""

from __future__ import annotations

import os
import struct
from typing import Any

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import ConstantTensor
from litert.core.status import Status
from litert.model import schema
from litert.model.absent import NO_TEXT, NO_VECTOR, AbsentList
from litert.model.blob import Blob, MappedFile
from litert.model.collector import collector_held
from litert.model.flatbuffer import MAX_SLOTS, OUTSIDE, Budget, Source
from litert.model.graph import (
    CUSTOM,
    Appended,
    Buffer,
    Metadata,
    Model,
    Op,
    OperatorCode,
    Signature,
    Subgraph,
    Tensor,
)
from litert.model.quantization_table import read_quantization
from litert.model.schema_types import table_schema
from litert.model.table import Table
from litert.model.trailing import find_trailing

_IDENTIFIER = b"TFL3"

_ELEMENT_TYPES = {number: ElementType[name] for number, name in schema.ENUMS["TensorType"].items()}

_INT_VECTORS = [struct.Struct(f"<{count}i").unpack_from for count in range(9)]

_i32 = struct.Struct("<i").unpack_from
_u32 = struct.Struct("<I").unpack_from
_u64 = struct.Struct("<Q").unpack_from
_i8 = struct.Struct("<b").unpack_from

_MIN_EXTERNAL_OFFSET = 2  # the schema: an offset "is only valid if > 1"
_LARGE_FILE = 64 << 20
_NEAR = 64  # bytes that are likely to have all of a Buffer table, and the size of its data


def read_model(source: str | os.PathLike[str] | bytes | memoryview | MappedFile) -> Model:
    """Reads a model; its constants are views of the file.

    Args:
      source: a file, which the model then owns (`Model.close`), or bytes, which it keeps.

    Raises:
      LiteRtError: NOT_FOUND or FILE_IO; INVALID_FLATBUFFER, if the file is damaged or something else.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return _Reader(memoryview(source).cast("B"), None).model()
    if isinstance(source, MappedFile):
        return _Reader(source.view, source).model()
    file = MappedFile(source)
    try:
        return _Reader(file.view, file).model()
    except BaseException:
        file.close()
        raise


class _Reader:
    """Reads one file into one model."""

    def __init__(self, view: memoryview, file: MappedFile | None) -> None:
        self._view = view
        self._file = file
        self._source = Source(view, file.path if file else "a model in memory")
        self._budget = Budget(self._source)
        self._model = Model(source=file)
        self._place = ""
        self._layouts: dict[tuple[str, int], tuple[int, ...]] = {}
        self._blobs: dict[tuple[int, int], Blob] = {}
        self._blob_bytes = 0
        self._data_end = 0  # of all data, in the flatbuffer and behind it
        self._strangers: set[tuple[str, int]] = set()

    def model(self) -> Model:
        self._check_header()
        try:
            with collector_held():
                self._read()
        except (struct.error, OverflowError):
            raise self._source.damaged(OUTSIDE, self._place) from None
        return self._model

    def _check_header(self) -> None:
        view = self._view
        if bytes(view[4:8]) == _IDENTIFIER:
            return
        if bytes(view[:4]) == b"PK\3\4":
            what, hint = "a ZIP archive", "Unpack it, and name the .tflite file that is in it."
        elif not view.nbytes:
            what, hint = "an empty file", "Get it again from where it came."
        elif view.nbytes < 8:
            what, hint = f"a file of {view.nbytes} bytes", "Get it again from where it came."
        else:
            found = bytes(view[4:8])
            what = f"a file with the identifier {found!r}, not {_IDENTIFIER!r}"
            hint = "Name a TFLite model."
        raise LiteRtError(
            Status.INVALID_FLATBUFFER, f"not a TFLite model: {what}", self._source.where, hint
        )

    def _read(self) -> None:
        model, source = self._model, self._source
        root = source.target(0)
        at = self._fields("Model", root)
        version, codes, subgraphs, description, buffers, old_metadata, metadata, signatures = at[:8]
        if version:
            model.version = _u32(self._view, root + version)[0]
        if description:
            model.description = source.text(source.target(root + description))
        if codes:
            self._place = "operator codes"
            model.operator_codes = [
                self._operator_code(code) for code in self._tables(root + codes)
            ]
        else:
            model.operator_codes = AbsentList()
        self._read_buffers(root + buffers if buffers else 0)
        if subgraphs:
            self._read_subgraphs(self._tables(root + subgraphs))
        else:
            model.subgraphs = AbsentList()
        self._place = "metadata"
        if old_metadata:
            model.metadata_buffers = tuple(
                model.buffers[index] if 0 <= index < len(model.buffers) else index
                for index in self._numbers(root + old_metadata)
            )
        if metadata:
            model.metadata = [self._metadata(table) for table in self._tables(root + metadata)]
        self._place = "signatures"
        if signatures:
            model.signatures = [self._signature(entry) for entry in self._tables(root + signatures)]
        whole = Table("Model", source, root)
        model.external_buffer_groups = _or_absent(whole.get("external_buffer_groups"))
        model.external_buffers = _or_absent(whole.get("external_buffers"))
        self._read_byte_code()
        trailing = find_trailing(source, root, self._data_end)
        if trailing is not None:
            model.trailing = self._blob(*trailing)

    def _fields(self, type_name: str, table: int) -> tuple[int, ...]:
        """Offsets of a table's fields, one for each slot of the schema."""
        vtable = table - _i32(self._view, table)[0]
        found = self._layouts.get((type_name, vtable))
        if found is None:
            found = self._layout(type_name, vtable)
            self._layouts[type_name, vtable] = found
        return found

    def _layout(self, type_name: str, vtable: int) -> tuple[int, ...]:
        """A vtable's offsets for a table of the schema; fields that the schema lacks end in a warning."""
        offsets = self._source.vtable(vtable)
        known = len(table_schema(type_name).slots)
        for slot in range(known, len(offsets)):
            if offsets[slot] and (type_name, slot) not in self._strangers:
                self._strangers.add((type_name, slot))
                self._model.warnings.append(
                    f"{self._source.where}: field {slot} of table {type_name} is newer than this "
                    "reader, and is left out"
                )
        return (offsets + (0,) * MAX_SLOTS)[:known]

    def _tables(self, place: int) -> list[int]:
        tables = self._source.tables(self._source.target(place))
        self._budget.spend_tables(len(tables))
        return tables

    def _text(self, table: int, offset: int) -> str:
        if not offset:
            return NO_TEXT
        text = self._source.text(self._source.target(table + offset))
        self._budget.spend_bytes(len(text))
        return text

    def _operator_code(self, table: int) -> OperatorCode:
        deprecated, custom, version, code = self._fields("OperatorCode", table)
        view = self._view
        fields = (
            _i8(view, table + deprecated)[0] if deprecated else 0,
            _i32(view, table + code)[0] if code else 0,
        )
        operator_code = OperatorCode(
            max(fields),
            self._text(table, custom) if custom else None,
            _i32(view, table + version)[0] if version else 1,
        )
        operator_code.fields = fields
        return operator_code

    def _read_buffers(self, place: int) -> None:
        self._place = "buffers"
        if not place:
            self._model.buffers = AbsentList()
            return
        view, file, source = self._view, self._file, self._source
        # What is looked at in a mapping counts as memory with all its neighbourhood, and costs a page fault.
        is_large = file is not None and file.is_open and source.size > _LARGE_FILE
        layouts: dict[int, tuple[int, ...]] = {}
        append = self._model.buffers.append
        for table in self._tables(place):
            if is_large and file is not None:
                near: bytes | memoryview = os.pread(file.fd, _NEAR, table)
            else:
                near = view[table : table + _NEAR]
            vtable = table - _i32(near)[0]
            layout = layouts.get(vtable)
            if layout is None:
                layout = layouts[vtable] = self._layout("Buffer", vtable)
            data, offset, size = layout
            external = _u64(view, table + offset)[0] if offset else 0
            if external >= _MIN_EXTERNAL_OFFSET:
                length = _u64(view, table + size)[0] if size else 0
                append(Buffer(self._blob(external, length), is_external=True))
            elif data:
                place = data + _u32(near if data <= _NEAR - 4 else view[table:], data)[0]
                if place <= _NEAR - 4:
                    length = _u32(near, place)[0]
                elif is_large and file is not None:
                    length = _u32(os.pread(file.fd, 4, table + place))[0]
                else:
                    length = _u32(view, table + place)[0]
                append(Buffer(self._blob(table + place + 4, length)))
            else:
                append(Buffer())

    def _blob(self, start: int, size: int) -> Blob:
        """A range of the file; the same object for the same range."""
        found = self._blobs.get((start, size))
        if found is None:
            end = start + size
            if end > self._source.size:
                raise self._source.damaged(
                    f"data at {start} to {end} of a file of {self._source.size} bytes", self._place
                )
            self._blob_bytes += size
            if self._blob_bytes > 2 * self._source.size:
                raise self._source.damaged("data that overlap", self._place)
            found = Blob.within(self._file or self._view, start, size)
            self._blobs[start, size] = found
            self._data_end = max(self._data_end, end)
        return found

    def _read_subgraphs(self, tables: list[int]) -> None:
        model = self._model
        model.subgraphs = [Subgraph() for _ in tables]  # all of them: signatures name them by index
        for index, (table, subgraph) in enumerate(zip(tables, model.subgraphs, strict=True)):
            self._place = f"subgraph {index}"
            tensors, inputs, outputs, ops, name, debug = self._fields("SubGraph", table)
            subgraph.name = self._text(table, name)
            if debug:
                subgraph.debug_metadata_index = _i32(self._view, table + debug)[0]
            if tensors:
                self._read_tensors(subgraph, index, self._tables(table + tensors))
            else:
                subgraph.tensors = AbsentList()
            self._place = f"subgraph {index}"
            subgraph.inputs = self._tensor_list(subgraph, table, inputs, "input")
            subgraph.outputs = self._tensor_list(subgraph, table, outputs, "output")
            if ops:
                self._read_ops(subgraph, index, self._tables(table + ops))
            else:
                subgraph.ops = AbsentList()

    def _tensor_list(self, subgraph: Subgraph, table: int, offset: int, what: str) -> list[Tensor]:
        if not offset:
            return AbsentList()
        indices = self._numbers(table + offset)
        return [self._tensor(subgraph, index, what) for index in indices]

    def _tensor(self, subgraph: Subgraph, index: int, what: str) -> Tensor:
        if not 0 <= index < len(subgraph.tensors):
            raise self._source.damaged(
                f"{what} {index}, where there are {len(subgraph.tensors)} tensors", self._place
            )
        return subgraph.tensors[index]

    def _read_tensors(self, subgraph: Subgraph, subgraph_index: int, tables: list[int]) -> None:
        view, source, buffers = self._view, self._source, self._model.buffers
        self._budget.spend_nodes(len(tables))
        file_size = source.size
        no_buffer = buffers[0] if buffers else Buffer()
        append = subgraph.tensors.append
        layouts: dict[int, tuple[int, ...]] = {}
        quantization_layouts: dict[int, tuple[int, ...]] = {}
        named_by_index: list[tuple[Tensor, Table]] = []
        numbers = self._numbers
        index = 0
        try:
            for index, table in enumerate(tables):
                vtable = table - _i32(view, table)[0]
                layout = layouts.get(vtable)
                if layout is None:
                    layout = layouts[vtable] = self._layout("Tensor", vtable)
                (
                    shape_at, type_at, buffer_at, name_at, quantization_at, variable_at, sparsity_at,
                    signature_at, ranked_at, variants_at, external_at,
                ) = layout  # fmt: skip
                name: str = NO_TEXT
                if name_at:
                    start = table + name_at
                    start += _u32(view, start)[0]
                    end = start + 4 + _u32(view, start)[0]
                    if end > file_size:
                        raise source.damaged("a name past the file's end", f"tensor {index}")
                    if end - start > 256:
                        self._budget.spend_bytes(end - start)
                    name = str(view[start + 4 : end], "utf-8", "surrogateescape")
                buffer = no_buffer
                if buffer_at:
                    buffer_index = _u32(view, table + buffer_at)[0]
                    if buffer_index:
                        if buffer_index >= len(buffers):
                            raise source.damaged(
                                f"buffer {buffer_index}, where there are {len(buffers)}",
                                f"tensor {index} of subgraph {subgraph_index}",
                            )
                        buffer = buffers[buffer_index]
                type_number = _i8(view, table + type_at)[0] if type_at else 0
                element_type = _ELEMENT_TYPES.get(type_number)
                if element_type is None:
                    raise source.damaged(
                        f"element type {type_number}, which the schema does not have",
                        f"tensor {index} of subgraph {subgraph_index}",
                    )
                shape = numbers(table + shape_at) if shape_at else NO_VECTOR
                tensor = Tensor(name, element_type, shape, buffer)
                if quantization_at:
                    place = table + quantization_at
                    place += _u32(view, place)[0]
                    quantization = Table("QuantizationParameters", source, place)
                    tensor.quantization_table = quantization
                    vtable = place - _i32(view, place)[0]
                    layout = quantization_layouts.get(vtable)
                    if layout is None:
                        layout = self._layout("QuantizationParameters", vtable)
                        quantization_layouts[vtable] = layout
                    if layout[5]:  # details
                        named_by_index.append((tensor, quantization))
                if signature_at:
                    tensor.shape_signature = numbers(table + signature_at)
                if ranked_at:
                    tensor.has_rank = bool(view[table + ranked_at])
                if variable_at:
                    tensor.is_variable = bool(view[table + variable_at])
                if sparsity_at:
                    tensor.sparsity = Table(
                        "SparsityParameters", source, source.target(table + sparsity_at)
                    )
                if variants_at:
                    tensor.variant_tensors = tuple(
                        Table("VariantSubType", source, at)
                        for at in self._tables(table + variants_at)
                    )
                if external_at:
                    tensor.external_buffer = _u32(view, table + external_at)[0]
                append(tensor)
            for tensor, quantization in named_by_index:
                self._resolve(subgraph, tensor, quantization)
        except (struct.error, IndexError):
            raise source.damaged(OUTSIDE, f"tensor {index} of subgraph {subgraph_index}") from None

    def _numbers(self, place: int) -> tuple[int, ...]:
        """A vector of ints, most of them a shape."""
        view = self._view
        vector = place + _u32(view, place)[0]
        count = _u32(view, vector)[0]
        if count < len(_INT_VECTORS):
            shape: tuple[int, ...] = _INT_VECTORS[count](view, vector + 4)
            return shape
        _, start, end = self._source.span(vector, 4)
        self._budget.spend_bytes(end - start)
        return struct.unpack_from(f"<{count}i", view, start)

    def _resolve(self, subgraph: Subgraph, tensor: Tensor, table: Table) -> None:
        """Block-wise quantization names tensors by index, which may come after this one."""

        def tensor_of(index: int) -> ConstantTensor | None:
            return None if index == -1 else self._tensor(subgraph, index, "scales or zero points")

        tensor.keep_quantization(table, read_quantization(table, tensor_of))

    def _read_ops(self, subgraph: Subgraph, subgraph_index: int, tables: list[int]) -> None:
        view, source, codes = self._view, self._source, self._model.operator_codes
        self._budget.spend_nodes(len(tables))
        tensors: list[Tensor | None] = [*subgraph.tensors, None]  # the last for index -1
        count = len(subgraph.tensors)
        append = subgraph.ops.append
        layouts: dict[int, tuple[int, ...]] = {}
        numbers = self._numbers
        index = 0
        try:
            for index, table in enumerate(tables):
                vtable = table - _i32(view, table)[0]
                layout = layouts.get(vtable)
                if layout is None:
                    layout = layouts[vtable] = self._layout("Operator", vtable)
                (
                    code_at, inputs_at, outputs_at, type_at, options_at, custom_at, format_at,
                    mutating_at, intermediates_at, large_offset_at, large_size_at, type_2_at,
                    options_2_at, debug_at,
                ) = layout  # fmt: skip
                code_index = _u32(view, table + code_at)[0] if code_at else 0
                inputs = numbers(table + inputs_at) if inputs_at else NO_VECTOR
                outputs = numbers(table + outputs_at) if outputs_at else NO_VECTOR
                if (inputs and (min(inputs) < -1 or max(inputs) >= count)) or (
                    outputs and min(outputs) < 0
                ):
                    raise IndexError
                op = Op.from_lists(
                    codes[code_index],
                    [tensors[i] for i in inputs] if inputs_at else AbsentList(),
                    [subgraph.tensors[i] for i in outputs] if outputs_at else AbsentList(),
                )
                if options_at:
                    op.options = self._options(
                        "BuiltinOptions",
                        view[table + type_at] if type_at else 0,
                        table + options_at,
                    )
                if options_2_at:
                    op.options_2 = self._options(
                        "BuiltinOptions2",
                        view[table + type_2_at] if type_2_at else 0,
                        table + options_2_at,
                    )
                if custom_at:
                    start = source.target(table + custom_at)
                    self._place = f"op {index} of subgraph {subgraph_index}"
                    op.custom_options = self._blob(start + 4, _u32(view, start)[0])
                if format_at:
                    op.custom_options_format = _i8(view, table + format_at)[0]
                if large_offset_at:
                    large_offset = _u64(view, table + large_offset_at)[0]
                    if large_offset >= _MIN_EXTERNAL_OFFSET:
                        large_size = _u64(view, table + large_size_at)[0] if large_size_at else 0
                        self._place = f"op {index} of subgraph {subgraph_index}"
                        op.custom_options = self._blob(large_offset, large_size)
                        op.has_large_custom_options = True
                if mutating_at:
                    vector = source.target(table + mutating_at)
                    _, start, end = source.span(vector, 1)
                    self._budget.spend_bytes(end - start)
                    op.mutating_variable_inputs = tuple([bool(flag) for flag in view[start:end]])
                if intermediates_at:
                    indices = numbers(table + intermediates_at)
                    if indices and (min(indices) < -1 or max(indices) >= count):
                        raise IndexError
                    op.intermediates = tuple([tensors[i] for i in indices])
                if debug_at:
                    op.debug_metadata_index = _i32(view, table + debug_at)[0]
                append(op)
        except IndexError:
            raise source.damaged(
                f"an index past {len(codes)} operator codes or {len(subgraph.tensors)} tensors",
                f"op {index} of subgraph {subgraph_index}",
            ) from None
        except struct.error:
            raise source.damaged(OUTSIDE, f"op {index} of subgraph {subgraph_index}") from None

    def _options(self, union: str, number: int, place: int) -> Table | None:
        type_name = schema.UNIONS[union].get(number)
        if type_name is None:
            if (union, number) not in self._strangers:
                self._strangers.add((union, number))
                self._model.warnings.append(
                    f"{self._source.where}: options of kind {number} in {union} are newer than this "
                    "reader, and are left out"
                )
            return None
        if type_name == "NONE":
            return None
        return Table(type_name, self._source, place + _u32(self._view, place)[0])

    def _metadata(self, table: int) -> Metadata:
        name, buffer = self._fields("Metadata", table)
        index = _u32(self._view, table + buffer)[0] if buffer else 0
        if index >= len(self._model.buffers):
            raise self._source.damaged(
                f"buffer {index}, where there are {len(self._model.buffers)}", self._place
            )
        return Metadata(self._text(table, name), self._model.buffers[index])

    def _signature(self, table: int) -> Signature:
        inputs, outputs, key, _, subgraph_at = self._fields("SignatureDef", table)
        index = _u32(self._view, table + subgraph_at)[0] if subgraph_at else 0
        subgraphs = self._model.subgraphs
        if index >= len(subgraphs):
            raise self._source.damaged(
                f"subgraph {index}, where there are {len(subgraphs)}", self._place
            )
        subgraph = subgraphs[index]
        return Signature(
            self._text(table, key),
            subgraph,
            self._tensor_map(subgraph, table, inputs),
            self._tensor_map(subgraph, table, outputs),
        )

    def _tensor_map(self, subgraph: Subgraph, table: int, offset: int) -> list[tuple[str, Tensor]]:
        if not offset:
            return AbsentList()
        entries = []
        for entry in self._tables(table + offset):
            name, index = self._fields("TensorMap", entry)
            tensor = _u32(self._view, entry + index)[0] if index else 0
            entries.append((self._text(entry, name), self._tensor(subgraph, tensor, "tensor")))
        return entries

    def _read_byte_code(self) -> None:
        """Byte code that dispatch ops point at, by offsets from the start of the file."""
        codes = {
            id(c)
            for c in self._model.operator_codes
            if c.builtin_code == CUSTOM and c.custom_code == "DISPATCH_OP"
        }
        if not codes:
            return
        from litert.model.dispatch_op import read_dispatch_options  # it imports the graph

        modules: dict[tuple[int, int], Appended] = {}
        for subgraph_index, subgraph in enumerate(self._model.subgraphs):
            for index, op in enumerate(subgraph.ops):
                if (
                    id(op.code) not in codes
                    or op.custom_options is None
                    or not op.custom_options.size
                ):
                    continue
                self._place = f"op {index} of subgraph {subgraph_index}"
                where = f"{self._source.where}, {self._place}"
                try:
                    options = read_dispatch_options(op.custom_options.view, where)
                except LiteRtError as error:
                    self._model.warnings.append(f"{where}: kept as it is: {error.what}")
                    continue
                if "\0" in options.name:
                    raise self._source.damaged("a call name with a zero byte", self._place)
                place = (options.bytecode_offset, options.bytecode_size)
                if place not in modules:
                    modules[place] = Appended(self._blob(*place), [])
                modules[place].users.append((op, options.name))
        self._model.byte_code = [modules[place] for place in sorted(modules)]


def _or_absent(tables: Any) -> tuple[Table, ...]:
    return NO_VECTOR if tables is None else tables
