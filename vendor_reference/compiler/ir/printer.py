"""IR becomes text for people: layouts and kernels' texts by name, long attributes on lines of their own.

    #NCHW = affine_map<(n, h, w, c) -> (n, c, h, w)>
    #text = "__kernel void ..."

A layout is called by its dimensions, the slowest in memory first.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO

from xdsl.dialects.builtin import AffineMapAttr, ModuleOp, StringAttr
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
    """What a text has used so far that has a name: layouts, and texts of kernels."""

    def __init__(self, given: Mapping[str, Attribute]) -> None:
        self._given: dict[Attribute, str] = {}
        for name, attribute in given.items():
            self._given.setdefault(attribute, name)
        self._taken = set(given)
        self._used: dict[Attribute, str] = {}

    def name(self, attribute: Attribute) -> str:
        """What an attribute is called; "" for one that stands in its place."""
        if attribute not in self._used:
            base = _base_name(attribute)
            if not base:
                return ""
            self._used[attribute] = self._given.get(attribute) or self._new(base)
        return self._used[attribute]

    def definitions(self) -> list[str]:
        """The lines in front of the text."""
        return [f"#{name} = {_definition(value, name)}" for value, name in self._used.items()]

    def _new(self, base: str) -> str:
        name, count = base, 1
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
        is_named = isinstance(attribute, (AffineMapAttr, StringAttr))
        if is_named and (name := self._names.name(attribute)):
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


def _base_name(attribute: Attribute) -> str:
    """How an attribute's name begins; "" for one that needs none."""
    if isinstance(attribute, StringAttr):
        return "text" if len(attribute.data) > _WIDTH else ""
    order = _order(attribute) if isinstance(attribute, AffineMapAttr) else None
    if order is None:
        return ""
    letters = _letters(len(order))
    return "".join(letters[dim] for dim in order).upper()


def _order(layout: AffineMapAttr) -> list[int] | None:
    """Dimensions in a layout's order; None for a map that is no permutation."""
    results = [e.position for e in layout.data.results if isinstance(e, AffineDimExpr)]
    is_layout = sorted(results) == list(range(layout.data.num_dims))
    return results if is_layout and results and not layout.data.num_symbols else None


def _letters(rank: int) -> str:
    return _DIMENSIONS.get(rank) or "abcdefghijklmnopqrstuvwxyz"[:rank]


def _definition(attribute: Attribute, name: str) -> str:
    """`affine_map<(n, h, w, c) -> (n, c, h, w)>`: dimensions are called as the name says, where it does."""
    if not isinstance(attribute, AffineMapAttr):
        return str(attribute)
    order = _order(attribute)
    assert order is not None
    letters = name.lower()
    if len(letters) != len(order) or len(set(letters)) != len(letters) or not letters.isalpha():
        letters = "".join(_letters(len(order))[dim] for dim in order)
    dims = dict(zip(order, letters, strict=True))
    return (
        f"affine_map<({', '.join(dims[d] for d in range(len(order)))}) -> ({', '.join(letters)})>"
    )
