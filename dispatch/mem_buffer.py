"""Bytes that the host hands to a vendor: a range of a mapped file, or memory; none of it is read here."""

from __future__ import annotations

from dataclasses import dataclass

from litert.model.blob import Blob


@dataclass(frozen=True, slots=True)
class MemBuffer:
    """Bytes that the host hands to a vendor (LiteRT's `LiteRtMemBuffer`).

    Attributes:
      fd: of the open file that they lie in; -1 for bytes in memory alone.
      base_address: where the file (or the memory) starts in this process.
      offset: of the bytes from `base_address`, and from the start of the file.
      size: in bytes.
      view: the bytes, mapped and not read. Valid as long as the device context.
    """

    fd: int
    base_address: int
    offset: int
    size: int
    view: memoryview

    @classmethod
    def from_blob(cls, blob: Blob) -> MemBuffer:
        """A blob's bytes, with file and offset where it lies in a file; that file must stay open."""
        if blob.file is None:
            return cls.from_memory(blob.view)
        base_address = _address(blob.file.view)
        return cls(blob.file.fd, base_address, blob.offset, blob.size, blob.view)

    @classmethod
    def from_memory(
        cls, memory: bytes | bytearray | memoryview, offset: int = 0, size: int | None = None
    ) -> MemBuffer:
        """A range of contiguous memory, to its end where no size is given."""
        whole = memoryview(memory).cast("B")
        end = whole.nbytes if size is None else offset + size
        assert 0 <= offset <= end <= whole.nbytes
        return cls(-1, _address(whole), offset, end - offset, whole[offset:end])


def _address(view: memoryview) -> int:
    """Where a view's bytes are in this process; it may be read-only, which ctypes refuses."""
    import numpy as np  # here, since `dispatch` is imported by commands that run nothing

    address: int = np.asarray(view).__array_interface__["data"][0]
    return address
