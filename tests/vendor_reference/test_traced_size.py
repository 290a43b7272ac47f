"""Tests sizes that record their formulas: these hold for all sizes; a branch on a size ends the trace."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.formula import Formula
from vendor_reference.compiler.library.dynamic_kernel import DynamicTensor, dynamic_kernel
from vendor_reference.compiler.library.library_op import ElementwiseOp, PlacedOp, library_ops
from vendor_reference.compiler.library.traced_size import (
    NotTraceableError,
    broadcast_size,
    factor_unless_one,
    is_same,
    range_of,
    traced_size,
)
from vendor_reference.compiler.library.views import Placement
from vendor_reference.custom_layers.kernel_spec import KernelSpec
from vendor_reference.firmware.instructions import Command

BOUND = (9, 7)
NAMES = ("INPUT0_SHAPE[0]", "INPUT0_SHAPE[1]")
STEPS = st.lists(
    st.tuples(st.sampled_from(["+", "-", "*", "//", "%", "ceil"]), st.sampled_from([0, 1, 2, 3, "n", "m"])),
    min_size=1, max_size=6,
)  # fmt: skip


def sizes(*values: int) -> list[int]:
    return [
        traced_size(n, v, most) if v >= 0 else most
        for n, v, most in zip(NAMES, values, BOUND, strict=True)
    ]


def compute(steps: list[tuple[str, object]], n: int, m: int) -> int:
    made = n
    for operator, operand in steps:
        other = {"n": n, "m": m}.get(str(operand), operand)
        assert isinstance(other, int)
        if operator == "+":
            made = made + other
        elif operator == "-":
            made = made - other
        elif operator == "*":
            made = made * other
        elif operator == "//":
            made = made // other
        elif operator == "%":
            made = made % other
        else:
            made = -(-made // other)
    return made


@given(STEPS, st.integers(1, 9), st.integers(1, 7))
def test_a_formula_is_what_python_computes(steps: list[tuple[str, object]], n: int, m: int) -> None:
    assume(all(operand != 0 for operator, operand in steps if operator in ("//", "%", "ceil")))
    try:
        traced = compute(steps, *sizes(9, 7))
    except NotTraceableError:
        return
    wanted = compute(steps, n, m)
    least, most = range_of(traced)
    assert least <= wanted <= most
    assert int.__int__(compute(steps, *sizes(n, m))) == wanted
    if wanted >= 0:
        assert Formula(str(traced)).evaluate((1, 1, 1, 1), [(n, m)]) == wanted


@given(st.integers(1, 9), st.integers(1, 7))
def test_a_size_that_is_repeated_is_chosen_in_a_run(n: int, m: int) -> None:
    first, second = sizes(9, 7)
    made = broadcast_size(first, second)
    formula = Formula(f"{made}*100+{factor_unless_one(first)}*10+{factor_unless_one(second)}")
    if 1 not in (n, m) and n != m:
        with pytest.raises(LiteRtError, match="must be equal, or one of them must be 1"):
            formula.evaluate((1, 1, 1, 1), [(n, m)])
    else:
        wanted = max(n, m) * 100 + 10 * (n > 1) + (m > 1)
        assert formula.evaluate((1, 1, 1, 1), [(n, m)]) == wanted


def test_equal_formulas_are_equal_and_bounds_answer() -> None:
    n, m = sizes(9, 7)
    assert n * m * 3 == 3 * (m * n) and is_same(n * 4 // 4, n) and n - n == 0
    assert n >= 1 and n < 10 and n + m > 1 and not n > 9
    assert f"{n * m}" == "INPUT0_SHAPE[0]*INPUT0_SHAPE[1]"


@pytest.mark.parametrize(
    "ask",
    [
        lambda n, m: n == 1,
        lambda n, m: n == m,
        lambda n, m: n < m,
        lambda n, m: n // (m - 1),
        lambda n, m: (n - 5) // 2,
    ],
)
def test_an_answer_that_is_not_the_same_for_all_sizes_ends_the_trace(
    ask: Callable[[int, int], object],
) -> None:
    with pytest.raises(NotTraceableError):
        ask(*sizes(9, 7))


class _Leaking(ElementwiseOp):
    """An op whose commands depend on a size in a way that no formula expresses."""

    name = "ABS"

    def __init__(self, use: Callable[[int], KernelSpec]) -> None:
        self._use = use

    def mismatch(self, call: PlacedOp) -> str:
        return ""

    def formula(self, call: PlacedOp) -> object:  # type: ignore[override]
        raise AssertionError

    def kernel(self, call: PlacedOp) -> KernelSpec:
        return self._use(call.result.shape[0])


@pytest.mark.parametrize(
    "use",
    [
        lambda n: KernelSpec(commands=(Command.of("Pool", channels=int(n)),)),
        lambda n: KernelSpec(commands=tuple(Command.of("Pool", channels=i) for i in range(n))),
        lambda n: KernelSpec(commands=(Command.of("Pool", low=n / 2),)),
        lambda n: KernelSpec(commands=(Command.of("Pool", low=n),)),
        lambda n: KernelSpec(commands=(Command.of("Pool", channels=n - 3),)),
        lambda n: KernelSpec("a kernel of its own"),
    ],
    ids=["a number", "a count", "a float", "in a float's place", "below zero", "no commands"],
)
def test_a_kernel_that_cannot_go_by_sizes_is_refused(use: Callable[[int], KernelSpec]) -> None:
    operand = DynamicTensor(Placement(ElementType.FLOAT32), (NAMES[0], 3), (9, 3))
    with pytest.raises(
        LiteRtError,
        match="the kernel of ABS does not support shapes that are known only at run time",
    ):
        dynamic_kernel(_Leaking(use), [operand], [Placement(ElementType.FLOAT32)], {})


def test_sizes_stand_in_commands_as_formulas() -> None:
    operand = DynamicTensor(Placement(ElementType.FLOAT32), (NAMES[0], 3), (9, 3))
    spec = dynamic_kernel(library_ops()["ABS"], [operand], [Placement(ElementType.FLOAT32)], {})
    assert dict(spec.commands[0].fields)["sizes"][:1] == ("INPUT0_SHAPE[0]*3",)  # type: ignore[index]
