"""Guesses which known name a misspelt name means, for the hints of errors."""

from __future__ import annotations

from collections.abc import Iterable


def closest_name(name: str, known: Iterable[str]) -> str:
    """Returns the known name that resembles a name most; "" if none resembles it. Case does not matter."""
    from difflib import get_close_matches  # here: most names are right

    by_folded = {other.casefold(): other for other in known}
    near = get_close_matches(name.casefold(), by_folded, 1)
    return by_folded[near[0]] if near else ""


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Returns the hint of an error: the known name that resembles a name, as a question, and more.

    Args:
      name: The name that is not known.
      known: The names that are known.
      otherwise: The sentences behind the question; alone where no known name is close.
    """
    near = closest_name(name, known)
    return f"Did you mean '{near}'? {otherwise}".rstrip() if near else otherwise
