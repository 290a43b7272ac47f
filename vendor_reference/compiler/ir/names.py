"""Names of functions, values and ops in a module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, BytesAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation

_LONGEST = 40


class SymbolNames:
    """Gives out names that are not in use yet."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def new(self, wanted: str) -> str:
        """Returns `wanted`, or `wanted_1`, `wanted_2`, ... if that name is in use."""
        name = wanted
        while name in self._taken:
            self._next[wanted] = self._next.get(wanted, 0) + 1
            name = f"{wanted}_{self._next[wanted]}"
        self._taken.add(name)
        return name


def functions_of(module: ModuleOp) -> dict[str, FuncOp]:
    """Returns the functions of a module by name, in order."""
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}


def bodies(module: ModuleOp) -> Iterator[tuple[FuncOp, Block]]:
    """Yields each function that has a body, and the body."""
    for function in functions_of(module).values():
        if not function.is_declaration:
            yield function, function.body.block


def at_function(function: FuncOp) -> str:
    """Returns the place of a function, for messages."""
    return f"function '{function.sym_name.data}'"


def readable_name(tensor_name: str) -> str | None:
    """Returns a tensor's name in IR text: the last part of a converter's path; None if no letter is left.

    For `model/conv/Relu;model/conv/BiasAdd:0`, the name is `Relu_BiasAdd`.
    """
    parts = (re.sub(r":\d+$", "", part.rsplit("/", 1)[-1]) for part in tensor_name.split(";"))
    name = re.sub(r"\W+", "_", "_".join(parts), flags=re.ASCII).strip("_")[:_LONGEST]
    if _is_number(name):
        return None
    return name if not name[0].isdigit() else f"_{name}"


def forget_numbers(module: ModuleOp) -> None:
    """Removes names that end in numbers such as `_0`.

    XDSL drops the end `_0`, and rejects the rest of the name.
    """
    for op in module.walk():
        blocks = (block for region in op.regions for block in region.blocks)
        for value in (*op.results, *(argument for block in blocks for argument in block.args)):
            if value.name_hint is not None and _is_number(value.name_hint):
                value.name_hint = None


def _is_number(name: str) -> bool:
    return not name.strip("_0123456789")


NAME = "name"
"""Attribute with an op's name for titles: TFLite's ops have no names, so it is the first output's name."""


def name_attribute(tensor_name: str) -> dict[str, Attribute]:
    """Returns the attribute `NAME` of an op."""
    return {NAME: StringAttr(_storable(tensor_name))}


def read_op_name(attributes: Mapping[str, Attribute]) -> str:
    """Returns the name in an op's attributes; "" if there is none."""
    return text_of(attributes.get(NAME))


TAPS = "taps"
"""Attribute with the model's names of an op's outputs, if taps are requested.

"" for an output that is not shown.
"""


def taps_attribute(names: Sequence[str]) -> dict[str, Attribute]:
    """Returns the attribute `TAPS` of an op if any output is shown.

    Leaves out names that the executable cannot hold.
    """
    storable = [name if name == _storable(name) else "" for name in names]
    return {TAPS: ArrayAttr([StringAttr(name) for name in storable])} if any(storable) else {}


def read_taps(attributes: Mapping[str, Attribute]) -> Sequence[str]:
    """Returns the names in `TAPS`; empty if there are no taps."""
    names = attributes.get(TAPS)
    return [text_of(name) for name in names.data] if isinstance(names, ArrayAttr) else ()


def keep_names(old: Operation, new: Operation) -> None:
    """Gives an op and its outputs the names of the op that it replaces."""
    for name in (NAME, TAPS):
        if name in old.attributes:
            new.attributes[name] = old.attributes[name]


def _storable(name: str) -> str:
    """Returns a name that the executable can store: invalid UTF-8 and NUL become replacement characters."""
    text = name.encode(errors="surrogateescape").decode(errors="replace")
    return text.replace("\0", "\ufffd")


def text_of(name: Attribute | None) -> str:
    """Returns the text in an attribute; "" for other attributes and for None."""
    if isinstance(name, BytesAttr):  # the parser's form of a text that is not ASCII
        return name.data.decode(errors="replace")
    return name.data if isinstance(name, StringAttr) else ""


def without_names(op: Operation) -> DictionaryAttr:
    """Returns the attributes that decide what an op does, without its names."""
    return DictionaryAttr({n: a for n, a in op.attributes.items() if n not in (NAME, TAPS)})
