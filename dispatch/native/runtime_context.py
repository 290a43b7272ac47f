"""The function table that the host passes to a dispatch library (`litert_npu/runtime_context.h`).

Some functions concern objects that this host does not have: the interpreter's buffer contexts, delegates, OpenCL
and GL. These functions return Unsupported, and log the first call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from dispatch.native.buffers import Buffers
from dispatch.native.library_events import Events
from dispatch.tensor_buffer import TensorBufferRequirements
from litert.abi.definitions import ffi
from litert.abi.handles import Handles
from litert.abi.options_table import options_table
from litert.abi.tables import fill, slots_of
from litert.core.counts import count_text
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status

_LOG = logging.getLogger(__name__)
_VERSION = (1, 2)  # of LiteRtRuntimeContext in release 2.3.0
_MOST = 64  # types or strides: no library has as many


class HostEnvironment(NamedTuple):
    """An environment of the host, to which a `LiteRtEnvironment` handle refers."""

    options: int  # handle


class RuntimeContext:
    """The runtime context for one dispatch library, and the objects for which the library has handles.

    Attributes:
      table: The function table, as cffi's `LiteRtRuntimeContext*`; valid as long as this object.
      handles: Handles of buffers, requirements, events and environments.
    """

    def __init__(self, owner: str, buffers: type[Buffers] = Buffers) -> None:
        """Fills the function table; `owner` is the library's name for messages."""
        self.handles = Handles()
        self.buffers = buffers(self.handles)
        self._options = options_table()
        self.table = ffi.new("LiteRtRuntimeContext*")
        slots: dict[str, Callable[..., Any]] = {}
        for part in (self, self._options, self.buffers, Events(self.handles)):
            slots |= slots_of(part, "LiteRtRuntimeContext")
        self._kept = fill(self.table, slots, _VERSION, owner, _LOG)

    def put_environment(self, environment: EnvironmentOptions) -> int:
        """Creates a `LiteRtEnvironment` handle, which stays valid as long as the library."""
        return self.handles.put(HostEnvironment(self._options.put_environment(environment)))

    def take_requirements(self, handle: Any) -> TensorBufferRequirements:
        """Returns the buffer requirements to which a library's handle refers, and drops the handle."""
        found = self.handles.get(handle, TensorBufferRequirements)
        self.handles.drop(handle)
        return found

    def create_tensor_buffer_requirements(
        self,
        num_types: int,
        types: Any,
        size: int,
        num_strides: int,
        strides: Any,
        requirements: Any,
    ) -> None:
        _check_array("memory type", num_types, types)
        _check_array("stride", num_strides, strides)
        requirements[0] = self.handles.put(
            TensorBufferRequirements(
                size,
                [int(types[i]) for i in range(num_types)],
                [int(strides[i]) for i in range(num_strides)],
            )
        )

    def get_environment_options(self, environment: int, options: Any) -> None:
        options[0] = self.handles.get(environment, HostEnvironment).options

    def environment_has_gpu_environment(self, environment: int, has: Any) -> None:
        self.handles.get(environment, HostEnvironment)
        has[0] = False


def _check_array(of: str, length: int, array: Any) -> None:
    problem = ""
    if not 0 <= length <= _MOST:
        problem = (
            f"passes {length} as the number of {of}s, but the number must be from 0 to {_MOST}"
        )
    elif length and not array:
        problem = f"passes NULL as the array of {count_text(length, of)}"
    if problem:
        what = f"the vendor's library {problem}"
        raise LiteRtError(Status.INVALID_ARGUMENT, what, hint=VENDOR_REPAIRS)
