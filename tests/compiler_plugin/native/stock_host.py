"""Uses stock LiteRT as a host without its tool: models and a compiler context with libLiteRt.so's functions."""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import ai_edge_litert

from litert.abi.definitions import ffi
from litert.abi.status_codes import check
from litert.abi.tables import make_callback

_IRREGULAR = {
    "get_fully_connected_quantized_bias_type_option": (
        "LiteRtFullyConnectedGetQuantizedBiasTypeOption"
    ),
}
_log = logging.getLogger(__name__)


def symbol(name: str, function_type: Any) -> Any:
    """Returns a function of libLiteRt.so, even one that no header in this project declares."""
    handle = _dlopen()
    address = _dlsym()(handle, name.encode())
    return ffi.cast(function_type, address)


@cache
def _dlopen() -> int:
    path = os.path.join(os.path.dirname(ai_edge_litert.__file__), "libLiteRt.so")
    return int(ctypes.CDLL(path, mode=os.RTLD_NOW)._handle)


@cache
def _dlsym() -> Any:
    function = ctypes.CDLL(None).dlsym
    function.restype, function.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)
    return function


def export_name(slot: str) -> str:
    """Returns the exported name of the function for a slot."""
    words = slot.split("_")
    if slot in _IRREGULAR:
        return _IRREGULAR[slot]
    camel = "".join(word[:1].upper() + word[1:] for word in words)
    if words[0] in ("build", "erase"):
        return "LiteRtBuilder" + camel
    return "LiteRt" + camel.replace("Shlo", "SHLO")


class StockHost:
    """A compiler context with stock's functions; this class implements the op list and opaque options.

    Attributes:
      context: a `LiteRtCompilerContext*`.
      pushed: ops and partition indices, in the order of the calls.
      payloads: opaque options, as C strings by identifier.
    """

    def __init__(self, size: int = 1408) -> None:
        self.pushed: list[tuple[int, int]] = []
        self.payloads: dict[str, Any] = {}
        self.context = ffi.new("LiteRtCompilerContext*")
        header = self.context.abi_header
        header.struct_size, header.major_version, header.minor_version = size, 1, 3
        own: dict[str, Callable[..., Any]] = {
            "push_op": self._push_op,
            "get_opaque_options": self._opaque_options,
            "find_opaque_options_data": self._find_opaque_options_data,
        }
        self._kept: list[Any] = []
        for slot, field in ffi.typeof("LiteRtCompilerContext").fields:
            offset = ffi.offsetof("LiteRtCompilerContext", slot)
            if slot == "abi_header" or offset >= size:
                continue
            if slot in own:
                function = make_callback(field.type, own[slot], slot, _log)
                self._kept.append(function)
                setattr(self.context, slot, ffi.cast(field.type, function))
            else:
                setattr(self.context, slot, symbol(export_name(slot), field.type))

    def _push_op(self, op_list: int, op: int, partition_index: int) -> None:
        self.pushed.append((op, partition_index))

    def _opaque_options(self, options: int, answer: Any) -> None:
        answer[0] = options

    def _find_opaque_options_data(self, options: int, identifier: Any, data: Any) -> int:
        payload = self.payloads.get(ffi.string(identifier).decode())
        if payload is None:
            return 6
        data[0] = payload
        return 0


class StockModel:
    """A model file that stock has loaded.

    Attributes:
      handle: the `LiteRtModel`.
    """

    def __init__(self, path: Path) -> None:
        environment = ffi.new("LiteRtEnvironment*")
        create = symbol(
            "LiteRtCreateEnvironment",
            "LiteRtStatus (*)(int, const LiteRtEnvOption*, LiteRtEnvironment*)",
        )
        check(create(0, ffi.NULL, environment), "LiteRtCreateEnvironment failed")
        load = symbol(
            "LiteRtCreateModelFromFile",
            "LiteRtStatus (*)(LiteRtEnvironment, const char*, LiteRtModel*)",
        )
        model = ffi.new("LiteRtModel*")
        check(load(environment[0], str(path).encode(), model), f"stock does not load {path}")
        self.handle = model[0]

    def subgraph(self, host: StockHost, index: int = 0) -> Any:
        """Returns a subgraph of the model."""
        answer = ffi.new("LiteRtSubgraph*")
        check(host.context.get_model_subgraph(self.handle, index, answer), "no such subgraph")
        return answer[0]
