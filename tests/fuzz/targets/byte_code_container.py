"""Byte code and assets in one block, as stock's compiler carries them."""

from __future__ import annotations

from litert.model.blob import Blob
from litert.model.byte_code_container import is_container, unpack
from tests.fuzz.target import Target
from tests.model.test_byte_code_container import PACKED


def _run(data: bytes) -> None:
    if is_container(Blob(data)):
        unpack(Blob(data), "a.tflite")


TARGET = Target(lambda: [PACKED], _run)
