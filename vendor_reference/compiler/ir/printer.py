"""IR becomes text that reads like the seeds: layouts by name, long attributes on lines of their own.

    #NCHW = affine_map<(n, h, w, c) -> (n, c, h, w)>

A layout is called by its dimensions, the slowest in memory first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO

from xdsl.dialects.builtin import AffineMapAttr, ModuleOp
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr
from xdsl.printer import Printer

_WIDTH = 100
_DIMENSIONS = {4: "nhwc", 5: "ndhwc"}
"""What the dimensions of a tensor are called, by rank; those of others are a, b, c..."""


def print_ir(module: ModuleOp, aliases: Mapping[str, Attribute] | None = None) -> str:
    """The text of a module, which `read_ir` takes.

    Args:
      module: any level.
      aliases: what attributes are called, where text has named them already; layouts get a name anyway.
    """
    names = _Names(aliases or {})
    body = StringIO()
    printer = _Printer(names, stream=body)
    printer.print_op(module)
    heads = names.definitions()
    return "\n".join([*heads, *([""] if heads else []), body.getvalue(), ""])


class _Names:
    """The layouts that a text has used so far, and their names."""

    def __init__(self, given: Mapping[str, Attribute]) -> None:
        self._given: dict[AffineMapAttr, str] = {}
        for name, attribute in given.items():
            if isinstance(attribute, AffineMapAttr):
                self._given.setdefault(attribute, name)
        self._taken = set(given)
        self._used: dict[AffineMapAttr, str] = {}

    def name(self, layout: AffineMapAttr) -> str:
        """What a layout is called; "" for a map that is none."""
        if layout not in self._used:
            order = _order(layout)
            if order is None:
                return ""
            self._used[layout] = self._given.get(layout) or self._new(order)
        return self._used[layout]

    def definitions(self) -> list[str]:
        """The lines in front of the text."""
        return [f"#{name} = {_definition(layout, name)}" for layout, name in self._used.items()]

    def _new(self, order: Sequence[int]) -> str:
        letters = _letters(len(order))
        name = base = "".join(letters[dim] for dim in order).upper()
        count = 1
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name


class _Printer(Printer):
    """xDSL's printer, with names for layouts."""

    def __init__(self, names: _Names, stream: StringIO) -> None:
        super().__init__(stream=stream)
        self._names = names

    def print_attribute(self, attribute: Attribute) -> None:
        name = self._names.name(attribute) if isinstance(attribute, AffineMapAttr) else ""
        if name:
            self.print_string(f"#{name}")
        else:
            super().print_attribute(attribute)

    def print_attr_dict(self, attr_dict: Mapping[str, Attribute]) -> None:
        entries = [self._entry_text(name, value) for name, value in attr_dict.items()]
        length = sum(len(entry) + 2 for entry in entries)
        if self._current_column + length <= _WIDTH or not entries:
            with self.in_braces():
                self.print_string(", ".join(entries))
            return
        with self.in_braces():
            with self.indented():
                for index, (name, value) in enumerate(attr_dict.items()):
                    self._print_new_line()
                    super()._print_attr_string((name, value))
                    if index + 1 < len(attr_dict):
                        self.print_string(",")
            self._print_new_line()

    def _entry_text(self, name: str, value: Attribute) -> str:
        """An entry on one line; the longest part of a line is printed again where it does not fit."""
        text = StringIO()
        _OneLine(self._names, text)._print_attr_string((name, value))
        return text.getvalue()


class _OneLine(_Printer):
    """Breaks no line."""

    def print_attr_dict(self, attr_dict: Mapping[str, Attribute]) -> None:
        Printer.print_attr_dict(self, attr_dict)


def _order(layout: AffineMapAttr) -> list[int] | None:
    """Dimensions in a layout's order; None for a map that is no permutation."""
    results = [e.position for e in layout.data.results if isinstance(e, AffineDimExpr)]
    is_layout = sorted(results) == list(range(layout.data.num_dims))
    return results if is_layout and results and not layout.data.num_symbols else None


def _letters(rank: int) -> str:
    return _DIMENSIONS.get(rank) or "abcdefghijklmnopqrstuvwxyz"[:rank]


def _definition(layout: AffineMapAttr, name: str) -> str:
    """`affine_map<(n, h, w, c) -> (n, c, h, w)>`: dimensions are called as the name says, where it does."""
    order = _order(layout)
    assert order is not None
    letters = name.lower()
    if len(letters) != len(order) or len(set(letters)) != len(letters) or not letters.isalpha():
        letters = "".join(_letters(len(order))[dim] for dim in order)
    dims = dict(zip(order, letters, strict=True))
    return (
        f"affine_map<({', '.join(dims[d] for d in range(len(order)))}) -> ({', '.join(letters)})>"
    )
