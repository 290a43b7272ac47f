"""Stores descriptions of NPU calls in a model, as JSON; each kind of description has its own metadata entry.

The runtime does not need these descriptions to run the model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Generic, TypeVar

from litert.core.checked_json import JsonNode
from litert.core.codec import Codec, array, integer
from litert.core.errors import LiteRtError, describe
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Model

WHOLE_NUMBER = integer(0, 2**63 - 1)
"""Codec for a count, a size in bytes, or a time in nanoseconds."""

_VERSION = 1

_Call = TypeVar("_Call")


class CallMetadata(Generic[_Call]):
    """A metadata entry that describes a list of NPU calls."""

    def __init__(self, key: str, call: Codec[_Call]) -> None:
        """Stores the entry's key, and `call`, which is the codec for the description of one NPU call."""
        self._key = key
        self._call = call

    def write(self, model: Model, calls: Sequence[_Call]) -> None:
        """Stores descriptions of NPU calls in a model; does nothing if `calls` is empty."""
        if calls:
            document = {"version": _VERSION, "calls": [self._call.dump(call) for call in calls]}
            text = json.dumps(document, separators=(",", ":"))
            model.set_metadata(self._key, Blob(text.encode()))

    def read(self, model: Model, where: str = "") -> Sequence[_Call]:
        """Returns a model's descriptions of NPU calls; the list is empty if the model lacks the metadata entry.

        Raises:
          LiteRtError: INVALID_FLATBUFFER, if the metadata entry is damaged; WRONG_VERSION, if the entry has an
            unknown version.
        """
        blob = model.find_metadata(self._key)
        if blob is None:
            return ()
        where = f"{where or 'model'}, metadata '{self._key}'"
        root = JsonNode.parse(blob.view, where, Status.INVALID_FLATBUFFER)
        fields = root.fields(("version", "calls"), is_open=True)
        version = WHOLE_NUMBER.read(fields["version"])
        if version != _VERSION:
            raise LiteRtError(
                Status.WRONG_VERSION,
                f"the metadata of the NPU calls has version {version}, but this version of litert-npu reads only "
                f"version {_VERSION}",
                where,
                "Use the version of litert-npu that compiled the file, or compile the model again.",
            )
        return array(self._call).read(fields["calls"])


def find_format_mistake(value: object, kind: type[_Call], codec: Codec[_Call | None]) -> str:
    """Returns the mistake in a vendor's description of an NPU call; "" if there is no mistake."""
    try:
        assert value is None or isinstance(value, kind)
        codec.read(JsonNode(codec.dump(value), "$", kind.__name__, Status.SERIALIZATION))
    except LiteRtError as error:
        return error.what
    except Exception as error:  # of values of any type
        return describe(error)
    return ""
