"""Reads the metadata of a model and nothing else of it, as where somebody else runs it.

The model may be cut behind what is asked for, or followed by what is not its own.
"""

from __future__ import annotations

import struct

from litert.model.blob import Blob, MappedFile
from litert.model.flatbuffer import OUTSIDE
from litert.model.schema_reader import MIN_EXTERNAL_OFFSET, SchemaReader

_IDENTIFIER = b"TFL3"

_u32 = struct.Struct("<I").unpack_from
_u64 = struct.Struct("<Q").unpack_from


def is_model(view: memoryview) -> bool:
    """Whether bytes begin as a TFLite model does."""
    return bytes(view[4:8]) == _IDENTIFIER


def read_metadata(source: MappedFile | memoryview, prefix: str) -> dict[str, Blob]:
    """The metadata whose names begin with `prefix`, by the rest of the name; of a name given twice the first.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, where an offset that is followed makes no sense.
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
                index = _u32(reader.view, table + buffer_at)[0] if buffer_at else 0
                if index >= len(places):
                    raise reader.damaged(f"buffer {index}, where there are {len(places)}")
                found.setdefault(name[len(prefix) :], _blob(reader, places[index]))
    except (struct.error, IndexError, OverflowError):
        raise reader.damaged(OUTSIDE) from None
    return found


def _blob(reader: SchemaReader, table: int) -> Blob:
    data, offset, size = reader.fields("Buffer", table)
    external = _u64(reader.view, table + offset)[0] if offset else 0
    if external >= MIN_EXTERNAL_OFFSET:
        return reader.blob(external, _u64(reader.view, table + size)[0] if size else 0)
    if not data:
        return Blob(b"")
    vector = reader.source.target(table + data)
    return reader.blob(vector + 4, _u32(reader.view, vector)[0])
