"""A device context, its registered tensor buffers, and the inputs and outputs to which buffers are bound.

A buffer that is bound several times is registered only once.
"""

from __future__ import annotations

import threading
from typing import Any, Literal

from dispatch.requirements import ask_requirements, refuse_misfit
from dispatch.tensor_buffer import TensorBuffer, TensorBufferRequirements
from dispatch.vendor import Vendor, clean_up
from litert.core.tensor_type import RankedTensorType


class KnownBuffer:
    """A registered buffer and the vendor's handle for it; keeps the buffer alive until it is unregistered."""

    __slots__ = ("buffer", "handle", "uses")

    def __init__(self, buffer: TensorBuffer, handle: Any) -> None:
        self.buffer = buffer
        self.handle = handle
        self.uses = 1


class OpenDevice:
    """A device context and the buffers that are registered with it.

    The host makes one call at a time for this context, from any thread.

    Attributes:
      lock: Lock that the host holds while it calls a function of the vendor with this context.
    """

    __slots__ = ("_registrations", "context", "lock", "vendor")

    def __init__(self, vendor: Vendor, context: Any) -> None:
        self.vendor = vendor
        self.context = context
        self.lock = threading.RLock()
        self._registrations: dict[int, KnownBuffer] = {}

    def acquire(self, buffer: TensorBuffer) -> KnownBuffer:
        """Registers a buffer if it is not registered yet; each caller must later call `release` once.

        Buffers are distinguished by object identity, not by address. New memory can have the same address as freed
        memory, but the device must map the new memory again.
        """
        with self.lock:
            found = self._registrations.get(id(buffer))
            if found is not None:
                found.uses += 1
                return found
            handle = self.vendor.create("register_tensor_buffer", self.context, buffer)
            registration = self._registrations[id(buffer)] = KnownBuffer(buffer, handle)
            return registration

    def release(self, registration: KnownBuffer) -> None:
        """Unregisters a buffer when its last user releases it; errors of the vendor are logged."""
        with self.lock:
            registration.uses -= 1
            if registration.uses:
                return
            del self._registrations[id(registration.buffer)]
            handle = registration.handle
            clean_up([lambda: self.vendor.call("unregister_tensor_buffer", self.context, handle)])


Kind = Literal["input", "output"]


class Port:
    """One input or output of an NPU call; buffers that meet its requirements can be bound to it."""

    __slots__ = (
        "_context", "_device", "_index", "_is_checked", "_kind", "_of_call", "_registration", "_tensor_type",
        "name", "requirements",
    )  # fmt: skip

    def __init__(
        self,
        device: OpenDevice,
        invocation_context: Any,
        kind: Kind,
        index: int,
        tensor_type: RankedTensorType,
        of_call: str,
    ) -> None:
        """Gets the vendor's buffer requirements; `of_call` is a text for messages, such as ` of 'Partition_0'`."""
        self.name = f"{kind} {index}"
        self._device = device
        self._context = invocation_context
        self._kind = kind
        self._index = index
        self._of_call = of_call
        self._registration: KnownBuffer | None = None
        self.ask(tensor_type)

    def ask(self, tensor_type: RankedTensorType) -> None:
        """Gets the vendor's buffer requirements for a new tensor type; a buffer must then be bound again."""
        self._tensor_type = tensor_type
        self._is_checked = False
        self.requirements = self.ask_for(tensor_type)

    def ask_for(self, tensor_type: RankedTensorType) -> TensorBufferRequirements:
        """Returns the vendor's buffer requirements for a tensor type; does not change this object."""
        return ask_requirements(
            self._device.vendor, self._context, self._kind, self._index, tensor_type, self._of_call
        )

    @property
    def buffer(self) -> TensorBuffer | None:
        """The bound buffer; None if no buffer was bound since the last change of the requirements."""
        return self._registration.buffer if self._registration and self._is_checked else None

    def bind(self, buffer: TensorBuffer) -> None:
        """Registers and attaches a buffer, then detaches the old buffer, as LiteRT does.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the buffer does not meet the requirements. The old buffer stays bound
            after this error, and also if the vendor cannot register the new buffer. If the vendor cannot attach
            the new buffer, no buffer is bound any more.
        """
        where = f"{self.name}{self._of_call}"
        dispatch = self._device.vendor.dispatch
        refuse_misfit(buffer, self.requirements, self._tensor_type, where, dispatch)
        former = self._registration
        if former is not None and former.buffer is buffer:
            self._is_checked = True
            return
        registration = self._registration = self._device.acquire(buffer)
        self._is_checked = True
        try:
            self._call("attach", registration)
        except BaseException:
            self._registration = None
            clean_up([lambda: self._call("detach", registration)])
            self._device.release(registration)
            raise
        finally:
            if former is not None:
                old = former
                clean_up([lambda: self._call("detach", old), lambda: self._device.release(old)])

    def detach(self) -> None:
        """Detaches the buffer from the NPU call; the buffer stays registered until `release`."""
        if self._registration is not None:
            self._call("detach", self._registration)

    def release(self) -> None:
        """Releases the registration of the buffer, which is already detached."""
        if self._registration is not None:
            self._device.release(self._registration)
            self._registration = None

    def _call(self, verb: str, registration: KnownBuffer) -> None:
        with self._device.lock:  # the vendor finds the handle in the device context
            self._device.vendor.call(
                f"{verb}_{self._kind}",
                self._context,
                self._index,
                registration.handle,
                detail=f" {self._index}{self._of_call}",
            )
