"""Compiles many size formulas to one Python function, which computes common subexpressions only once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from litert.core.errors import LiteRtError
from litert.core.sizes import ARITHMETIC, MOST, Dimension, Operation, Shapes, Size
from litert.core.status import Status

SizeProgram = Callable[[Shapes], Sequence[int]]

_FUNCTIONS = {"/": "divide", "%": "remainder"}


def compile_sizes(
    sizes: Sequence[Size], shapes: Mapping[int, Sequence[Size]] | None = None
) -> SizeProgram:
    """Compiles size formulas to a function that takes the shapes of a run, and returns all sizes in order.

    The compiled function only checks the range of computed shapes, and may raise ZeroDivisionError or ValueError.
    To
    get an error message that says which size is wrong, callers then use `evaluate`.

    Args:
      sizes: Size formulas to compute.
      shapes: Formulas of computed shapes, by shape index; the compiled function computes these shapes itself
        instead of requesting them. A formula may use a shape in `shapes` only if this shape precedes the formula's
        own shape.

    Raises:
      LiteRtError: SERIALIZATION, if a size formula has too many nested operations.
    """
    try:
        writer = _Writer(shapes or {})
        names = [writer.name(size) for size in sizes]
    except RecursionError:
        what = (
            "the byte code's formulas for sizes are nested too deeply for the stack of this thread"
        )
        hint = "Load the model where fewer function calls are nested, or in a new thread."
        raise LiteRtError(Status.SERIALIZATION, what, hint=hint) from None
    text = "\n    ".join(["def program(shapes):", *writer.lines, f"return [{', '.join(names)}]"])
    scope: dict[str, Callable[..., Any]] = {
        name: ARITHMETIC[operator] for operator, name in _FUNCTIONS.items()
    }
    scope |= {name: function for name, function in ARITHMETIC.items() if name.isalpha()}
    exec(compile(text, "<sizes>", "exec"), scope)  # the text has only numbers and generated names
    program: SizeProgram = scope["program"]
    return program


class _Writer:
    """Writes the lines of a Python function, in which equal operations are computed once."""

    def __init__(self, computed: Mapping[int, Sequence[Size]]) -> None:
        self.lines: list[str] = []
        self._names: dict[Size, str] = {}
        self._asked: set[int] = set()
        self._computed = computed
        for shape in computed.values():
            for size in shape:
                name = self.name(size)
                if not isinstance(
                    size, int
                ):  # without the limit, nested shapes could become huge numbers
                    self.lines.append(f"if not 0 <= {name} <= {MOST}: raise ValueError")

    def name(self, size: Size) -> str:
        """Returns the name of a size's variable in the function.

        Adds the lines that compute the size if necessary.
        """
        if isinstance(size, int):
            return str(int(size))
        if size not in self._names:
            self._names[size] = self._write(size)
        return self._names[size]

    def _write(self, size: Size) -> str:
        if isinstance(size, Dimension):
            if size.shape in self._computed:
                return self.name(self._computed[size.shape][size.index])
            if size.shape not in self._asked:
                self._asked.add(size.shape)
                self.lines.append(f"s{size.shape} = shapes({size.shape})")
            return f"s{size.shape}[{size.index}]"
        assert isinstance(size, Operation)
        lhs, rhs, made = self.name(size.lhs), self.name(size.rhs), f"v{len(self._names)}"
        called = _FUNCTIONS.get(size.operator, size.operator)
        value = f"{called}({lhs}, {rhs})" if called.isalpha() else f"{lhs} {called} {rhs}"
        self.lines.append(f"{made} = {value}")
        return made
