"""Descriptions of a file's NPU calls as JSON, one metadata entry for each kind of description.

A run does not need the descriptions.
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
"""A count, a size in bytes, or a time in nanoseconds."""

_VERSION = 1

_Call = TypeVar("_Call")


class CallMetadata(Generic[_Call]):
    """A metadata entry with a list of calls."""

    def __init__(self, key: str, call: Codec[_Call]) -> None:
        """Makes an entry for a metadata key; `call` is the codec for one call in the entry."""
        self._key = key
        self._call = call

    def write(self, model: Model, calls: Sequence[_Call]) -> None:
        """Stores descriptions of calls in a model; does nothing if there are no calls."""
        if calls:
            document = {"version": _VERSION, "calls": [self._call.dump(call) for call in calls]}
            text = json.dumps(document, separators=(",", ":"))
            model.set_metadata(self._key, Blob(text.encode()))

    def read(self, model: Model, where: str = "") -> Sequence[_Call]:
        """Returns the calls that a model describes; an empty list if the model lacks the entry.

        Raises:
          LiteRtError: INVALID_FLATBUFFER, for an entry that no writer writes; WRONG_VERSION.
        """
        blob = model.find_metadata(self._key)
        if blob is None:
            return ()
        where = f"{where or 'model'}, metadata '{self._key}'"
        root = JsonNode.parse(blob.view, where, Status.INVALID_FLATBUFFER)
        fields = root.fields(("version", "calls"), is_open=True)
        version = WHOLE_NUMBER.read(fields["version"])
        if version != _VERSION:
            raise LiteRtError(Status.WRONG_VERSION, f"version {version}, not {_VERSION}", where)
        return array(self._call).read(fields["calls"])


def find_format_mistake(value: object, kind: type[_Call], codec: Codec[_Call | None]) -> str:
    """Returns the mistake in a vendor's description of a call, which may be None; "" if there is no mistake."""
    try:
        assert value is None or isinstance(value, kind)
        codec.read(JsonNode(codec.dump(value), "$", kind.__name__, Status.SERIALIZATION))
    except LiteRtError as error:
        return error.what
    except Exception as error:  # of values of any type
        return describe(error)
    return ""
