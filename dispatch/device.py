"""Tensor buffers that a device context knows: each registered once, however often it is bound."""

from __future__ import annotations

import threading
from typing import Any

from dispatch.tensor_buffer import TensorBuffer
from dispatch.vendor import Vendor, clean_up


class Registration:
    """A buffer that the device knows.

    Attributes:
      buffer: kept, and its owner with it, until the device has forgotten it.
      handle: the vendor's.
    """

    __slots__ = ("buffer", "handle", "uses")

    def __init__(self, buffer: TensorBuffer, handle: Any) -> None:
        self.buffer = buffer
        self.handle = handle
        self.uses = 1


class Device:
    """A device context, and the buffers that are registered with it.

    The vendor gets one call at a time for it, from whatever thread.

    Attributes:
      lock: to be held while the vendor is called with the context.
    """

    __slots__ = ("_registrations", "context", "lock", "vendor")

    def __init__(self, vendor: Vendor, context: Any) -> None:
        self.vendor = vendor
        self.context = context
        self.lock = threading.RLock()
        self._registrations: dict[int, Registration] = {}

    def acquire(self, buffer: TensorBuffer) -> Registration:
        """Registers a buffer, unless it is already; to be paired with `release`.

        Buffers are told apart as objects, not by address: memory that was freed and came back at the same address
        may be other pages, which a device must map anew.
        """
        with self.lock:
            found = self._registrations.get(id(buffer))
            if found is not None:
                found.uses += 1
                return found
            handle = self.vendor.create("register_tensor_buffer", self.context, buffer)
            registration = self._registrations[id(buffer)] = Registration(buffer, handle)
            return registration

    def release(self, registration: Registration) -> None:
        """Unregisters a buffer that nothing uses any more; what the vendor says to that is logged."""
        with self.lock:
            registration.uses -= 1
            if registration.uses:
                return
            del self._registrations[id(registration.buffer)]
            handle = registration.handle
            clean_up([lambda: self.vendor.call("unregister_tensor_buffer", self.context, handle)])
