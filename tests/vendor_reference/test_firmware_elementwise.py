"""Tests the element-wise instruction against NumPy: expressions on arrays with arbitrary memory layouts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litert.core.element_type import ElementType
from tests.vendor_reference.executables import Array
from tests.vendor_reference.firmware_runs import Command, Lab
from tests.vendor_reference.library_runs import place, size_of, take
from vendor_reference.compiler.library.elementwise import loop_fields
from vendor_reference.compiler.library.steps import OPERANDS, Port, Scale, write_program
from vendor_reference.compiler.library.views import View, plan_loops
from vendor_reference.firmware.program import FirmwareTuning

WIDTHS = pytest.mark.parametrize("width", [8, 16])


class Run:
    """A command on arrays whose memory layouts are given by views."""

    def __init__(
        self,
        expression: str,
        inputs: Sequence[Array],
        result: str | np.dtype = "float32",
        views: Sequence[View] = (),
        scales: Sequence[Scale | None] = (),
    ) -> None:
        shape = views[-1].shape if views else np.broadcast_shapes(*(a.shape for a in inputs))
        types = [ElementType.from_numpy(np.dtype(t)) for t in (*(a.dtype for a in inputs), result)]
        self.views = views or [
            View.dense(t, s)
            for t, s in zip(types, [*(a.shape for a in inputs), shape], strict=True)
        ]
        ports = [Port(t, s) for t, s in zip(types, scales or [None] * len(types), strict=True)]
        program = write_program(expression, ports[:-1], ports[-1])
        self.memory = np.full(size_of(self.views[-1]), 77, types[-1].numpy_dtype)
        placed = [place(a, view) for a, view in zip(inputs, self.views, strict=False)]
        self.fields = {
            **loop_fields(plan_loops([view.broadcast(shape) for view in self.views])),
            **dict(zip(OPERANDS, placed, strict=False)),
            "program": np.frombuffer(program, np.uint32).copy(),
            "result": self.memory,
        }

    @property
    def command(self) -> Command:
        return "Elementwise", self.fields

    def result(self) -> Array:
        return take(self.memory, self.views[-1])


def run(lab: Lab, runs: Sequence[Run], workers: int = 2) -> Sequence[Array]:
    lab.run([one.command for one in runs], workers, repeats=2)
    return [one.result() for one in runs]


def numbers(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32) * 3


@WIDTHS
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_rows_of_all_lengths_are_written_whole_whatever_the_number_of_workers(
    width: int, workers: int
) -> None:
    shapes = [(1,), (7,), (512,), (513,), (100_003,), (3, 5001), (4999, 3), (70, 70, 9), (300, 32)]
    shapes += [(0,), (3, 0, 2)]
    runs, expected = [], []
    for shape in shapes:
        x = numbers(0, *shape)
        for y in (
            numbers(1, *shape),
            numbers(2, *shape[-1:]),
            numbers(3, *shape[:-1], 1),
            numbers(4),
        ):
            runs.append(Run("max(a - b, b) * a", [x, y]))
            expected.append(np.maximum(x - y, y) * x)
    for one, wanted in zip(run(Lab(FirmwareTuning(width)), runs, workers), expected, strict=True):
        np.testing.assert_array_equal(one, wanted)


@st.composite
def placed_operands(draw: st.DrawFn) -> Sequence[View]:
    """Draws two operands and a result of rank up to 6: broadcast, permuted, or parts of larger tensors."""
    shape = tuple(draw(st.lists(st.integers(1, 7), max_size=6)))
    views = []
    for index in range(3):
        kept = [size if index == 2 or draw(st.booleans()) else 1 for size in shape]
        around = [draw(st.integers(0, 2)) for _ in shape]
        order = draw(st.permutations(range(len(shape))))
        larger = tuple(size + more for size, more in zip(kept, around, strict=True))
        whole = View.dense(ElementType.FLOAT32, larger, order)
        views.append(whole.part([draw(st.integers(0, more)) for more in around], kept))
    return views


@WIDTHS
@given(cases=st.lists(placed_operands(), min_size=30, max_size=30))
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
def test_operands_lie_anyhow(width: int, cases: Sequence[Sequence[View]]) -> None:
    inputs = [[numbers(i, *view.shape) for i, view in enumerate(views[:2])] for views in cases]
    runs = [Run("a - b", x, views=views) for x, views in zip(inputs, cases, strict=True)]
    for one, (x, y) in zip(run(Lab(FirmwareTuning(width)), runs), inputs, strict=True):
        np.testing.assert_array_equal(one, np.broadcast_to(x - y, one.shape))


@WIDTHS
def test_an_expression_has_up_to_eight_operands_of_all_types(width: int) -> None:
    types = ["float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool"]
    x = [np.abs(numbers(i, 37, 21)).astype(t) for i, t in enumerate(types)]
    text = (
        "a + float(b) * 2 - float(c) if h != 0 else float(d) + float(e) / 4 - float(f) * float(g)"
    )
    a, b, c, d, e, f, g, h = (one.astype(np.float32) for one in x)
    (result,) = run(Lab(FirmwareTuning(width)), [Run(text, x)])
    expected = np.where(h != 0, a + b * 2 - c, d + e / 4 - f * g)
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


@WIDTHS
def test_integers_stand_for_real_numbers(width: int) -> None:
    x, y = (np.arange(-128, 128).astype(np.int8)[::s].copy() for s in (1, -1))
    scales = [Scale(0.5, 3), Scale(0.25, -7), Scale(0.75, 1)]
    (result,) = run(Lab(FirmwareTuning(width)), [Run("a + b", [x, y], "int8", scales=scales)])
    real = (x.astype(np.float32) - 3) * 0.5 + (y.astype(np.float32) + 7) * 0.25
    np.testing.assert_array_equal(result, np.clip(np.rint(real / 0.75 + 1), -128, 127))


def test_a_result_may_lie_over_its_first_operand() -> None:
    x = numbers(0, 1000)
    one = Run("exp(a) * a", [x])
    one.fields["a"] = one.fields["result"] = x.copy()
    Lab().run([one.command])
    np.testing.assert_allclose(one.fields["result"], np.exp(x) * x, rtol=1e-6)


def test_a_program_that_needs_too_many_registers_is_not_written() -> None:
    port = Port(ElementType.INT64)
    write_program("a + b * c", [port] * 3, port)
    deep = "a"
    for i in range(20):
        deep = f"(a + {i}) * ({deep})"
    with pytest.raises(ValueError, match="registers"):
        write_program(deep, [port], port)
