from __future__ import annotations

import logging
import platform
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from compiler_plugin.native.context import CompilerContext
from compiler_plugin.native.fast_ops import (
    FUNCTIONS,
    FastOps,
    op_code_code,
    subgraph_op_code,
)
from litert.abi.definitions import ffi
from litert.abi.elf_library import DATA, Code
from litert.abi.tables import make_callback
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Op

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="native plugins run on two machines"
)


Asked = list[tuple[int, ...]]


@pytest.fixture
def fast() -> Iterator[tuple[Asked, FastOps]]:
    """What the code has passed on, and the code."""
    asked: Asked = []
    fields = dict(ffi.typeof("LiteRtCompilerContext").fields)

    def answer(*arguments: Any) -> Status:
        asked.append(tuple(arguments[:-1]))
        return Status.INVALID_ARGUMENT

    slow = {n: make_callback(fields[n].type, answer, n, logging.getLogger()) for n in FUNCTIONS}
    code = FastOps.claim(slow)
    assert code is not None
    assert FastOps.claim(slow) is None  # one at a time
    yield asked, code
    code.release()


def _ask(function: Any, subgraph: int, index: int, op: Any) -> int:
    return int(function(ffi.cast("LiteRtSubgraph", subgraph), index, op))


def test_an_op_is_found_by_its_place_and_all_else_is_passed_on(fast: tuple[Asked, FastOps]) -> None:
    asked, code = fast
    get_op, op = code.functions["get_subgraph_op"], ffi.new("LiteRtOp*")
    ops = FastOps.list_of(77, 1024, [3, 2**31 - 1, 5])
    assert _ask(get_op, 77, 0, op) == Status.INVALID_ARGUMENT
    code.show(ops)
    for index, handle in enumerate([1024, 1040, 1056]):
        assert _ask(get_op, 77, index, op) == 0
        assert int(ffi.cast("uintptr_t", op[0])) == handle
    asked.clear()
    wrong = [(77, 3), (77, 2**63), (77, 2**64 - 1), (78, 0), (0, 0)]
    for subgraph, index in wrong:
        assert _ask(get_op, subgraph, index, op) == Status.INVALID_ARGUMENT
    assert asked == wrong
    assert _ask(get_op, 77, 0, ffi.NULL) == Status.INVALID_ARGUMENT
    code.hide()
    assert _ask(get_op, 77, 0, op) == Status.INVALID_ARGUMENT


def test_an_op_s_code_is_found_and_all_else_is_passed_on(fast: tuple[Asked, FastOps]) -> None:
    asked, code = fast
    get_code, number = code.functions["get_op_code"], ffi.new("LiteRtOpCode*")
    ops = FastOps.list_of(77, 1024, [3, 2**31 - 1, 5])
    code.show(ops)
    for handle, expected in ((1024, 3), (1040, 2**31 - 1), (1056, 5)):
        assert get_code(ffi.cast("LiteRtOp", handle), number) == 0
        assert number[0] == expected
    wrong = [0, 1, 1008, 1025, 1039, 1072, 2**63, 2**64 - 16]
    for handle in wrong:
        assert get_code(ffi.cast("LiteRtOp", handle), number) == Status.INVALID_ARGUMENT
    assert asked == [(handle,) for handle in wrong]
    assert get_code(ffi.cast("LiteRtOp", 1024), ffi.NULL) == Status.INVALID_ARGUMENT


def test_two_contexts_answer_alike() -> None:
    builder = ModelBuilder()
    for i in range(3):
        builder.output(
            builder.op("NEG", [builder.input(f"x{i}", "int8", ())], [(f"y{i}", "int8", ())])
        )
    subgraph = builder.build().subgraphs[0]
    contexts = [CompilerContext.take("Acme"), CompilerContext.take("Acme")]
    op, code = ffi.new("LiteRtOp*"), ffi.new("LiteRtOpCode*")
    for context in contexts:
        with context.showing(subgraph) as handle:
            for _ in range(2):
                for index, expected in enumerate(subgraph.ops):
                    assert _ask(context.table.get_subgraph_op, handle, index, op) == 0
                    assert context.handles.get(op[0], Op) is expected
                    assert context.table.get_op_code(op[0], code) == 0
                    assert code[0] == expected.code.builtin_code
                assert _ask(context.table.get_subgraph_op, handle, 3, op) == Status.INDEX_OOB
        gone = _ask(context.table.get_subgraph_op, handle, 0, op)
        assert gone == Status.INVALID_ARGUMENT
    for context in contexts:
        context.close()


def test_a_context_outlives_its_plugin_and_serves_the_next() -> None:
    first, second = CompilerContext.take("Outliving"), CompilerContext.take("Outliving")
    assert first.table != second.table
    with first.showing(ModelBuilder().build().subgraphs[0]) as handle:
        pass
    first.close()
    number = ffi.new("LiteRtParamIndex*")
    gone = ffi.cast("LiteRtSubgraph", handle)
    assert first.table.get_num_subgraph_ops(gone, number) == Status.INVALID_ARGUMENT
    third = CompilerContext.take("Outliving")
    assert third.table == first.table
    second.close()
    third.close()


@pytest.mark.parametrize(
    ("code", "python", "jumps"),
    [(subgraph_op_code, DATA + 8, (1, 4, 7, 8)), (op_code_code, DATA + 16, (1, 5, 8, 9))],
)
def test_the_code_for_aarch64_reaches_its_data_and_its_end(
    code: Code, python: int, jumps: tuple[int, ...]
) -> None:
    at = 0x840
    image = code("aarch64", at)
    words = struct.unpack(f"<{len(image) // 4}I", image)
    slow = len(words) - 2

    def target(index: int) -> int:
        return int(at + 4 * (index + (words[index] >> 5 & 0x7FFFF)))

    assert [target(0), target(slow)] == [DATA, python]
    assert {target(i) for i in jumps} == {at + 4 * slow}
    assert [i for i, word in enumerate(words) if word >> 24 in (0x54, 0xB4)] == list(jumps)
