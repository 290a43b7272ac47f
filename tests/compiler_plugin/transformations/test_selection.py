"""Tests which loaded transformations `--transformations` selects."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compiler_plugin.transformations import Phase, Transformation
from compiler_plugin.transformations.extension_folders import ExtensionOrigin, LoadedTransformation
from compiler_plugin.transformations.transformation_plan import plan_transformations
from litert.core.errors import LiteRtError
from litert.core.status import Status


def loaded(
    name: str,
    phase: Phase = Phase.MIDDLE,
    is_builtin: bool = False,
    enabled: bool = True,
    before: Sequence[str] = (),
) -> LoadedTransformation:
    body = {
        "enabled": enabled,
        "find_and_replace_pattern": lambda self, graph: 0,
        "run_before": lambda self: before,
    }
    made = type(name, (Transformation,), body)()
    return LoadedTransformation(made, ExtensionOrigin(phase, f"{name}.py", "folder", is_builtin))


ALL = [
    loaded("Mine"),
    loaded("MineOff", enabled=False),
    loaded("MineFront", Phase.FRONT),
    loaded("Ours", is_builtin=True),
    loaded("OursOff", is_builtin=True, enabled=False),
    loaded("OursBack", Phase.BACK, is_builtin=True),
]


def plan(selection: str, among: Sequence[LoadedTransformation] = ALL) -> str:
    words = [word for word in selection.split(",") if word]
    return " ".join(item.name for item in plan_transformations(among, words))


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ("", "mine_front mine"),
        ("all", "mine_front mine ours ours_back"),
        ("ours", "mine_front mine ours"),
        ("Ours", "mine_front mine ours"),
        ("ours,mine", "mine_front ours mine"),
        ("ours_off", "mine_front mine ours_off"),
        ("mine_off", "mine_front mine mine_off"),
        ("-mine", "mine_front"),
        ("all,-mine", "mine_front ours ours_back"),
        ("-front", "mine"),
        ("all,-middle", "mine_front ours_back"),
        ("back", "mine_front mine ours_back"),
        ("-all", ""),
        ("-all,ours", "ours"),
        ("-all,middle", "mine ours"),
        ("ours_off,-middle", "mine_front"),
        ("all,-ours,ours", "mine_front mine ours ours_back"),
        ("ours_back,ours,mine_front,mine", "mine_front ours mine ours_back"),
    ],
)
def test_words_add_and_take_out(selection: str, expected: str) -> None:
    assert plan(selection) == expected


@pytest.mark.parametrize(
    ("word", "hint"),
    [("our", "ours"), ("-mime", "mine"), ("frontt", "front"), ("", "--list_"), ("-", "--list_")],
)
def test_an_unknown_word_is_refused_with_the_nearest(word: str, hint: str) -> None:
    with pytest.raises(LiteRtError) as error:
        plan_transformations(ALL, [word])
    assert error.value.status is Status.NOT_FOUND and hint in error.value.hint


def test_a_rule_that_names_nothing_is_refused_with_its_file() -> None:
    with pytest.raises(LiteRtError) as error:
        plan("", [loaded("A", before=["bee"]), loaded("Bees")])
    assert error.value.status is Status.NOT_FOUND
    assert error.value.where == "A.py" and "bees" in error.value.hint


def test_a_rule_may_name_one_that_is_not_chosen() -> None:
    assert plan("", [loaded("A", before=["off"]), loaded("Off", enabled=False)]) == "a"


def test_a_rule_across_phases_must_agree_with_them() -> None:
    early = loaded("Early", Phase.FRONT, before=["late"])
    assert plan("", [loaded("Late"), early]) == "early late"
    with pytest.raises(LiteRtError) as error:
        plan("", [loaded("Late", before=["early"]), loaded("Early", Phase.FRONT)])
    assert error.value.status is Status.INVALID_TRANSFORMATION
    assert (
        "'late' is in the middle phase, which runs after the front phase of 'early'"
        in error.value.what
    )
