"""Reads a TFLite file into a `Model`: indices become references to objects, and data become views of the file.

The reader does not trust its input: it checks each offset and index, and raises a `LiteRtError` with the position
of the damage. Options, quantization and other tables are decoded on first access, or when the model is written.
LiteRT defines the format in `tflite/converter/schema/schema.fbs`; the module `schema` contains this schema as
data.
"""

from __future__ import annotations

import os
import struct
from typing import Any

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import MappedFile
from litert.model.collector import collector_held
from litert.model.dispatch_op import DISPATCH_OP, is_dispatch_op, read_dispatch_options
from litert.model.file_digest import find_digest
from litert.model.flatbuffer import OUTSIDE, i8, i32, u32, u64
from litert.model.graph import (
    Appended,
    Buffer,
    Metadata,
    Model,
    OperatorCode,
    Signature,
    Subgraph,
    Tensor,
)
from litert.model.schema_reader import MIN_EXTERNAL_OFFSET, SchemaReader, is_model
from litert.model.subgraph_reader import SubgraphReader, tensor_at
from litert.model.table import NO_VECTOR, AbsentList, Table
from litert.model.trailing import find_trailing

_LARGE_FILE = 64 << 20
_NEAR = 64  # number of bytes that usually contain a whole Buffer table with the size of its data


