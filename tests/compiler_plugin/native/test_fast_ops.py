from __future__ import annotations

import logging
import platform
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from compiler_plugin.native.context import CompilerContext
from compiler_plugin.native.fast_ops import FastOps, machine_code
from litert.abi.definitions import ffi
from litert.abi.elf_library import DATA
from litert.abi.tables import make_callback
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Op

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="native plugins run on two machines"
)


@pytest.fixture
def slow() -> Iterator[tuple[list[tuple[int, int]], Any]]:
    """What the code has passed on, and the callback that it passes it to."""
    asked: list[tuple[int, int]] = []

    def answer(subgraph: int, index: int, op: Any) -> Status:
        asked.append((subgraph, index))
        return Status.INVALID_ARGUMENT

    function_type = dict(ffi.typeof("LiteRtCompilerContext").fields)["get_subgraph_op"].type
    yield asked, make_callback(function_type, answer, "get_subgraph_op", logging.getLogger())


def _ask(function: Any, subgraph: int, index: int, op: Any) -> int:
    return int(function(ffi.cast("LiteRtSubgraph", subgraph), index, op))


def test_the_code_answers_for_the_list_that_is_shown_and_passes_on_all_else(slow: Any) -> None:
    asked, callback = slow
    fast = FastOps.claim(callback)
    assert fast is not None
    try:
        op = ffi.new("LiteRtOp*")
        ops = FastOps.list_of(77, [1001, 2**64 - 2, 1003])
        assert _ask(fast.function, 77, 0, op) == Status.INVALID_ARGUMENT
        fast.show(ops)
        for index, handle in enumerate([1001, 2**64 - 2, 1003]):
            assert _ask(fast.function, 77, index, op) == 0
            assert int(ffi.cast("uintptr_t", op[0])) == handle
        asked.clear()
        wrong = [(77, 3), (77, 2**63), (77, 2**64 - 1), (78, 0), (0, 0)]
        for subgraph, index in wrong:
            assert _ask(fast.function, subgraph, index, op) == Status.INVALID_ARGUMENT
        assert asked == wrong
        assert _ask(fast.function, 77, 0, ffi.NULL) == Status.INVALID_ARGUMENT
        fast.hide()
        assert _ask(fast.function, 77, 0, op) == Status.INVALID_ARGUMENT
        assert FastOps.claim(callback) is None  # one at a time
    finally:
        fast.release()


def test_two_contexts_answer_alike() -> None:
    builder = ModelBuilder()
    for i in range(3):
        builder.output(
            builder.op("NEG", [builder.input(f"x{i}", "int8", ())], [(f"y{i}", "int8", ())])
        )
    subgraph = builder.build().subgraphs[0]
    contexts = [CompilerContext("Acme"), CompilerContext("Bolt")]
    op = ffi.new("LiteRtOp*")
    for context in contexts:
        with context.showing(subgraph) as handle:
            for _ in range(2):
                for index, expected in enumerate(subgraph.ops):
                    assert _ask(context.table.get_subgraph_op, handle, index, op) == 0
                    assert context.handles.get(op[0], Op) is expected
                assert _ask(context.table.get_subgraph_op, handle, 3, op) == Status.INDEX_OOB
        gone = _ask(context.table.get_subgraph_op, handle, 0, op)
        assert gone == Status.INVALID_ARGUMENT
    for context in contexts:
        context.close()


def test_the_code_for_aarch64_reaches_its_data_and_its_end() -> None:
    at = 0x840
    words = struct.unpack("<15I", machine_code("aarch64", at))

    def target(index: int) -> int:
        return int(at + 4 * (index + (words[index] >> 5 & 0x7FFFF)))

    assert [target(0), target(13)] == [DATA, DATA + 8]
    assert {target(i) for i in (1, 4, 6, 7)} == {at + 4 * 13}
