"""Nickel's byte code: where its compiler and its driver meet. JSON, from a function's name to what it does.

YOUR FORMAT: any bytes will do. A call in the model names one function of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from litert.core.errors import LiteRtError
from litert.core.status import Status

OPS = {"MUL": 2, "Gain": 1}
"""YOUR OPS: what a function may do, and how many inputs the op has."""


class Function(NamedTuple):
    """What a function does.

    Attributes:
      op: of `OPS`.
      num_inputs: 1 for Gain, and for MUL of a tensor with itself.
    """

    op: str
    num_inputs: int


def write_byte_code(functions: Mapping[str, Function]) -> bytes:
    """The byte code of functions, by name."""
    return json.dumps({"nickel": 1, "functions": functions}).encode()


def read_byte_code(data: memoryview) -> Mapping[str, Function]:
    """The functions in byte code, by name.

    Raises:
      LiteRtError: INCOMPATIBLE_BYTE_CODE_VERSION, for bytes that are no byte code of Nickel's.
    """
    try:
        content = json.loads(bytes(data))
        functions = {name: Function(*parts) for name, parts in content["functions"].items()}
        if content["nickel"] != 1:
            functions = {}
    except (ValueError, KeyError, TypeError, AttributeError):
        functions = {}
    if not functions or not all(function.op in OPS for function in functions.values()):
        raise LiteRtError(
            Status.INCOMPATIBLE_BYTE_CODE_VERSION, "these bytes are no byte code of Nickel's"
        )
    return functions
