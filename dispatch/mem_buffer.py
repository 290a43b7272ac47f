"""Bytes that the host passes to a vendor without reading them: a range of a mapped file, or of other memory."""

from __future__ import annotations

from dataclasses import dataclass

from litert.model.blob import Blob


@dataclass(frozen=True, slots=True)
class MemBuffer:
    """Bytes that the host passes to a vendor (LiteRT's `LiteRtMemBuffer`).

    Attributes:
      fd: File descriptor of the open file that contains the bytes; -1 if no file contains them.
      base_address: Address in this process at which the mapped file or the memory starts.
      offset: Offset of the bytes from `base_address`, in bytes. If a file contains the bytes, they have the same
        offset from the start of the file.
      size: Number of bytes in the buffer.
      view: Memoryview of the bytes, without a copy. The bytes are valid until the device context is destroyed.
    """

    fd: int
    base_address: int
    offset: int
    size: int
    view: memoryview

    @classmethod
    def from_blob(cls, blob: Blob) -> MemBuffer:
        """Makes a buffer from a blob; if the blob is part of a file, the file must stay open."""
        if blob.file is None:
            return cls.from_memory(blob.view)
        base_address = _address(blob.file.view)
        return cls(blob.file.fd, base_address, blob.offset, blob.size, blob.view)

    @classmethod
    def from_memory(
        cls, memory: bytes | bytearray | memoryview, offset: int = 0, size: int | None = None
    ) -> MemBuffer:
        """Makes a buffer from a range of contiguous memory; the default range extends to the end of the memory."""
        whole = memoryview(memory).cast("B")
        end = whole.nbytes if size is None else offset + size
        assert 0 <= offset <= end <= whole.nbytes
        return cls(-1, _address(whole), offset, end - offset, whole[offset:end])


def _address(view: memoryview) -> int:
    """Returns the address of a view's bytes; the view may be read-only, which ctypes does not support."""
    import numpy as np  # here, since `dispatch` is imported by commands that run nothing

    address: int = np.asarray(view).__array_interface__["data"][0]
    return address
