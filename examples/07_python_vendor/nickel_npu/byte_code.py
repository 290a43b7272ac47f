"""Reads and writes Nickel's byte code, which is JSON with an op and its operands for each function.

YOUR FORMAT: Byte code may have any format. An NPU call in the model contains the name of one function.
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
    """A function of the byte code, which computes one op.

    Attributes:
      op: Name of the op, a key of `OPS`.
      operands: For each input of the op, the index of the call's input. The inputs of a call are the inputs of its
        subgraph, in order. For example, MUL of input 0 with itself has the operands [0, 0].
    """

    op: str
    operands: Sequence[int]

    @property
    def num_inputs(self) -> int:
        """Number of inputs of a call."""
        return len(set(self.operands))


def write_byte_code(functions: Mapping[str, Function]) -> bytes:
    """Returns the byte code for functions, which are given by their names."""
    return json.dumps({"nickel": 1, "functions": functions}).encode()


def read_byte_code(data: memoryview) -> Mapping[str, Function]:
    """Returns the functions in byte code, by their names.

    Raises:
      LiteRtError: INCOMPATIBLE_BYTE_CODE_VERSION, for bytes that Nickel's compiler did not write.
    """
    try:
        content = json.loads(bytes(data))
        functions = {name: Function(*parts) for name, parts in content["functions"].items()}
        is_ours = content["nickel"] == 1 and all(map(_is_sound, functions.values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        is_ours = False
    if not is_ours:
        raise LiteRtError(
            Status.INCOMPATIBLE_BYTE_CODE_VERSION,
            "the byte code was not written by Nickel's compiler",
            hint="Compile the model again, for Nickel.",
        )
    return functions


def _is_sound(function: Function) -> bool:
    """Whether the driver can run a function: its op is known, and it reads all inputs of the call."""
    inputs = set(range(function.num_inputs))
    return OPS[function.op] == len(function.operands) and inputs == set(function.operands)
