"""Reads the operations of element-wise programs from the firmware's source code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from vendor_reference.firmware.instructions import FOLDER

_OPERATION = re.compile(r"^  X\(\w+, (\w+)", re.M)

NUM_OPERANDS = 8
NUM_LOOPS = 8
NUM_REGISTERS = 32


@cache
def operation_numbers() -> Mapping[str, int]:
    """Returns the number of each operation by name, such as `add_float` or `select_32`."""
    text = (FOLDER / "families" / "elementwise.cl").read_text(encoding="utf-8")
    return MappingProxyType({name: i for i, name in enumerate(_OPERATION.findall(text))})
