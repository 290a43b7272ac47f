"""Nickel's byte code, which its compiler writes and its driver reads: JSON, from a function's name to its work.

YOUR FORMAT: any bytes will do. A call in the model names one function of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from litert.core.errors import LiteRtError
from litert.core.status import Status

OPS = {"MUL": 2, "SUB": 2, "Gain": 1}
"""YOUR OPS: the ops that a function may compute, with their numbers of inputs."""


class Function(NamedTuple):
    """The work of one function.

    Attributes:
      op: of `OPS`.
      operands: for each input of the op, the index of the call's input. A call has the subgraph's inputs, in the
        subgraph's order: MUL of input 0 with itself has [0, 0], and SUB of inputs 1 and 0 has [1, 0].
    """

    op: str
    operands: Sequence[int]

    @property
    def num_inputs(self) -> int:
        """Number of inputs of a call."""
        return len(set(self.operands))


def write_byte_code(functions: Mapping[str, Function]) -> bytes:
    """Returns the byte code of functions, by name."""
    return json.dumps({"nickel": 1, "functions": functions}).encode()


def read_byte_code(data: memoryview) -> Mapping[str, Function]:
    """Returns the functions in byte code, by name.

    Raises:
      LiteRtError: INCOMPATIBLE_BYTE_CODE_VERSION, for bytes that are no byte code of Nickel's.
    """
    try:
        content = json.loads(bytes(data))
        functions = {name: Function(*parts) for name, parts in content["functions"].items()}
        is_ours = content["nickel"] == 1 and all(map(_is_sound, functions.values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        is_ours = False
    if not is_ours:
        raise LiteRtError(
            Status.INCOMPATIBLE_BYTE_CODE_VERSION, "these bytes are no byte code of Nickel's"
        )
    return functions


def _is_sound(function: Function) -> bool:
    """Whether the driver can run it: a known op, and all of the call's inputs are read."""
    inputs = set(range(function.num_inputs))
    return OPS[function.op] == len(function.operands) and inputs == set(function.operands)
