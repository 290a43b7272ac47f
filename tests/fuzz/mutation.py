"""Damages valid inputs; the random generator alone determines the damage."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from random import Random
from typing import Any

_NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    64,
    127,
    128,
    255,
    256,
    65535,
    65536,
    2**31 - 1,
    -(2**31),
    2**32 - 1,
    2**63 - 1,
)
_TOKENS = re.compile(rb"\s+|[A-Za-z_.]+|\d+|.", re.DOTALL)
_MOST_BYTES = 1 << 18
_JSON_VALUES: Sequence[Any] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63) - 1, 10**400, 1e308, 0.5, "", "x", "../x", "\0", "\ud800",
    "9" * 5000, [], {}, [[]], [0] * 100, {"": 0},
)  # fmt: skip


def damage_bytes(data: bytes, random: Random) -> bytes:
    """Changes, moves, duplicates or deletes a few bytes."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        _damage_once(changed, random)
    return bytes(changed[:_MOST_BYTES])


def random_number(random: Random) -> int:
    """Returns a number that is often a limit, for example of a type, or next to a limit."""
    return random.choice(_NUMBERS) + random.choice((0, 0, 0, 1, -1))


def _damage_once(data: bytearray, random: Random) -> None:
    place = random.randrange(len(data) + 1)
    size = min(len(data) - place, random.choice((1, 1, 2, 4, 8, 16, 64)))
    match random.randrange(8):
        case 0 if size:
            data[place] ^= 1 << random.randrange(8)
        case 1 | 2 if size:
            width = random.choice((1, 2, 4, 8))
            place -= place % width
            number = random_number(random) % (1 << 8 * width)
            data[place : place + width] = number.to_bytes(width, "little")
        case 3:
            del data[place : place + size]
        case 4:
            data[place:place] = data[place : place + size]
        case 5:
            other = random.randrange(len(data) + 1)
            data[place : place + size] = data[other : other + size]
        case 6:
            data[place:place] = random.randbytes(size)
        case _ if random.random() < 0.3:
            del data[place:]


def damage_text(data: bytes, random: Random, words: Sequence[str] = ()) -> bytes:
    """Removes, duplicates or replaces words of a text."""
    pieces = _TOKENS.findall(data)
    if not pieces or random.random() < 0.1:
        return damage_bytes(data, random)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        place = random.randrange(len(pieces))
        choices = ("", str(random.choice(_NUMBERS)), *random.choices(words, k=4 if words else 0))
        word = random.choice(pieces) if random.random() < 0.4 else random.choice(choices).encode()
        pieces[place] = pieces[place] + word if random.random() < 0.2 else word
    if random.random() < 0.05:
        first, last = sorted(random.choices(range(len(pieces)), k=2))
        pieces[first:last] = pieces[first:last] * random.choice((0, 2, 100))
    return bytes(b"".join(pieces)[:_MOST_BYTES])


def damage_json(data: bytes, random: Random) -> bytes:
    """Changes values of a JSON document, or sometimes its text."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return damage_text(data, random)
    if random.random() < 0.1:
        return damage_text(data, random)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        document = damage_value(document, random)
    return json.dumps(document).encode()


def damage_value(document: Any, random: Random) -> Any:
    """Returns a copy of a JSON value in which one value is changed, at any depth."""
    if not isinstance(document, dict | list) or not document or random.random() < 0.05:
        return _other_value(document, random)
    document = document.copy()
    places: Any = list(document) if isinstance(document, dict) else range(len(document))
    place = random.choice(places)
    if random.random() < 0.7:
        document[place] = damage_value(document[place], random)
        return document
    value = document[place]
    match random.randrange(4):
        case 0:
            del document[place]
        case 1 if isinstance(document, list):
            document.insert(place, value)
        case 1 | 2:
            document[place] = document[random.choice(places)]
        case _:
            document[place] = _other_value(value, random)
    return document


def _other_value(value: Any, random: Random) -> Any:
    if isinstance(value, str) and value and random.random() < 0.5:
        text = damage_text(value.encode(errors="replace"), random)
        return text.decode(errors="replace")
    if isinstance(value, int | float) and random.random() < 0.6:
        return random.choice((*_NUMBERS, value + 1, value - 1, -value, value * 2, value // 3))
    return [value] if random.random() < 0.1 else random.choice(_JSON_VALUES)
