"""Tests that models that crash stock's interpreter are refused before it opens them, or crash only a child."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pytest

from litert.core.errors import ChildEndedError, LiteRtError
from litert.core.status import Status
from litert.hardware_accelerator import HardwareAccelerator
from litert.model.builder import ModelBuilder
from litert.model.builtin_options import BUILTIN_NUMBERS
from litert.model.dispatch_op import DISPATCH_OP
from litert.model.graph import Model, Op, Subgraph
from litert.model.table import AbsentList
from litert.model.writer import to_bytes
from litert.options import Options
from litert.runtime import trial_opening
from tests.runtime.conftest import Load
from tests.runtime.npu_models import FLOAT, NpuModelBuilder, cpu_around_npu


def no_subgraphs() -> Model:
    model = ModelBuilder().build()
    model.subgraphs = AbsentList()
    return model


def compiled(*, with_input: bool = True) -> Model:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    a = builder.op("ADD", [x, x if with_input else None], [("a", FLOAT, (1, 4))])
    builder.output(builder.npu("double", [a], [("y", FLOAT, (1, 4))]))
    return builder.build()


def absent_input() -> Model:
    return compiled(with_input=False)


def changed(name: str, inputs: Sequence[int | None], outputs: int = 1) -> Callable[[], Model]:
    """Returns a maker of compiled models with an op `name` and these inputs; None means an omitted input."""

    def make() -> Model:
        model = compiled()
        op = next(op for op in model.ops() if op.name == "ADD")
        tensors = [None if index is None else op.inputs[index] for index in inputs]
        code = model.operator_code(BUILTIN_NUMBERS[name])
        model.subgraphs[0].ops[0] = Op(code, tensors, op.outputs[:outputs])
        return model

    return make


def reshaped() -> Model:
    builder = NpuModelBuilder()
    x = builder.npu("double", [builder.input("x", FLOAT, (1, 4))], [("a", FLOAT, (1, 4))])
    shape = builder.constant("shape", [1] * 33, "int32")
    builder.output(builder.op("RESHAPE", [x, shape], [("y", FLOAT, (1, 4))]))
    return builder.build()


def branching(
    name: str, called: dict[str, int], change: Callable[[Subgraph], object], result: str = FLOAT
) -> Callable[[], Model]:
    """Returns a maker of models that call a subgraph of the inputs and outputs `flag` and `x`, after a change."""

    def make() -> Model:
        builder = NpuModelBuilder()
        x = builder.npu("double", [builder.input("x", FLOAT, (1, 4))], [("a", FLOAT, (1, 4))])
        other = builder.subgraph("other")
        flag = other.input("flag", "bool", ())
        y = other.op("ABS", [other.input("x", FLOAT, (1, 4))], [("y", FLOAT, (1, 4))])
        other.output(flag, y)
        condition = builder.subgraph("condition")
        condition.output(condition.input("flag", "bool", ()))
        condition.input("x", FLOAT, (1, 4))
        given = [builder.input("flag", "bool", ()), x]
        operands = [given[0], *given] if name == "IF" else given
        made = [("flag_out", "bool", ()), ("z", result, (1, 4))]
        builder.output(*builder.op(name, operands, made, **called))
        model = builder.build()
        change(model.subgraphs[1])
        return model

    return make


def reads_itself(subgraph: Subgraph) -> None:
    subgraph.ops[0].set_input(0, subgraph.outputs[1])
    subgraph.inputs[1] = subgraph.outputs[1]


IF = {"then_subgraph_index": 1, "else_subgraph_index": 1}
WHILE = {"cond_subgraph_index": 2, "body_subgraph_index": 1}


def zero_byte() -> Model:
    model = compiled()
    (code,) = [code for code in model.operator_codes if code.custom_code == DISPATCH_OP]
    code.custom_code = f"{DISPATCH_OP}\0\0behind it"
    model.byte_code.clear()
    return model


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (no_subgraphs, "the model has no subgraph"),
        (absent_input, "ADD lacks input 1"),
        (changed("CONV_2D", [0, None, 1]), "CONV_2D lacks input 1"),
        (changed("BATCH_MATMUL", [0]), "BATCH_MATMUL lacks input 1"),
        (changed("ASSIGN_VARIABLE", [0], outputs=0), "ASSIGN_VARIABLE lacks input 1"),
        (changed("BATCH_MATMUL", [0, 1], outputs=0), "BATCH_MATMUL has no output"),
        (changed("SLICE", [0]), "SLICE lacks input 1"),
        (changed("SLICE", [0, 1, 1], outputs=0), "SLICE has no output"),
        (changed("STRIDED_SLICE", [0]), "STRIDED_SLICE lacks input 1"),
        (changed("SPLIT", [0, 1]), "SPLIT makes 0 parts, but has 1 output"),
        (changed("SIGN", [0], outputs=0), "SIGN has no output"),
        (reshaped, "RESHAPE makes 33 dimensions, but its output has 2"),
        (
            branching("IF", IF, lambda called: called.ops.clear()),
            "IF calls subgraph 1, which has an output 'y' that no op writes",
        ),
        (
            branching("WHILE", WHILE, lambda called: called.ops.clear()),
            "WHILE calls subgraph 1, which has an output 'y' that no op writes",
        ),
        (
            branching("IF", IF, reads_itself),
            "IF calls subgraph 1, whose input 'y' is also a constant or the output of an op",
        ),
        (
            branching("IF", IF, lambda called: called.inputs.reverse()),
            "IF calls subgraph 1, whose tensor 'x' is float32, but the caller's tensor 'flag' is bool",
        ),
        (
            branching("IF", IF, lambda called: None, "int32"),
            "IF calls subgraph 1, whose tensor 'y' is float32, but the caller's tensor 'z' is int32",
        ),
        (
            branching("WHILE", {**WHILE, "cond_subgraph_index": 1}, lambda called: None),
            "WHILE calls subgraph 1, which has 2 inputs and 2 outputs, but must have 2 inputs and 1 output",
        ),
        (
            branching("WHILE", {**WHILE, "body_subgraph_index": 0}, lambda called: None),
            "WHILE calls subgraph 0, which calls itself",
        ),
        (zero_byte, "the name of a custom op has a zero byte after 'DISPATCH_OP'"),
    ],
)
def test_a_model_that_would_crash_stock_is_refused(
    load: Load, make: Callable[[], Model], what: str
) -> None:
    with pytest.raises(LiteRtError, match=what) as error:
        load(to_bytes(make()), Options(HardwareAccelerator.NPU | HardwareAccelerator.CPU))
    assert error.value.status is Status.INVALID_FLATBUFFER


def test_what_is_right_is_none_of_these(load: Load) -> None:
    builder = ModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    axis = builder.constant("axis", 1, "int32")
    made = builder.op(
        "SPLIT", [axis, x], [("a", FLOAT, (1, 2)), ("b", FLOAT, (1, 2))], num_splits=2
    )
    for tensor in made:
        builder.output(tensor)
    shape = builder.constant("shape", [4, 1, 1, 1, 1, 1, 1], "int32")
    seven = builder.op("RESHAPE", [x, shape], [("c", FLOAT, (4, 1, 1, 1, 1, 1, 1))])
    builder.output(builder.op("RESHAPE", [seven], [("d", FLOAT, (4,))], new_shape=[4]))
    load(to_bytes(builder.build()))


@pytest.mark.parametrize(("name", "called"), [("IF", IF), ("WHILE", WHILE)])
def test_control_flow_is_none_of_these(load: Load, name: str, called: dict[str, int]) -> None:
    model = branching(name, called, lambda called: None)()
    load(to_bytes(model), Options(HardwareAccelerator.NPU | HardwareAccelerator.CPU))


def test_an_absent_bias_is_none_of_these(load: Load) -> None:
    builder = ModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    weights = builder.constant("w", [[1.0, 2.0, 3.0, 4.0]], FLOAT)
    builder.output(builder.op("FULLY_CONNECTED", [x, weights, None], [("y", FLOAT, (1, 1))]))
    load(to_bytes(builder.build()))


def test_a_model_that_crashes_stock_does_so_in_a_child_alone(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for target in (
        "tests.runtime.test_stock_checks:abort",
        "tests.runtime.test_stock_checks:do_nothing",
    ):
        monkeypatch.setattr(trial_opening, "_TARGET", target)
        try:
            load(cpu_around_npu(), Options(verify=True))
            seen.append("")
        except LiteRtError as error:
            assert error.status is Status.INVALID_FLATBUFFER
            seen.append(error.what)
    assert seen == [
        "stock LiteRT's interpreter crashed (SIGABRT: Aborted) while it opened the model",
        "",
    ]


def abort(path: str) -> None:
    os.abort()


def do_nothing(path: str) -> list[None]:
    return []


def test_a_model_is_opened_in_a_child_where_its_crash_is_named() -> None:
    """Calls the trial directly, without the checks: it crashes on models that the checks refuse."""
    trial_opening.check_opens(cpu_around_npu(), "good.tflite")
    with pytest.raises(LiteRtError, match="stock LiteRT's interpreter crashed") as error:
        trial_opening.check_opens(to_bytes(no_subgraphs()), "bad.tflite")
    assert not isinstance(error.value, ChildEndedError) and error.value.where == "bad.tflite"
