"""The bytes after all objects of a file, such as a ZIP archive of the files that TFLite metadata refer to.

A flatbuffer does not store its size, so its end is the end of its last object. A ZIP archive is recognized by the
record at its end. The offsets in the archive count from the start of the file, so they are updated when the
archive moves (APPNOTE.TXT, 4.3).
"""

from __future__ import annotations

import struct

from litert.model import schema
from litert.model.flatbuffer import FlatbufferBytes
from litert.model.schema_types import FieldKind, table_schema

TRAILING_ALIGNMENT = 16
"""Alignment with which trailing bytes are written. When a file is read, padding zeros for this alignment do not
count as trailing bytes.
"""

_PADDING = 64  # fewer zeros only align the next object, or the end of the file

# Signature, entries, size and offset of the directory, comment size.
_END = struct.Struct("<4s4x2xHIIH")
# Signature, sizes of name, extra and comment, offset of the file.
_ENTRY = struct.Struct("<4s24xHHH8xI")
_MAX_COMMENT = 0xFFFF
_ZIP64 = 0xFFFFFFFF


def find_trailing(source: FlatbufferBytes, root: int, data_end: int) -> tuple[int, int] | None:
    """Returns the position and number of the bytes that follow all tables and constants.

    The result is None if there are no trailing bytes.
    """
    size = source.size
    extent = _Extent(source)
    extent.table("Model", root, only_last=True)
    end = max(extent.end, data_end)
    if end >= size:
        return None
    archive = _find_archive(source.view[end:], end)
    if archive is not None and _is_padding(source, end, archive):
        return archive, size - archive
    # Only a walk through all objects shows which bytes the flatbuffer does not use
    extent = _Extent(source)
    extent.table("Model", root, only_last=False)
    end = max(extent.end, data_end)
    if end >= size or _is_padding(source, end, size):
        return None
    aligned = min(end + -end % TRAILING_ALIGNMENT, size)
    if archive is not None and _is_padding(source, end, archive):
        end = archive
    elif _is_padding(source, end, aligned):
        end = aligned
    return end, size - end


def _is_padding(source: FlatbufferBytes, start: int, end: int) -> bool:
    return end - start < _PADDING and not any(source.view[start:end])


class _Extent:
    """Determines where the tables, vectors and strings of a flatbuffer end.

    Attributes:
      end: End of the last object found so far, in bytes from the start of the file.
    """

    def __init__(self, source: FlatbufferBytes) -> None:
        self.end = 0
        self._source = source
        self._seen: set[int] = set()
        self._vtables: set[int] = set()

    def table(self, type_name: str, position: int, only_last: bool) -> None:
        """Visits a table and everything to which its offsets point.

        With `only_last`, visits only the last table of each vector of tables.
        """
        if position in self._seen:
            return
        self._seen.add(position)
        source = self._source
        view = source.view
        vtable = position - struct.unpack_from("<i", view, position)[0]
        offsets = source.fields(position)
        if vtable not in self._vtables:
            self._vtables.add(vtable)
            self._reach(vtable + struct.unpack_from("<H", view, vtable)[0])
        self._reach(position + struct.unpack_from("<H", view, vtable + 2)[0])
        for field in table_schema(type_name).fields.values():
            offset = offsets[field.slot] if field.slot < len(offsets) else 0
            if not offset or field.kind is FieldKind.SCALAR:
                continue
            target = source.target(position + offset)
            if field.kind is FieldKind.TABLE:
                self.table(field.type_name, target, only_last)
            elif field.kind is FieldKind.UNION:
                number = view[position + offsets[field.slot - 1]] if offsets[field.slot - 1] else 0
                member = schema.UNIONS[field.type_name].get(number, "NONE")
                if member != "NONE":
                    self.table(member, target, only_last)
            elif field.kind is FieldKind.TABLES:
                if target in self._seen:
                    continue
                self._seen.add(target)
                tables = source.tables(target)
                self._reach(target + 4 + 4 * len(tables))
                for entry in [max(tables)] if only_last and tables else tables:
                    self.table(field.type_name, entry, only_last)
            else:
                count = struct.unpack_from("<I", view, target)[0]
                terminator = field.kind is FieldKind.STRING
                self._reach(target + 4 + count * (field.element_size or 1) + terminator)

    def _reach(self, end: int) -> None:
        # Bytes past the file are the reader's concern: some of them are never read.
        self.end = max(self.end, min(end, self._source.size))


def _find_archive(tail: memoryview, start: int) -> int | None:
    """Returns the position of a ZIP archive at the end of a file; `tail` are the file's bytes from `start` on.

    The result is None if there is no ZIP archive.
    """
    found = _directory(tail)
    if found is None:
        return None
    directory, offset, files = found
    first = min(files, default=offset)
    place = directory - (offset - first)  # position of the first file in the tail
    return start + place if place >= 0 and bytes(tail[place : place + 2]) == b"PK" else None


def moved_archive(trailing: memoryview, old: int, new: int) -> tuple[int, bytes] | None:
    """Computes new offsets for a ZIP archive in trailing bytes that move from position `old` to `new` in the file.

    Returns:
      A position in `trailing`, and the new bytes (the archive's directory) from this position to the end. None if
      no bytes change, for example because the archive's offsets count from the archive's start.
    """
    found = _directory(trailing)
    if found is None or old == new:
        return None
    directory, offset, files = found
    if offset - directory != old or max([offset, *files]) + new - old >= _ZIP64:
        return None
    data = bytearray(trailing[directory:])
    place = 0
    for file in files:
        _, name, extra, comment, _ = _ENTRY.unpack_from(data, place)
        struct.pack_into("<I", data, place + 42, file + new - old)
        place += 46 + name + extra + comment
    struct.pack_into("<I", data, place + 16, offset + new - old)
    return directory, bytes(data)


def _directory(data: memoryview) -> tuple[int, int, list[int]] | None:
    """Reads the directory of a ZIP archive at the end of data.

    Returns the directory's actual position, the position that the archive stores, and the offsets of the files.
    """
    tail = bytes(data[max(0, data.nbytes - _END.size - _MAX_COMMENT) :])
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        return None
    _, count, size, offset, comment = _END.unpack_from(tail, at)
    end = data.nbytes - len(tail) + at
    directory = end - size
    if directory < 0 or offset == _ZIP64 or at + _END.size + comment != len(tail):
        return None
    files = []
    place = directory
    for _ in range(count):
        if place + _ENTRY.size > end:
            return None
        signature, name, extra, comment, file = _ENTRY.unpack_from(data, place)
        if signature != b"PK\1\2" or file == _ZIP64:
            return None
        files.append(file)
        place += _ENTRY.size + name + extra + comment
    return (directory, offset, files) if place == end else None
