"""The context's function that writes a model as TFLite, for plugins whose compiler reads that."""

from __future__ import annotations

import ctypes
from typing import Any

from compiler_plugin.native.graph_handles import GraphHandles
from compiler_plugin.native.graph_slots import Slots
from litert.abi.definitions import ffi
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Model, Signature, Subgraph
from litert.model.writer import to_bytes


def serialization_slots(handles: GraphHandles) -> Slots:
    """The one slot."""

    def serialize_model_with_signatures(
        model: int,
        buffer: Any,
        size: Any,
        offset: Any,
        _destroy_model: bool,
        signature_keys: Any,
        num_signatures: int,
        _options: Any,
    ) -> None:
        found = handles.get(model, Model)
        if num_signatures != len(found.subgraphs):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{num_signatures} signatures for {len(found.subgraphs)} subgraphs",
            )
        keys = [
            ffi.string(signature_keys[i]).decode("utf-8", "surrogateescape")
            for i in range(num_signatures)
            if signature_keys[i]
        ]
        found.signatures = [
            _signature(key, subgraph) for key, subgraph in zip(keys, found.subgraphs, strict=False)
        ]
        data = to_bytes(found)
        buffer[0], size[0], offset[0] = _malloc(data), len(data), 0

    return {"serialize_model_with_signatures": serialize_model_with_signatures}


def _signature(key: str, subgraph: Subgraph) -> Signature:
    return Signature(
        key,
        subgraph,
        [(tensor.name, tensor) for tensor in subgraph.inputs],
        [(tensor.name, tensor) for tensor in subgraph.outputs],
    )


def _malloc(data: bytes) -> Any:
    """A copy that the caller frees."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    address = libc.malloc(max(len(data), 1))
    if not address:
        raise MemoryError
    pointer = ffi.cast("uint8_t*", address)
    ffi.memmove(pointer, data, len(data))
    return pointer
