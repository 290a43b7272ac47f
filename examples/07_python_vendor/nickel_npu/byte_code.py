"""Nickel's byte code: where its compiler and its driver meet. JSON, from a function's name to its op.

YOUR FORMAT: any bytes will do. A call in the model names one function of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from litert.core.errors import LiteRtError
from litert.core.status import Status

OPS = ("MUL", "Gain")
"""What a function may do."""


def write_byte_code(functions: Mapping[str, str]) -> bytes:
    """The byte code of functions, each with its op."""
    return json.dumps({"nickel": 1, "functions": functions}).encode()


def read_byte_code(data: memoryview) -> Mapping[str, str]:
    """The functions in byte code.

    Raises:
      LiteRtError: INCOMPATIBLE_BYTE_CODE_VERSION, for bytes that are no byte code of Nickel's.
    """
    try:
        content = json.loads(bytes(data))
        functions = dict(content["functions"]) if content["nickel"] == 1 else {}
    except (ValueError, KeyError, TypeError):
        functions = {}
    if not functions or not all(op in OPS for op in functions.values()):
        raise LiteRtError(
            Status.INCOMPATIBLE_BYTE_CODE_VERSION, "these bytes are no byte code of Nickel's"
        )
    return functions
