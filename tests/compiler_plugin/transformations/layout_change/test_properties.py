"""Tests on random models that both layouts give the same outputs, and that as little as possible is transposed."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler_plugin.transformations.layout_change.assignment import (
    SINK,
    SOURCE,
    Use,
    find_permuted,
)
from litert.model.graph import Model
from tests.compiler_plugin.transformations.layout_change.checking import check_change
from tests.compiler_plugin.transformations.layout_change.random_models import models


@settings(max_examples=60)
@given(models())
def test_any_model_computes_the_same_in_either_layout(model: Model) -> None:
    check_change(model, tolerance=1e-5)


@st.composite
def networks_of_choices(draw: st.DrawFn) -> tuple[int, list[Use], dict[int, int]]:
    """Draws the number of nodes (SOURCE, SINK, nodes with a choice), tensors between them, and costs of nodes."""
    count = draw(st.integers(3, 9))
    nodes = st.integers(0, count - 1)
    uses = draw(
        st.lists(
            st.builds(Use, nodes, st.lists(nodes, min_size=1, max_size=4), st.integers(1, 9)),
            max_size=12,
        )
    )
    costs = draw(st.dictionaries(st.integers(2, count - 1), st.integers(1, 5), max_size=2))
    return count, uses, costs


@settings(max_examples=300)
@given(networks_of_choices())
def test_no_other_choice_costs_less(case: tuple[int, list[Use], dict[int, int]]) -> None:
    count, uses, costs = case

    def cost(sides: list[bool]) -> int:
        transposed = sum(
            use.cost
            for use in uses
            if any(sides[reader] != sides[use.producer] for reader in use.readers)
        )
        return transposed + sum(cost for node, cost in costs.items() if sides[node])

    found = find_permuted(count, uses, costs)
    assert found[SOURCE] and not found[SINK]
    others = ([True, False, *sides] for sides in product([False, True], repeat=count - 2))
    assert cost(found) == min(map(cost, others))
