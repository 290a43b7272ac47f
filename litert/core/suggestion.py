"""Finds the known name that is most similar to a misspelt name, for the hints of errors."""

from __future__ import annotations

from collections.abc import Iterable


def closest_name(name: str, known: Iterable[str], similarity: float = 0.6) -> str:
    """Returns the known name that is most similar to `name` apart from case; "" if no known name is similar.

    Args:
      name: The name to look for.
      known: The known names.
      similarity: Smallest ratio of Python's `difflib` at which two names count as similar: 0 for any two names, 1
        for equal names only.
    """
    from difflib import get_close_matches  # imported here, because most names are correct

    names = list(known)
    near = get_close_matches(name.casefold(), [other.casefold() for other in names], 1, similarity)
    same = [other for other in names if other.casefold() in near]
    return get_close_matches(name, same, 1, 0.0)[0] if same else ""  # for names equal but for case


def did_you_mean(
    name: str, known: Iterable[str], otherwise: str = "", similarity: float = 0.6
) -> str:
    """Returns the hint for an unknown name: "Did you mean ...?" with the closest known name, then `otherwise`.

    Args:
      name: The unknown name.
      known: The known names.
      otherwise: Sentences that follow the question. If no known name is similar, these sentences are the whole
        hint.
      similarity: Same as for `closest_name`.
    """
    near = closest_name(name, known, similarity)
    return f"Did you mean '{near}'? {otherwise}".rstrip() if near else otherwise
