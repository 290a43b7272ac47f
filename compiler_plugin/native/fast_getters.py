"""The getters that plugins ask most, for each op and tensor and more than once, in machine code.

What is in the table that a getter is shown takes a few instructions; whatever else it is asked goes on to Python.
The code is in a library of our own, which one context has.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

from compiler_plugin.native.getter_code import SLOT_SIZE, column_code, index_code
from litert.abi.definitions import ffi
from litert.abi.elf_library import CODE, DATA, elf_library, load_library

INDEX = "get_subgraph_op"
COLUMNS = {
    "get_op_code": "int32_t",
    "get_num_op_inputs": "uint64_t",
    "get_num_op_outputs": "uint64_t",
    "get_tensor_name": "const char*",
    "get_tensor_weights": "uintptr_t",
    "get_quantization_type_id": "int32_t",
    "get_ranked_tensor_type": "LiteRtRankedTensorType",
}
"""What the answers are, by slot."""

FUNCTIONS = (INDEX, *COLUMNS)

_SONAME = "liblitert_npu_getters.so"
_SLOTS = {name: SLOT_SIZE * number for number, name in enumerate(FUNCTIONS)}

_has_owner = False
_publishing = threading.Lock()


class FastGetters:
    """The code, as one context has it.

    A table is never changed, so that a thread of the plugin sees one table or another. Processors that reorder
    writes, as aarch64's do, must not show a table before its content: it is written and shown under the same lock.

    Attributes:
      functions: by slot, as the context has them.
    """

    def __init__(self, functions: dict[str, Any], data: Any) -> None:
        """For `claim`."""
        self.functions = functions
        self._data = data

    @classmethod
    def claim(cls, slow: dict[str, Any]) -> FastGetters | None:
        """Takes the code; None where another context has it.

        Args:
          slow: callbacks that answer where the code does not, by slot.
        """
        global _has_owner
        if _has_owner:
            return None
        _has_owner = True
        functions = {name: ffi.addressof(_load(), f"litert_npu_{name}") for name in FUNCTIONS}
        start = int(ffi.cast("uintptr_t", functions[FUNCTIONS[0]])) - CODE
        data = ffi.cast("uintptr_t*", start + DATA)
        for name, callback in slow.items():
            data[_SLOTS[name] // 8 + 1] = int(ffi.cast("uintptr_t", callback))
        return cls(functions, data)

    def show(self, slot: str, table: Any) -> None:
        """Has a getter answer from a table from now on; it is the caller's to keep."""
        with _publishing:
            self._data[_SLOTS[slot] // 8] = int(ffi.cast("uintptr_t", table))

    def hide(self) -> None:
        """Answers nothing from now on."""
        for place in _SLOTS.values():
            self._data[place // 8] = 0

    def release(self) -> None:
        """Leaves the code to others."""
        global _has_owner
        self.hide()
        _has_owner = False


def index_table(owner: int, first: int, number: int) -> Any:
    """The table of `INDEX`, in C's memory.

    Args:
      owner: a subgraph's handle.
      first: the handle of its first op.
      number: of its ops, whose handles are in a row.
    """
    return _table(struct.pack("<3Q", owner, number, first))


def column_table(slot: str, first: int, answers: Sequence[Any]) -> Any:
    """The table of one of `COLUMNS`, in C's memory.

    Args:
      slot: of the getter.
      first: the first handle.
      answers: of all handles in the row, each a number, or a cdata of the struct.
    """
    column = ffi.new(f"{COLUMNS[slot]}[]", answers)
    return _table(struct.pack("<2Q", first, len(answers)) + bytes(ffi.buffer(column)))


def _table(content: bytes) -> Any:
    memory = ffi.new("uint64_t[]", -(-len(content) // 8))
    with _publishing:
        ffi.memmove(memory, content, len(content))
    return memory


@cache
def _load() -> Any:
    codes = {INDEX: index_code(_SLOTS[INDEX])}
    for name, answer in COLUMNS.items():
        codes[name] = column_code(_SLOTS[name], ffi.sizeof(answer))
    functions = [(f"litert_npu_{name}", codes[name]) for name in FUNCTIONS]
    image = elf_library(_SONAME, functions, SLOT_SIZE * len(functions))
    return load_library(image, _SONAME, ffi.RTLD_LOCAL)
