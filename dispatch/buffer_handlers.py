"""The part of the dispatch table for memory of a vendor's own kinds, in place of the host's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import IntEnum
from typing import Generic, TypeVar

from litert.core.tensor_type import RankedTensorType

Memory = TypeVar("Memory")


class LockMode(IntEnum):
    """What the host does with memory that it holds (LiteRT's `LiteRtTensorBufferLockMode`)."""

    READ = 0
    WRITE = 1
    READ_WRITE = 2


class BufferHandlers(ABC, Generic[Memory]):
    """Makes memory that the device can use, and shows it to the host (`LiteRtCustomTensorBufferHandlersDef`).

    For vendors whose requirements have no host memory. Host and device have it in turn: the host from `lock` to
    `unlock`, the device else. Where `lock` gives the same address each time, the CPU's kernels and the application
    work in that memory; elsewhere the host copies to and from it.

    Attributes:
      supported_types: the types of memory that `create` makes; numbers from 100 to 199 are for vendors to choose.
    """

    supported_types: Sequence[int]

    @abstractmethod
    def create(self, tensor_type: RankedTensorType, buffer_type: int, size: int) -> Memory:
        """Makes memory for a tensor.

        Args:
          tensor_type: of what it will hold.
          buffer_type: one of `supported_types`.
          size: in bytes; at least the tensor's.

        Returns:
          Whatever stands for it, but None.
        """

    @abstractmethod
    def destroy(self, memory: Memory) -> None:
        """Releases memory, which nobody has locked or registered; maybe after the device context is gone."""

    @abstractmethod
    def lock(self, memory: Memory, mode: LockMode) -> int:
        """Gives it to the host.

        Returns:
          Its address in this process, valid until `unlock`.
        """

    @abstractmethod
    def unlock(self, memory: Memory) -> None:
        """Gives it back to the device."""
