"""Numbers of things in messages, such as `2 ops`, and indices, such as `the 2 calls have the indices 0 and 1`."""

from __future__ import annotations

from collections.abc import Sequence


def count_text(number: int, noun: str) -> str:
    """Returns a number with a noun in the singular or plural: `1 op`, `2 ops`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def list_text(noun: str, names: Sequence[str]) -> str:
    """Returns names after their noun in the singular or plural: `op A`, `ops A, B`."""
    return f"{noun}{'' if len(names) == 1 else 's'} {', '.join(names)}"


def index_range(kind: str, count: int) -> str:
    """Returns a clause about the indices of `count` items; `kind` is the name of an item in singular."""
    if count == 0:
        return f"there are no {kind}s"
    if count == 1:
        return f"the only {kind} has index 0"
    last = "0 and 1" if count == 2 else f"0 to {count - 1}"
    return f"the {count} {kind}s have the indices {last}"


def names_text(kind: str, names: Sequence[str]) -> str:
    """Returns a sentence, without a full stop, that lists the names of items; `kind` is an item in singular.

    Examples are `The only field is alpha` and `The attributes are axis, keep_dims`.
    """
    if len(names) == 1:
        return f"The only {kind} is {names[0]}"
    return f"The {kind}s are {', '.join(names)}" if names else f"There are no {kind}s"


def out_of_range(kind: str, index: int, count: int) -> str:
    """Returns a clause about an index that none of `count` items has.

    An example is `call index 2 is out of range: the 2 calls have the indices 0 and 1`.
    """
    return f"{kind} index {index} is out of range: {index_range(kind, count)}"
