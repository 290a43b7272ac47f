"""Reads the tables, vectors, strings and data of a file, whose structure the schema defines.

The reader warns of content that it does not know. The function `read_metadata` reads only the metadata of a model
that another program has in memory. The given bytes may lack the part of the model after the metadata, or may
contain unrelated bytes after the model.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeVar

from litert.core.counts import index_range
from litert.core.errors import LiteRtError
from litert.model import schema
from litert.model.blob import Blob, MappedFile
from litert.model.flatbuffer import MAX_SLOTS, OUTSIDE, Budget, FlatbufferBytes, i32, u32, u64
from litert.model.schema_types import IDENTIFIER, table_schema
from litert.model.table import NO_TEXT, Table

_Item = TypeVar("_Item")

MIN_EXTERNAL_OFFSET = 2
"""Least valid offset from the start of the file: the schema says that an offset "is only valid if > 1"."""

_INT_VECTORS = [struct.Struct(f"<{count}i").unpack_from for count in range(9)]
_SHARING = 2  # how often a byte may belong to a constant, on average


class SchemaReader:
    """A reader for the tables of the schema in one file.

    Attributes:
      file: File from which the model is read; None for a model in memory.
      place: Name of the part of the file that is being read, for error messages.
      warnings: Warnings about content that the reader ignored, because it does not know the content.
      data_end: End of the data found so far, in the flatbuffer or after it.
    """

    def __init__(self, view: memoryview, file: MappedFile | None) -> None:
        self.view = view
        self.file = file
        self.source = FlatbufferBytes(view, file.path if file else "a model in memory")
        self.budget = Budget(self.source)
        self.place = ""
        self.warnings: list[str] = []
        self.data_end = 0
        self._layouts: dict[tuple[str, int], tuple[int, ...]] = {}
        self._blobs: dict[tuple[int, int], Blob] = {}
        self._blob_bytes = 0
        self._strangers: set[tuple[str, int]] = set()

    def damaged(self, what: str) -> LiteRtError:
        """Returns an error that names the part of the file being read; the caller raises the error."""
        return self.source.damaged(what, self.place)

    def fields(self, type_name: str, table: int) -> tuple[int, ...]:
        """Returns the offset of each field that the schema defines for a table; an absent field has offset 0."""
        vtable = table - i32(self.view, table)[0]
        found = self._layouts.get((type_name, vtable))
        if found is None:
            found = self._layouts[type_name, vtable] = self.layout(type_name, vtable)
        return found

    def layout(self, type_name: str, vtable: int) -> tuple[int, ...]:
        """Returns the same offsets as `fields`, but from a vtable; warns of fields that the schema lacks."""
        offsets = self.source.vtable(vtable)
        known = len(table_schema(type_name).slots)
        for slot in range(known, len(offsets)):
            if offsets[slot]:
                self._warn(type_name, slot, f"field {slot} of table {type_name} is")
        return (offsets + (0,) * MAX_SLOTS)[:known]

    def table(self, type_name: str, place: int) -> Table:
        """Returns the table to which the offset at `place` points; its fields are decoded on access."""
        position = place + u32(self.view, place)[0]
        self.fields(type_name, position)
        return Table(type_name, self.source, position)

    def union(self, union: str, number: int, place: int) -> Table | None:
        """Returns the table of a union.

        The result is None if the union is empty. If the union holds a table that the schema lacks, the result is
        also None, and the reader warns.
        """
        type_name = schema.UNIONS[union].get(number)
        if type_name is None:
            self._warn(union, number, f"options of kind {number} in {union} are")
            return None
        return None if type_name == "NONE" else self.table(type_name, place)

    def tables(self, place: int) -> list[int]:
        """Returns the positions of the tables in a vector; the offset at `place` points to the vector."""
        tables = self.source.tables(self.source.target(place))
        self.budget.spend_tables(len(tables))
        return tables

    def text(self, table: int, offset: int) -> str:
        """Returns the value of a table's string field; an offset of 0 means that the field is absent."""
        if not offset:
            return NO_TEXT
        text = self.source.text(self.source.target(table + offset))
        self.budget.spend_bytes(len(text))
        return text

    def numbers(self, place: int) -> tuple[int, ...]:
        """Returns a vector of ints, usually a shape."""
        view = self.view
        vector = place + u32(view, place)[0]
        count = u32(view, vector)[0]
        if count < len(_INT_VECTORS):
            shape: tuple[int, ...] = _INT_VECTORS[count](view, vector + 4)
            return shape
        _, start, end = self.source.span(vector, 4)
        self.budget.spend_bytes(end - start)
        return struct.unpack_from(f"<{count}i", view, start)

    def pick(self, items: Sequence[_Item], index: int, what: str) -> _Item:
        """Returns the item at an index that comes from the file; `what` is the kind of item for error messages."""
        if index >= len(items):
            raise self.damaged(f"{what} {index} is used, but {index_range(what, len(items))}")
        return items[index]

    def blob(self, start: int, size: int) -> Blob:
        """Returns a range of the file as a blob; the same range always returns the same object."""
        found = self._blobs.get((start, size))
        if found is None:
            end = start + size
            if end > self.source.size:
                raise self.damaged(
                    f"the model refers to bytes {start} to {end}, but the file has only "
                    f"{self.source.size} bytes"
                )
            self._blob_bytes += size
            if self._blob_bytes > _SHARING * self.source.size:
                raise self.damaged("some data overlap")
            found = self._blobs[start, size] = Blob.within(self.file or self.view, start, size)
            self.data_end = max(self.data_end, end)
        return found

    def _warn(self, name: str, number: int, what: str) -> None:
        if (name, number) not in self._strangers:
            self._strangers.add((name, number))
            self.warnings.append(f"{self.source.where}: {what} newer than this reader, and ignored")


def is_model(view: memoryview) -> bool:
    """Returns whether bytes 4 to 7 are the file identifier of TFLite models."""
    return bytes(view[4:8]) == IDENTIFIER


def read_metadata(source: MappedFile | memoryview, prefix: str) -> dict[str, Blob]:
    """Returns the metadata whose names begin with `prefix`, by the rest of the name after the prefix.

    If several entries have the same name, the result contains the first of these entries.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, if an offset that leads to the metadata is invalid.
    """
    file = source if isinstance(source, MappedFile) else None
    reader = SchemaReader(source.view if isinstance(source, MappedFile) else source, file)
    reader.place = "metadata"
    found: dict[str, Blob] = {}
    try:
        root = reader.source.target(0)
        fields = reader.fields("Model", root)
        buffers, metadata = fields[4], fields[6]
        if not metadata:
            return found
        places = reader.tables(root + buffers) if buffers else []
        for table in reader.tables(root + metadata):
            name_at, buffer_at = reader.fields("Metadata", table)
            name = reader.text(table, name_at)
            if name.startswith(prefix):
                index = u32(reader.view, table + buffer_at)[0] if buffer_at else 0
                place = reader.pick(places, index, "buffer")
                found.setdefault(name[len(prefix) :], _blob(reader, place))
    except (struct.error, IndexError, OverflowError):
        raise reader.damaged(OUTSIDE) from None
    return found


def _blob(reader: SchemaReader, table: int) -> Blob:
    data, offset, size = reader.fields("Buffer", table)
    external = u64(reader.view, table + offset)[0] if offset else 0
    if external >= MIN_EXTERNAL_OFFSET:
        return reader.blob(external, u64(reader.view, table + size)[0] if size else 0)
    if not data:
        return Blob(b"")
    vector = reader.source.target(table + data)
    return reader.blob(vector + 4, u32(reader.view, vector)[0])
