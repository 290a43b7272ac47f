from __future__ import annotations

import logging
import platform
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from compiler_plugin.native.compiler_context import CompilerContext
from compiler_plugin.native.fast_getters import (
    FUNCTIONS,
    INDEX,
    FastGetters,
    column_table,
    index_table,
)
from compiler_plugin.native.graph_slots import plain_answers
from litert.abi.definitions import ffi
from litert.abi.handles import Handles
from litert.abi.tables import make_callback
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Op, Subgraph, Tensor

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="native plugins run on two machines"
)

Asked = list[tuple[str, tuple[int, ...]]]
MANY = 40  # number of calls after which tables are built


@pytest.fixture
def fast() -> Iterator[tuple[Asked, FastGetters]]:
    """The calls that the code passed on to the slow getters, and the code."""
    asked: Asked = []
    fields = dict(ffi.typeof("LiteRtCompilerContext").fields)

    def refusing(name: str) -> Any:
        def answer(*arguments: Any) -> Status:
            asked.append((name, tuple(arguments[:-1])))
            return Status.INVALID_ARGUMENT

        return make_callback(fields[name].type, answer, name, logging.getLogger())

    slow = {name: refusing(name) for name in FUNCTIONS}
    code = FastGetters.claim(slow)
    assert code is not None
    assert FastGetters.claim(slow) is None  # only one owner at a time
    yield asked, code
    code.release()


def test_each_getter_answers_from_its_own_table(fast: tuple[Asked, FastGetters]) -> None:
    asked, code = fast
    op, number, codes = (
        ffi.new("LiteRtOp*"),
        ffi.new("LiteRtParamIndex*"),
        ffi.new("LiteRtOpCode*"),
    )
    tables = [
        index_table(77, 1024, 3),
        column_table("get_op_code", 1024, [3, 2**31 - 1, 5]),
        column_table("get_num_op_inputs", 1024, [2**63, 1, 0]),
    ]
    for name, table in zip((INDEX, "get_op_code", "get_num_op_inputs"), tables, strict=True):
        code.show(name, table)
    subgraph = ffi.cast("LiteRtSubgraph", 77)
    assert code.functions[INDEX](subgraph, 2, op) == 0
    assert int(ffi.cast("uintptr_t", op[0])) == 1056
    assert code.functions["get_op_code"](op[0], codes) == 0 and codes[0] == 5
    first = ffi.cast("LiteRtOp", 1024)
    assert code.functions["get_num_op_inputs"](first, number) == 0 and number[0] == 2**63
    assert not asked
    assert code.functions["get_num_op_outputs"](first, number) == Status.INVALID_ARGUMENT
    code.hide()
    assert code.functions["get_op_code"](first, codes) == Status.INVALID_ARGUMENT
    assert asked == [("get_num_op_outputs", (1024,)), ("get_op_code", (1024,))]


def graph() -> Subgraph:
    """Returns a graph whose ops and tensors differ in everything that a fast getter reads."""
    builder = ModelBuilder()
    for i in range(20):
        kind = Quantization((0.5,) * (i % 3), (i,) * (i % 3)) if i % 3 else None
        x = builder.input(f"x{i}", "int8", (2,) * (i % 5), quantization=kind)
        weights = builder.constant(f"w{i}", np.full((2,), i, np.float32))
        outputs = [builder.tensor(f"y{i}.{j}", "float32", (i,)) for j in range(1 + i % 3)]
        if i % 4:
            builder.custom(f"Op{i}", [x, None, weights][: i % 4], outputs)
        else:
            builder.op("NEG", [x], outputs[:1])
        builder.output(outputs[0])
    return builder.build().subgraphs[0]


def value_of(out: Any) -> Any:
    """Returns the value that a getter wrote, in a form that tests can compare."""
    item = ffi.typeof(out).item
    if item.kind == "struct":
        return bytes(ffi.buffer(out))
    if item.kind == "pointer":
        is_text = item.item.cname == "char"
        return ffi.string(out[0]) if is_text else int(ffi.cast("uintptr_t", out[0]))
    return int(ffi.cast("uint64_t", out[0]))


