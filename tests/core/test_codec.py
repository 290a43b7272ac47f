"""Tests codecs: they read what they write, they leave out default values, and errors name the element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import pytest

from litert.core.checked_json import JsonNode
from litert.core.codec import (
    BOOLEAN,
    NUMBER,
    SHA256,
    TEXT,
    Codec,
    Renamed,
    array,
    checked,
    converted,
    entries,
    enumeration,
    frozen_array,
    hexadecimal,
    integer,
    nullable,
    record,
    row,
)
from litert.core.errors import LiteRtError
from litert.core.status import Status


class Color(str, Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@dataclass(frozen=True)
class Drawing:
    name: str
    points: Sequence[Point] = ()
    color: Color = Color.RED
    scale: float | None = None
    is_closed: bool = False
    labels: Mapping[str, tuple[int, ...]] | None = None


POINT = row(Point, x=integer(0, 9), y=integer(0, 9))
DRAWING = record(
    Drawing,
    name=TEXT,
    points=array(POINT),
    color=enumeration(Color),
    scale=Renamed("by", NUMBER),
    is_closed=BOOLEAN,
    labels=entries(frozen_array(integer(0, 9), 1)),
)


def node(value: object) -> JsonNode:
    return JsonNode(value, "$", "here", Status.INVALID_ARGUMENT)


@pytest.mark.parametrize(
    ("drawing", "data"),
    [
        (Drawing("a"), {"name": "a"}),
        (Drawing("a", [Point(1, 2)], Color.BLUE), {"name": "a", "points": [[1, 2]], "color": "blue"}),
        (Drawing("a", scale=0.0, is_closed=True), {"name": "a", "by": 0.0, "is_closed": True}),
        (Drawing("a", labels={"b": (1,)}), {"name": "a", "labels": {"b": [1]}}),
    ],
    ids=["defaults", "points", "zero is no default", "names of the user's own"],
)  # fmt: skip
def test_a_record_has_what_is_no_default(drawing: Drawing, data: object) -> None:
    assert DRAWING.dump(drawing) == data
    assert DRAWING.read(node(data)) == drawing


def test_an_empty_list_is_an_empty_tuple() -> None:
    assert DRAWING.dump(Drawing("a", [])) == {"name": "a"}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, "at the top level, field 'name' is missing"),
        ({"name": "a", "colour": "red"}, "Did you mean 'color'?"),
        (
            {"name": "a", "points": [[1, 2], [1, 10]]},
            "$.points[1][1]: 10 is not in the range 0 to 9",
        ),
        ({"name": "a", "points": [[1]]}, "$.points[0]: the array has 1 element, but must have 2"),
        (
            {"name": "a", "labels": {"b": []}},
            "$.labels.b: the array has 0 elements, but must have 1 or more",
        ),
        ({"name": "a", "color": "rod"}, "Did you mean 'red'?"),
        ([], "at the top level, [] is not an object"),
    ],
)
def test_an_error_names_the_element(data: object, says: str) -> None:
    with pytest.raises(LiteRtError) as error:
        DRAWING.read(node(data))
    assert says in str(error.value) and error.value.status is Status.INVALID_ARGUMENT


def test_fields_can_be_written_always_and_checked_together() -> None:
    def check(at: JsonNode, point: Point) -> None:
        if point.x < point.y:
            raise at.at("y").error("above the diagonal")

    codec = record(
        Point, x=integer(0, 9), y=integer(0, 9), always=lambda p: ["y"] if p.x else [], check=check
    )
    assert codec.dump(Point(0)) == {"x": 0}
    assert codec.dump(Point(1)) == {"x": 1, "y": 0}
    with pytest.raises(LiteRtError, match=r"\$\.y: above the diagonal"):
        codec.read(node({"x": 1, "y": 2}))


@pytest.mark.parametrize(
    ("codec", "value", "data"),
    [
        (nullable(TEXT), None, None),
        (hexadecimal(1, 2), b"\x01\xff", "01ff"),
        (SHA256, "ab" * 32, "ab" * 32),
        (converted(TEXT, len, lambda n: "x" * n), 3, "xxx"),
        (frozen_array(nullable(BOOLEAN)), (None, True), [None, True]),
    ],
)
def test_values_survive(codec: Codec[object], value: object, data: object) -> None:
    assert codec.dump(value) == data and codec.read(node(data)) == value


@pytest.mark.parametrize(
    ("codec", "data", "says"),
    [
        (hexadecimal(1, 2), "", "the text stands for 0 bytes, but must stand for 1 to 2"),
        (hexadecimal(), "0g", "'0g' does not consist of two hexadecimal digits for each byte"),
        (SHA256, "AB" * 32, "the value is not a SHA-256 in lower-case hexadecimal digits"),
        (
            checked(TEXT, lambda text: "" if text else "an empty name"),
            "",
            "at the top level, an empty name",
        ),
    ],
)
def test_other_values_are_refused(codec: Codec[object], data: object, says: str) -> None:
    with pytest.raises(LiteRtError) as error:
        codec.read(node(data))
    assert says in error.value.what


@pytest.mark.parametrize("make", [lambda: record(Point, x=integer(0, 9))])
def test_a_record_names_all_fields(make: Callable[[], object]) -> None:
    with pytest.raises(AssertionError, match="fields of Point"):
        make()
