"""The defines in front of a kernel, read back from its text: the built-in ones, and the layer's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_DEFINE = re.compile(r"#define ((\w+)\S*)(?: (.*))?")
_OWN = "// Custom Layer User Defines"


@dataclass(frozen=True, slots=True)
class Defines:
    """What a prelude defines.

    Attributes:
      builtin: by name: `INPUT0_TYPE` is `float`.
      own: of the layer, in order: names and values.
    """

    builtin: Mapping[str, str]
    own: Sequence[tuple[str, str]]

    def numbers(self, name: str) -> Sequence[int]:
        """The elements of a built-in array, such as `INPUT0_DIMS`; none where it is not defined."""
        _, _, elements = self.builtin.get(name, "").partition("{")
        return [int(n) for n in re.findall(r"-?\d+", elements)]

    def format(self, tensor: str) -> str:
        """The memory order of `INPUT0`: `BFYX`; "" where no define says it."""
        start = f"{tensor}_FORMAT_"
        return next((name[len(start) :] for name in self.builtin if name.startswith(start)), "")


def read_defines(prelude: str) -> Defines:
    """Reads a prelude that this vendor's compiler has written."""
    first, _, second = prelude.partition(_OWN)
    builtin = {m[2]: (m[3] or "").strip() for m in _matches(first)}
    return Defines(builtin, [(m[1], (m[3] or "").strip()) for m in _matches(second)])


def _matches(text: str) -> list[re.Match[str]]:
    return [found for line in text.split("\n") if (found := _DEFINE.fullmatch(line))]