def test_fast_getters_answer_as_slow_ones_and_pass_wrong_handles_on() -> None:
    subgraph = graph()
    fast, slow = CompilerContext.take("Acme"), CompilerContext.take("Acme")
    answered = {}
    for context in (fast, slow):
        kinds = {name: kind for name, (kind, _) in plain_answers(context.handles).items()}
        with context.showing(subgraph):
            values = []
            for slot, kind in kinds.items():
                getter = getattr(context.table, slot)
                handle_type, out_type = ffi.typeof(getter).args
                objects: list[Any] = list(subgraph.ops if kind is Op else subgraph.tensors)
                out = ffi.new(out_type)
                for _ in range(3):
                    for value in objects:
                        handle = ffi.cast(handle_type, context.handles.of(value))
                        assert getter(handle, out) == 0
                        answer = value_of(out)
                        if slot == "get_tensor_weights":
                            answer = context.handles.get(answer, type(value.buffer)) is value.buffer
                        values.append((slot, answer))
                wrong = context.handles.of(subgraph)
                assert getter(ffi.cast(handle_type, wrong), out) == Status.INVALID_ARGUMENT
                assert getter(ffi.cast(handle_type, wrong + 1), out) == Status.INVALID_ARGUMENT
                assert getter(handle, ffi.NULL) == Status.INVALID_ARGUMENT
        assert getter(handle, out) == Status.INVALID_ARGUMENT  # no graph is shown any more
        answered[context] = values
    assert answered[fast] == answered[slow]
    for context in (fast, slow):
        context.close()


def test_handles_that_others_took_between_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tables take handles from the same sequence, even tables of other threads."""
    subgraph = graph()
    context = CompilerContext.take("Acme")
    others = Handles()
    put = Handles.put

    def put_among_others(self: Handles, value: object) -> int:
        number = put(self, value)
        if value in (subgraph.ops[3], subgraph.tensors[5]):
            put(others, "of another thread")
        return number

    monkeypatch.setattr(Handles, "put", put_among_others)
    op, name = ffi.new("LiteRtOp*"), ffi.new("const char**")
    with context.showing(subgraph) as handle:
        for _ in range(3):
            for index, expected in enumerate(subgraph.ops):
                assert _ask(context.table.get_subgraph_op, handle, index, op) == 0
                assert context.handles.get(op[0], Op) is expected
            for tensor in subgraph.tensors:
                found = ffi.cast("LiteRtTensor", context.handles.of(tensor))
                assert context.table.get_tensor_name(found, name) == 0
                assert ffi.string(name[0]).decode() == tensor.name
    context.close()


def test_a_tensor_without_an_answer_keeps_it_from_no_other() -> None:
    builder = ModelBuilder()
    shapes = [(1,) * 9, *[(2, i) for i in range(1, MANY)]]
    for i, shape in enumerate(shapes):
        builder.input(f"x{i}", "int8", shape)
    subgraph = builder.build().subgraphs[0]
    context = CompilerContext.take("Acme")
    out = ffi.new("LiteRtRankedTensorType*")
    with context.showing(subgraph):
        for _ in range(2):
            for tensor in subgraph.inputs:
                handle = ffi.cast("LiteRtTensor", context.handles.of(tensor))
                status = context.table.get_ranked_tensor_type(handle, out)
                if len(tensor.shape) > 8:
                    assert status == Status.UNSUPPORTED
                else:
                    assert status == 0
                    assert tuple(out.layout.dimensions[0:2]) == tensor.shape
    context.close()


def test_tensors_that_are_in_no_subgraph_have_answers_too() -> None:
    subgraph = graph()
    context = CompilerContext.take("Acme")
    name = ffi.new("const char**")
    with context.showing(subgraph):
        new = Tensor("new", subgraph.inputs[0].element_type, (1,), subgraph.inputs[0].buffer)
        for _ in range(MANY):
            for tensor in (subgraph.inputs[3], new):
                handle = ffi.cast("LiteRtTensor", context.handles.of(tensor))
                assert context.table.get_tensor_name(handle, name) == 0
                assert ffi.string(name[0]).decode() == tensor.name
    context.close()


def _ask(function: Any, subgraph: int, index: int, op: Any) -> int:
    return int(function(ffi.cast("LiteRtSubgraph", subgraph), index, op))


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
