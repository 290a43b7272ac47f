"""Finds and makes names of functions, values and ops in a module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, BytesAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation

_LONGEST = 40


class SymbolNames:
    """Makes unique names."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def new(self, wanted: str) -> str:
        """Returns `wanted` if no function has this name, else `wanted_1`, `wanted_2`, and so on."""
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
    """Returns the text with which messages say in which function an error is."""
    return f"function '{function.sym_name.data}'"


def readable_name(tensor_name: str) -> str | None:
    """Returns a short name for a tensor, for IR text; None if the tensor's name contains no letter.

    For `model/conv/Relu;model/conv/BiasAdd:0`, the name is `Relu_BiasAdd`.
    """
    parts = (re.sub(r":\d+$", "", part.rsplit("/", 1)[-1]) for part in tensor_name.split(";"))
    name = re.sub(r"\W+", "_", "_".join(parts), flags=re.ASCII).strip("_")[:_LONGEST]
    if _is_number(name):
        return None
    return name if not name[0].isdigit() else f"_{name}"


def forget_numbers(module: ModuleOp) -> None:
    """Removes value names that end in a number such as `_0`.

    For such a name, xDSL drops the `_0` and then rejects the rest of the name.
    """
    for op in module.walk():
        blocks = (block for region in op.regions for block in region.blocks)
        for value in (*op.results, *(argument for block in blocks for argument in block.args)):
            if value.name_hint is not None and _is_number(value.name_hint):
                value.name_hint = None


def _is_number(name: str) -> bool:
    return not name.strip("_0123456789")


NAME = "name"
"""Attribute with the name of an op; titles contain this name.

TFLite's ops have no names, so this attribute holds the name of the first output.
"""


def name_attribute(tensor_name: str) -> dict[str, Attribute]:
    """Returns the attribute `NAME` of an op."""
    return {NAME: StringAttr(_storable(tensor_name))}


def read_op_name(attributes: Mapping[str, Attribute]) -> str:
    """Returns the name in an op's attributes; "" without the attribute `NAME`."""
    return text_of(attributes.get(NAME))


TAPS = "taps"
"""Attribute with the names that an op's outputs have in the model, if taps are requested.

The name of an output without a tap is "".
"""


def taps_attribute(names: Sequence[str]) -> dict[str, Attribute]:
    """Returns the attribute `TAPS` of an op if any output has a tap.

    The attribute omits names that the executable cannot store.
    """
    storable = [name if name == _storable(name) else "" for name in names]
    return {TAPS: ArrayAttr([StringAttr(name) for name in storable])} if any(storable) else {}


def read_taps(attributes: Mapping[str, Attribute]) -> Sequence[str]:
    """Returns the names in the attribute `TAPS`; empty without the attribute."""
    names = attributes.get(TAPS)
    return [text_of(name) for name in names.data] if isinstance(names, ArrayAttr) else ()


def keep_names(old: Operation, new: Operation) -> None:
    """Copies the names of an op and of its outputs to the op that replaces it."""
    for name in (NAME, TAPS):
        if name in old.attributes:
            new.attributes[name] = old.attributes[name]


def _storable(name: str) -> str:
    """Returns a name that the executable can store: invalid UTF-8 and NUL become replacement characters."""
    text = name.encode(errors="surrogateescape").decode(errors="replace")
    return text.replace("\0", "\ufffd")


def text_of(name: Attribute | None) -> str:
    """Returns the string in an attribute; "" for other attributes and for None."""
    if isinstance(name, BytesAttr):  # the parser's form of a text that is not ASCII
        return name.data.decode(errors="replace")
    return name.data if isinstance(name, StringAttr) else ""


def without_names(op: Operation) -> DictionaryAttr:
    """Returns the attributes of an op except its names, because names do not change what the op computes."""
    return DictionaryAttr({n: a for n, a in op.attributes.items() if n not in (NAME, TAPS)})
