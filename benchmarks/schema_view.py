"""Reads the content of a TFLite file with stock LiteRT's schema classes, so that two files can be compared.

The referenced objects replace the indices, so that two files with other numbers for their buffers or operator
codes are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

_REFERENCES = ("buffer", "opcodeIndex", "largeCustomOptionsOffset", "largeCustomOptionsSize")


def view_model(path: Path, without: Collection[str] = ()) -> Any:
    """Returns nested dictionaries and lists, which are equal for files with equal content.

    Args:
      path: Path of the model.
      without: Names of fields to omit in all tables.
    """
    from ai_edge_litert.schema_py_generated import ModelT

    data = np.memmap(path, mode="r")
    return _Viewer(data, ModelT.InitFromPackedBuf(data, 0), without).model()


class _Viewer:
    def __init__(self, data: np.ndarray[Any, Any], model: Any, without: Collection[str]) -> None:
        self._data = data
        self._model = model
        self._without = without
        self._buffers = [self._digest(buffer) for buffer in model.buffers or []]

    def model(self) -> Any:
        fields = dict(vars(self._model))
        del fields["buffers"], fields["operatorCodes"]
        fields["metadataBuffer"] = [self._buffers[i] for i in _items(self._model.metadataBuffer)]
        fields["metadata"] = sorted(_items(self._model.metadata), key=lambda entry: entry.name)
        return self._view_fields(fields)

    def _view(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if isinstance(value, (list, tuple)):
            return [self._view(item) for item in value] or None
        if isinstance(value, float):
            return value.hex()  # NaN equals NaN
        if hasattr(value, "__dict__"):
            return self._view_fields(self._resolved(dict(vars(value))))
        return value or None

    def _view_fields(self, fields: dict[str, Any]) -> Any:
        views = {n: self._view(value) for n, value in fields.items() if n not in self._without}
        return {name: view for name, view in views.items() if view is not None} or None

    def _resolved(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Returns a table's fields, with the referenced objects in place of indices and offsets."""
        references = {name: fields.pop(name) for name in _REFERENCES if name in fields}
        if "buffer" in references:
            fields["buffer"] = self._buffers[references["buffer"]]
        if "opcodeIndex" in references:
            code = self._model.operatorCodes[references["opcodeIndex"]]
            builtin = max(code.builtinCode, code.deprecatedBuiltinCode)
            fields["op"] = [builtin, code.customCode, code.version]
        if references.get("largeCustomOptionsSize"):
            offset = references["largeCustomOptionsOffset"]
            end = offset + references["largeCustomOptionsSize"]
            fields["customOptions"] = self._data[offset:end]
        if fields.get("op", [None, None])[1] == b"DISPATCH_OP":
            fields["customOptions"] = self._dispatch_options(_items(fields["customOptions"]))
        return fields

    def _dispatch_options(self, options: np.ndarray[Any, Any]) -> Any:
        """Returns a call's name and the hash of its byte code; returns other options unchanged."""
        from flatbuffers import flexbuffers  # type: ignore[import-untyped]

        call = flexbuffers.Loads(bytes(options))
        if not isinstance(call, dict):
            return options
        offset = call["bytecode_offset"]
        byte_code = self._data[offset : offset + call["bytecode_size"]]
        return [call["name"], hashlib.sha256(byte_code.tobytes()).hexdigest()]

    def _digest(self, buffer: Any) -> str | None:
        external = self._data[buffer.offset : buffer.offset + buffer.size]
        data = external if buffer.offset > 1 else buffer.data
        if data is None or len(data) == 0:
            return None
        return hashlib.sha256(np.asarray(data).tobytes()).hexdigest()


def _items(vector: Any) -> Any:
    return [] if vector is None else vector
