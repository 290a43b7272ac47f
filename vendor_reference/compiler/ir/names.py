"""Names of functions, values and ops in a module."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, BytesAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation

_LONGEST = 40


class SymbolNames:
    """Gives names that are not taken yet."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def new(self, wanted: str) -> str:
        """`wanted`, or `wanted_1`, `wanted_2`, ... where it is taken."""
        name = wanted
        while name in self._taken:
            self._next[wanted] = self._next.get(wanted, 0) + 1
            name = f"{wanted}_{self._next[wanted]}"
        self._taken.add(name)
        return name


def functions_of(module: ModuleOp) -> dict[str, FuncOp]:
    """The functions of a module by name, in order."""
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}


def bodies(module: ModuleOp) -> Iterator[tuple[FuncOp, Block]]:
    """The functions that have a body, and that."""
    for function in functions_of(module).values():
        if not function.is_declaration:
            yield function, function.body.block


def at_function(function: FuncOp) -> str:
    """Where a function is, for messages."""
    return f"function '{function.sym_name.data}'"


def readable_name(tensor_name: str) -> str | None:
    """What a tensor is called in the IR's text: the last part of a converter's path; None where no letter is left.

    `Relu_BiasAdd` of `model/conv/Relu;model/conv/BiasAdd:0`.
    """
    parts = (re.sub(r":\d+$", "", part.rsplit("/", 1)[-1]) for part in tensor_name.split(";"))
    name = re.sub(r"\W+", "_", "_".join(parts), flags=re.ASCII).strip("_")[:_LONGEST]
    if _is_number(name):
        return None
    return name if not name[0].isdigit() else f"_{name}"


def forget_numbers(module: ModuleOp) -> None:
    """Takes away names such as `_0`: of a name, xDSL leaves out the end `_0`, and refuses what is left."""
    for op in module.walk():
        blocks = (block for region in op.regions for block in region.blocks)
        for value in (*op.results, *(argument for block in blocks for argument in block.args)):
            if value.name_hint is not None and _is_number(value.name_hint):
                value.name_hint = None


def _is_number(name: str) -> bool:
    return not name.strip("_0123456789")


NAME = "name"
"""What an op is called in titles: its first output's name, as TFLite's ops have none."""


def name_attribute(tensor_name: str) -> dict[str, Attribute]:
    """`NAME` as an op has it."""
    return {NAME: StringAttr(_storable(tensor_name))}


def read_op_name(attributes: Mapping[str, Attribute]) -> str:
    """The name that an op's attributes hold; "" for none."""
    return text_of(attributes.get(NAME))


TAPS = "taps"
"""The names of an op's outputs in the model, "" for one that is not shown; there where taps are asked for."""


def taps_attribute(names: Sequence[str]) -> dict[str, Attribute]:
    """`TAPS` as an op has it, if any output is shown; one whose name the executable cannot hold is not."""
    storable = [name if name == _storable(name) else "" for name in names]
    return {TAPS: ArrayAttr([StringAttr(name) for name in storable])} if any(storable) else {}


def read_taps(attributes: Mapping[str, Attribute]) -> Sequence[str]:
    """The names that `TAPS` holds; none where there are no taps."""
    names = attributes.get(TAPS)
    return [text_of(name) for name in names.data] if isinstance(names, ArrayAttr) else ()


def keep_names(old: Operation, new: Operation) -> None:
    """Calls an op and its outputs like those of the op that it takes the place of."""
    for name in (NAME, TAPS):
        if name in old.attributes:
            new.attributes[name] = old.attributes[name]


def _storable(name: str) -> str:
    """A name as the executable can have it: bytes that are not UTF-8, and NUL, become replacement characters."""
    text = name.encode(errors="surrogateescape").decode(errors="replace")
    return text.replace("\0", "\ufffd")


def text_of(name: Attribute | None) -> str:
    """A text that an attribute holds; "" for any other attribute, and for none."""
    if isinstance(name, BytesAttr):  # what the parser makes of a text that is not ASCII
        return name.data.decode(errors="replace")
    return name.data if isinstance(name, StringAttr) else ""


def without_names(op: Operation) -> DictionaryAttr:
    """The attributes of an op that decide what it does."""
    return DictionaryAttr({n: a for n, a in op.attributes.items() if n not in (NAME, TAPS)})
