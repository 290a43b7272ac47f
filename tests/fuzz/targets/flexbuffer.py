"""FlexBuffers, as custom ops have them for options."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from flatbuffers import flexbuffers  # type: ignore[import-untyped]

from litert.core.errors import LiteRtError
from litert.model.flexbuffer import read_flexbuffer
from tests.fuzz.target import Target

_VALUES: Sequence[object] = (
    None, True, -1, 2**40, 0.5, "text", b"blob" * 9, [], [1, 2, 3], [1.5, 2.5], ["a", "bc"], [True, False],
    {"alpha": 0.5, "mode": "nearest", "sizes": [1, 2], "deep": {"list": [[1], ["x"], {"k": None}]}},
)  # fmt: skip


def _seeds() -> Sequence[bytes]:
    return [bytes(flexbuffers.Dumps(value)) for value in _VALUES]


def _run(data: bytes) -> None:
    with suppress(LiteRtError):
        read_flexbuffer(data, is_whole=True)
    read_flexbuffer(data)


TARGET = Target(_seeds, _run)
