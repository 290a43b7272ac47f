"""The table of functions that a dispatch library gets from the host (`litert_npu/runtime_context.h`).

Functions for objects that this host does not have (the interpreter's buffer contexts, delegates, OpenCL, GL)
return Unsupported, and log the call once.
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
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status

_LOG = logging.getLogger(__name__)
_VERSION = (1, 2)  # of LiteRtRuntimeContext in release 2.3.0
_MOST = 64  # types or strides: no library has as many


class HostEnvironment(NamedTuple):
    """The object behind a `LiteRtEnvironment` handle."""

    options: int  # handle


class RuntimeContext:
    """The runtime context of one library, and the objects that the library has handles of.

    Attributes:
      table: The table of functions, as cffi's `LiteRtRuntimeContext*`; lives as long as this object.
      handles: Handles of buffers, requirements, events and environments.
    """

    def __init__(self, owner: str, buffers: type[Buffers] = Buffers) -> None:
        """Fills the table; `owner` names the library in messages, and `buffers` has the buffer functions."""
        self.handles = Handles()
        self.buffers = buffers(self.handles)
        self._options = options_table()
        self.table = ffi.new("LiteRtRuntimeContext*")
        slots: dict[str, Callable[..., Any]] = {}
        for part in (self, self._options, self.buffers, Events(self.handles)):
            slots |= slots_of(part, "LiteRtRuntimeContext")
        self._kept = fill(self.table, slots, _VERSION, owner, _LOG)

    def put_environment(self, environment: EnvironmentOptions) -> int:
        """Creates a `LiteRtEnvironment`, which lives as long as the library."""
        return self.handles.put(HostEnvironment(self._options.put_environment(environment)))

    def take_requirements(self, handle: Any) -> TensorBufferRequirements:
        """Returns the requirements that a library has created and passed to the host."""
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
        _check_array("types of memory", num_types, types)
        _check_array("strides", num_strides, strides)
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
    if length < 0 or length > _MOST or (length and not array):
        raise LiteRtError(Status.INVALID_ARGUMENT, f"{length} {of} at {array}")
