"""`name`: what an op of the IR is called in titles: its first output's name, as TFLite's ops have none."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import BytesAttr, StringAttr
from xdsl.ir import Attribute, Operation

NAME = "name"


def read_op_name(attributes: Mapping[str, Attribute]) -> str:
    """The name that an op's attributes hold; "" for none."""
    name = attributes.get(NAME)
    if isinstance(name, BytesAttr):  # what the parser makes of a text that is not ASCII
        return name.data.decode(errors="replace")
    return name.data if isinstance(name, StringAttr) else ""


def keep_name(old: Operation, new: Operation) -> None:
    """Calls an op like the one that it takes the place of."""
    if NAME in old.attributes:
        new.attributes[NAME] = old.attributes[NAME]
