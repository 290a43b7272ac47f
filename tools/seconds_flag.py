"""Flags that are a number of seconds: more than none, and no more than a timer takes."""

from __future__ import annotations

from absl import flags

_MOST = 1e7  # four months


class _SecondsParser(flags.FloatParser):  # type: ignore[misc,unused-ignore]
    """Leaves out `nan` too, which is outside of no bounds."""

    def __init__(self, least: float) -> None:
        super().__init__(least, _MOST)
        self._least = least
        self.syntactic_help = f"a number of seconds from {least:g} to {_MOST:g}"

    def is_outside_bounds(self, val: float) -> bool:
        return not self._least <= val <= _MOST


def define_seconds(
    name: str, default: float, help_text: str, *, least: float, values: flags.FlagValues
) -> None:
    """Defines a flag that is a time limit.

    Args:
      name: of the flag.
      default: seconds.
      help_text: what `--help` says.
      least: the fewest seconds that it may be.
      values: the flags that it is one of.
    """
    parser, serializer = _SecondsParser(least), flags.ArgumentSerializer[float]()
    flags.DEFINE(parser, name, default, help_text, values, serializer)