def read_model(source: str | os.PathLike[str] | bytes | memoryview | MappedFile) -> Model:
    """Reads a model. The model's constants are views of the file, not copies.

    Args:
      source: A file (path or `MappedFile`), which the model owns until `Model.close`; or the bytes of a file,
        which the model does not copy.

    Raises:
      LiteRtError: NOT_FOUND, if the file does not exist; FILE_IO, if the file cannot be read; INVALID_FLATBUFFER,
        if the file is damaged or is not a TFLite model.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return _ModelReader(memoryview(source).cast("B"), None).read()
    if isinstance(source, MappedFile):
        return _ModelReader(source.view, source).read()
    file = MappedFile(source)
    try:
        return _ModelReader(file.view, file).read()
    except BaseException:
        file.close()
        raise


class _ModelReader:
    """Reads a file into a new model."""

    def __init__(self, view: memoryview, file: MappedFile | None) -> None:
        self._view = view
        self._reader = SchemaReader(view, file)
        self._model = Model(source=file, warnings=self._reader.warnings)

    def read(self) -> Model:
        self._check_header()
        self._model.has_digest = find_digest(self._view) is not None
        try:
            with collector_held():
                self._read_root(self._reader.source.target(0))
        except (struct.error, IndexError, OverflowError):
            raise self._reader.damaged(OUTSIDE) from None
        return self._model

    def _check_header(self) -> None:
        view = self._view
        if is_model(view):
            return
        if bytes(view[:4]) == b"PK\3\4":
            what, hint = (
                "the data are a ZIP archive",
                "Unpack the archive, and give its .tflite file.",
            )
        elif not view.nbytes:
            what, hint = "the file is empty", "Copy the file again from its source."
        elif _is_text(bytes(view[:256])):
            what, hint = "the data are text", "Give a .tflite file."
        elif view.nbytes < 8:
            what, hint = (
                f"the file has only {view.nbytes} bytes",
                "Copy the file again from its source.",
            )
        else:
            found = bytes(view[4:8])
            what = f"the file has the identifier {repr(found)[1:]}, not 'TFL3'"
            hint = "Name a TFLite model."
        where = self._reader.source.where
        raise LiteRtError(Status.INVALID_FLATBUFFER, f"not a TFLite model: {what}", where, hint)

    def _read_root(self, root: int) -> None:
        model, reader = self._model, self._reader
        (
            version, codes, subgraphs, description, buffers, old_metadata, metadata, signatures, *_,
        ) = reader.fields("Model", root)  # fmt: skip
        if version:
            model.version = u32(self._view, root + version)[0]
        if description:
            model.description = reader.text(root, description)
        reader.place = "operator codes"
        model.operator_codes = AbsentList()
        if codes:
            model.operator_codes = [self._operator_code(t) for t in reader.tables(root + codes)]
        reader.place = "buffers"
        model.buffers = self._buffers(root + buffers) if buffers else AbsentList()
        reader.place = "subgraphs"
        model.subgraphs = AbsentList()
        if subgraphs:
            self._read_subgraphs(reader.tables(root + subgraphs))
        reader.place = "metadata"
        if old_metadata:
            model.metadata_buffers = tuple(
                model.buffers[index] if 0 <= index < len(model.buffers) else index
                for index in reader.numbers(root + old_metadata)
            )
        if metadata:
            model.metadata = [self._metadata(table) for table in reader.tables(root + metadata)]
        reader.place = "signatures"
        if signatures:
            model.signatures = [self._signature(t) for t in reader.tables(root + signatures)]
        whole = Table("Model", reader.source, root)
        model.external_buffer_groups = _or_absent(whole.get("external_buffer_groups"))
        model.external_buffers = _or_absent(whole.get("external_buffers"))
        self._read_byte_code()
        reader.place = "the end of the file"
        trailing = find_trailing(reader.source, root, reader.data_end)
        if trailing is not None:
            model.trailing = reader.blob(*trailing)

    def _operator_code(self, table: int) -> OperatorCode:
        reader, view = self._reader, self._view
        deprecated, custom, version, code = reader.fields("OperatorCode", table)
        fields = (
            i8(view, table + deprecated)[0] if deprecated else 0,
            i32(view, table + code)[0] if code else 0,
        )
        operator_code = OperatorCode(
            max(fields),
            reader.text(table, custom) if custom else None,
            i32(view, table + version)[0] if version else 1,
        )
        operator_code.fields = fields
        return operator_code

    def _buffers(self, place: int) -> list[Buffer]:
        view, reader = self._view, self._reader
        # Each access to a mapping loads the neighbouring pages into memory, and costs a page fault.
        file = reader.file
        if file is not None and (reader.source.size <= _LARGE_FILE or not file.is_open):
            file = None
        layouts: dict[int, tuple[int, ...]] = {}
        buffers = []
        for table in reader.tables(place):
            near = (
                bytes(view[table : table + _NEAR])
                if file is None
                else os.pread(file.fd, _NEAR, table)
            )
            vtable = table - i32(near)[0]
            layout = layouts.get(vtable)
            if layout is None:
                layout = layouts[vtable] = reader.layout("Buffer", vtable)
            data, offset, size = layout
            external = u64(view, table + offset)[0] if offset else 0
            if external >= MIN_EXTERNAL_OFFSET:
                length = u64(view, table + size)[0] if size else 0
                buffers.append(Buffer(reader.blob(external, length), is_external=True))
            elif data:
                vector = data + u32(near if data <= _NEAR - 4 else view[table:], data)[0]
                if vector <= _NEAR - 4:
                    length = u32(near, vector)[0]
                elif file is None:
                    length = u32(view, table + vector)[0]
                else:
                    length = u32(os.pread(file.fd, 4, table + vector))[0]
                buffers.append(Buffer(reader.blob(table + vector + 4, length)))
            else:
                buffers.append(Buffer())
        return buffers

    def _read_subgraphs(self, tables: list[int]) -> None:
        model = self._model
        model.subgraphs = [Subgraph() for _ in tables]
        reader = SubgraphReader(self._reader, model.buffers, model.operator_codes)
        for index, (table, subgraph) in enumerate(zip(tables, model.subgraphs, strict=True)):
            reader.read(subgraph, index, table)

    def _metadata(self, table: int) -> Metadata:
        reader = self._reader
        name, buffer = reader.fields("Metadata", table)
        index = u32(self._view, table + buffer)[0] if buffer else 0
        picked = reader.pick(self._model.buffers, index, "buffer")
        return Metadata(reader.text(table, name), picked)

    def _signature(self, table: int) -> Signature:
        reader = self._reader
        inputs, outputs, key, _, subgraph_at = reader.fields("SignatureDef", table)
        index = u32(self._view, table + subgraph_at)[0] if subgraph_at else 0
        subgraph = reader.pick(self._model.subgraphs, index, "subgraph")
        return Signature(
            reader.text(table, key),
            subgraph,
            self._tensor_map(subgraph, table, inputs),
            self._tensor_map(subgraph, table, outputs),
        )

    def _tensor_map(self, subgraph: Subgraph, table: int, offset: int) -> list[tuple[str, Tensor]]:
        if not offset:
            return AbsentList()
        reader = self._reader
        entries = []
        for entry in reader.tables(table + offset):
            name, index_at = reader.fields("TensorMap", entry)
            index = u32(self._view, entry + index_at)[0] if index_at else 0
            entries.append((reader.text(entry, name), tensor_at(reader, subgraph, index, "tensor")))
        return entries

    def _read_byte_code(self) -> None:
        """Finds the byte code of dispatch ops, which contain offsets from the start of the file."""
        if not any(code.custom_code == DISPATCH_OP for code in self._model.operator_codes):
            return
        reader = self._reader
        modules: dict[tuple[int, int], Appended] = {}
        for subgraph_index, subgraph in enumerate(self._model.subgraphs):
            for index, op in enumerate(subgraph.ops):
                if (
                    not is_dispatch_op(op)
                    or op.custom_options is None
                    or not op.custom_options.size
                ):
                    continue
                reader.place = f"op {index} of subgraph {subgraph_index}"
                where = f"{reader.source.where}, {reader.place}"
                try:
                    options = read_dispatch_options(op.custom_options.view, where)
                except LiteRtError as error:
                    reader.warnings.append(f"{where} is kept unchanged: {error.what}")
                    continue
                if "\0" in options.name:
                    raise reader.damaged("the name of the NPU call contains a zero byte")
                place = (options.bytecode_offset, options.bytecode_size)
                if place not in modules:
                    modules[place] = Appended(reader.blob(*place), [])
                modules[place].users.append((op, options.name))
        self._model.byte_code = [modules[place] for place in sorted(modules)]


def _or_absent(tables: Any) -> tuple[Table, ...]:
    return NO_VECTOR if tables is None else tables


def _is_text(head: bytes) -> bool:
    """Returns whether a file begins with printable characters and line ends only."""
    text = head.decode("utf-8", "replace")
    return all(c.isprintable() or c in "\t\r\n" for c in text) and "\ufffd" not in text[:-1]
