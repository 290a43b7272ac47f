"""Tests the order of transformations within a phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler_plugin.transformations import Transformation
from compiler_plugin.transformations.transformation import order_transformations
from litert.core.errors import LiteRtError
from litert.core.status import Status


class Named(Transformation):
    """A transformation of any name, with any rules."""

    def __init__(self, name: str, before: object = (), after: object = ()) -> None:
        self._name, self._before, self._after = name, before, after

    @property
    def name(self) -> str:
        return self._name

    def run_before(self) -> Sequence[str | type[Transformation]]:
        return self._before  # type: ignore[return-value]

    def run_after(self) -> Sequence[str | type[Transformation]]:
        return self._after  # type: ignore[return-value]

    def find_and_replace_pattern(self, graph: object) -> None:
        """Does nothing."""


class FuseSwish(Named):
    def __init__(self) -> None:
        super().__init__("fuse_swish")


def order(*transformations: Transformation, named: Sequence[str] = ()) -> list[str]:
    return [t.name for t in order_transformations(transformations, named)]


def refusal(*transformations: Transformation, named: Sequence[str] = ()) -> LiteRtError:
    with pytest.raises(LiteRtError) as error:
        order(*transformations, named=named)
    return error.value


def test_without_rules_they_run_by_name() -> None:
    assert order(Named("c"), Named("a"), Named("b")) == ["a", "b", "c"]


def test_rules_go_before_names() -> None:
    assert order(Named("a", after=["c"]), Named("b"), Named("c")) == ["b", "c", "a"]
    assert order(Named("a"), Named("b"), Named("c", before=["a"])) == ["b", "c", "a"]


def test_a_rule_names_a_class_too_by_itself_or_by_its_name() -> None:
    for rule in (FuseSwish, "FuseSwish", "fuse_swish"):
        assert order(Named("a", after=[rule]), FuseSwish()) == ["fuse_swish", "a"]


def test_a_rule_about_one_that_does_not_run_does_not_count() -> None:
    assert order(Named("b", after=["gone"]), Named("a", before=["gone"])) == ["a", "b"]


def test_the_order_named_holds() -> None:
    assert order(Named("a"), Named("b"), Named("c"), named=["c", "x", "a"]) == ["b", "c", "a"]


def test_the_order_named_cannot_contradict_a_rule() -> None:
    error = refusal(Named("a", before=["b"]), Named("b"), named=["b", "a"])
    assert error.status is Status.INVALID_TRANSFORMATION
    assert "a before b (run_before of a), b before a (the command line)" in error.what
    assert error.hint == "List the transformations in another order: a,b."


def test_an_order_that_rules_allow_is_of_those_named_alone() -> None:
    between = Named("m", after=["z"], before=["b"])
    error = refusal(Named("b"), Named("c"), between, Named("z"), named=["c", "b", "z"])
    assert error.hint == "List the transformations in another order: c,z,b."
    assert order(Named("b"), Named("c"), between, Named("z"), named=["c", "z", "b"])


def test_a_circle_of_rules_alone_is_none_of_the_order_named() -> None:
    error = refusal(Named("a", before=["b"]), Named("b", before=["a"]), named=["b", "a"])
    assert error.hint == "Remove one of these rules." and "command line" not in error.what


def test_a_circle_names_its_members_and_no_others() -> None:
    error = refusal(
        Named("free"),
        Named("b", after=["a"]),
        Named("c", after=["b"], before=["a"]),
        Named("a"),
        Named("waits", after=["c"]),
    )
    assert error.status is Status.INVALID_TRANSFORMATION and error.hint
    assert error.what.endswith(
        "a before b (run_after of b), b before c (run_after of c), c before a (run_before of c)"
    )


def test_one_that_waits_for_itself_is_a_circle() -> None:
    error = refusal(Named("a", after=["a"]))
    assert error.what == "transformation 'a' names itself (run_after of a)"
    assert error.hint == "Remove this name."


@pytest.mark.parametrize("rule", ["fuse_swish", [3], 7, [int], [None]])
def test_a_rule_that_is_no_list_of_names_is_refused(rule: object) -> None:
    error = refusal(Named("a", before=rule))
    assert (
        error.status is Status.INVALID_ARGUMENT and "run_before of transformation 'a'" in error.what
    )


_RULES = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=24)


def _make(rules: Sequence[tuple[int, int]]) -> list[Transformation]:
    """Makes twelve transformations; rules are given in turn by `after` of the second and `before` of the first."""
    before: Mapping[int, list[str]] = {n: [] for n in range(12)}
    after: Mapping[int, list[str]] = {n: [] for n in range(12)}
    for place, (first, second) in enumerate(rules):
        if place % 2:
            before[first].append(f"t{second:02}")
        else:
            after[second].append(f"t{first:02}")
    return [Named(f"t{n:02}", before[n], after[n]) for n in range(12)]


@given(_RULES, st.randoms(use_true_random=False))
def test_shuffled_files_give_the_same_order_or_the_same_error(
    rules: Sequence[tuple[int, int]], random: object
) -> None:
    def outcome(transformations: Sequence[Transformation]) -> object:
        try:
            return order(*transformations)
        except LiteRtError as error:
            return str(error)

    transformations = _make(rules)
    shuffled = list(transformations)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert outcome(transformations) == outcome(shuffled)


@given(_RULES)
def test_every_rule_holds_where_there_is_no_circle(rules: Sequence[tuple[int, int]]) -> None:
    rules = [(min(pair), max(pair)) for pair in rules if pair[0] != pair[1]]
    places = {name: place for place, name in enumerate(order(*_make(rules)))}
    assert len(places) == 12
    assert all(places[f"t{first:02}"] < places[f"t{second:02}"] for first, second in rules)


@given(_RULES, st.lists(st.integers(0, 11), min_size=1, max_size=6, unique=True))
def test_the_members_of_a_circle_are_one(
    rules: Sequence[tuple[int, int]], ring: Sequence[int]
) -> None:
    ring_rules = list(zip(ring, [*ring[1:], ring[0]], strict=True))
    error = refusal(*_make([*rules, *ring_rules]))
    if " itself" in error.what:
        name = error.what.split("'")[1]
        assert (name, name) in {(f"t{a:02}", f"t{b:02}") for a, b in [*rules, *ring_rules]}
        return
    said = [step.split(" (")[0].split(" before ") for step in error.what.split(": ")[1].split(", ")]
    pairs = {(f"t{a:02}", f"t{b:02}") for a, b in [*rules, *ring_rules]}
    assert {(a, b) for a, b in said} <= pairs
    assert [b for _, b in said] == [a for a, _ in [*said[1:], said[0]]]
    assert len({a for a, _ in said}) == len(said)
