"""Tests assets and companions in a model's metadata."""

from __future__ import annotations

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.assets import (
    Asset,
    check_companion_path,
    check_op_name,
    read_assets,
    set_assets,
)
from litert.model.blob import Blob
from litert.model.graph import Model


def asset(op_name: str, companion_path: str = "", data: bytes = b"data") -> Asset:
    return Asset(op_name, companion_path, Blob(data))


def test_an_asset_lies_under_the_guides_key() -> None:
    model = Model()
    set_assets(model, [asset("my_custom_op", data=b"kernel")])
    blob = model.find_metadata("litert_npu_asset_my_custom_op")
    assert blob is not None and bytes(blob) == b"kernel"


def test_assets_come_back_with_their_companions_behind_them() -> None:
    model = Model()
    set_assets(model, [asset("b", "lib/x.cl"), asset("b"), asset("a"), asset("b", "y.cl")])
    assets = read_assets(model)
    assert [a.name for a in assets] == ["b", "b/lib/x.cl", "b/y.cl", "a"]
    assert (assets[1].op_name, assets[1].companion_path) == ("b", "lib/x.cl")


def test_an_op_may_have_a_slash_in_its_name() -> None:
    model = Model()
    set_assets(model, [asset("ns/op"), asset("ns/op", "x.cl")])
    assert [(a.op_name, a.companion_path) for a in read_assets(model)] == [
        ("ns/op", ""),
        ("ns/op", "x.cl"),
    ]


def test_assets_take_the_place_of_those_before_and_leave_other_metadata() -> None:
    model = Model()
    model.set_metadata("min_runtime_version", Blob(b"1.5.0"))
    set_assets(model, [asset("a"), asset("a", "old.cl")])
    set_assets(model, [asset("b")])
    assert [entry.name for entry in model.metadata] == ["min_runtime_version", "litert_npu_asset_b"]


def test_a_companion_cannot_take_another_ops_name() -> None:
    with pytest.raises(LiteRtError) as error:
        set_assets(Model(), [asset("a"), asset("a", "b"), asset("a/b")])
    assert error.value.status is Status.ALREADY_EXISTS
    assert "companion file 'b' of op 'a' and the asset of op 'a/b'" in str(error.value)


def test_two_assets_of_one_op_are_refused() -> None:
    with pytest.raises(LiteRtError) as error:
        set_assets(Model(), [asset("a"), asset("a")])
    assert error.value.status is Status.ALREADY_EXISTS


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "..", "../x", "a/../b", "a//b", "./a", "a/", "a\\b", "C:/x", "C:x", "a\0"],
)
def test_a_companion_cannot_leave_its_folder(path: str) -> None:
    with pytest.raises(LiteRtError) as error:
        check_companion_path(path, "asset of op 'x'")
    assert error.value.status is Status.INVALID_ARGUMENT and error.value.hint


@pytest.mark.parametrize("path", ["a", "a/b.cl", "with space, comma.cl", "..a", "a..", "ä/ö"])
def test_a_plain_companion_path_is_taken(path: str) -> None:
    check_companion_path(path)


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_an_op_name_that_no_key_can_hold_is_refused(name: str) -> None:
    with pytest.raises(LiteRtError) as error:
        check_op_name(name)
    assert error.value.status is Status.INVALID_TOOL_CONFIG
