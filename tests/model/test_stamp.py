"""Tests the stamp of a compiled file."""

from __future__ import annotations

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Model
from litert.model.stamp import STAMP_KEY, Stamp, read_stamp, set_stamp


def test_a_stamp_has_the_layout_of_stock() -> None:
    model = Model()
    set_stamp(model, Stamp("IntelOpenVINO", "PTL"))
    blob = model.find_metadata("LiteRtStamp")
    assert blob is not None
    assert bytes(blob) == b"IntelOpenVINO".ljust(125, b"\0") + b"PTL".ljust(125, b"\0")
    assert read_stamp(model) == Stamp("IntelOpenVINO", "PTL")


def test_a_model_that_nobody_compiled_has_no_stamp() -> None:
    assert read_stamp(Model()) is None


def test_a_second_stamp_takes_the_place_of_the_first() -> None:
    model = Model()
    set_stamp(model, Stamp("A", "1"))
    set_stamp(model, Stamp("B", "2"))
    assert read_stamp(model) == Stamp("B", "2") and len(model.metadata) == 1


@pytest.mark.parametrize("name", ["x" * 124, "ä" * 62, "a\0b", "\udc80"])
def test_a_name_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(LiteRtError) as error:
        Stamp("Vendor", name).to_bytes()
    assert error.value.status is Status.INVALID_ARGUMENT and error.value.hint


@pytest.mark.parametrize(
    "data",
    [b"", b"x" * 249, b"x" * 251, bytes(250), b"\xff" * 250],
    ids=["empty", "short", "long", "no manufacturer", "not UTF-8"],
)
def test_a_damaged_stamp_is_refused(data: bytes) -> None:
    model = Model()
    model.set_metadata(STAMP_KEY, Blob(data))
    with pytest.raises(LiteRtError) as error:
        read_stamp(model, "model.bin")
    assert error.value.status is Status.INVALID_FLATBUFFER and error.value.where == "model.bin"
