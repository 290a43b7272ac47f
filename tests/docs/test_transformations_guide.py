"""Tests that the built-in transformations, flags and class members in the guide to transformations exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import compiler_plugin.transformations as transformations
from compiler_plugin.transform_options import TransformOptions
from compiler_plugin.transformations.transformation_plan import describe_transformations
from litert.core.option import options_of

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "transformations.md"
HEAD, END = "|---|---|---|---|\n", "<!-- end of the list -->"
OWNERS = {
    "graph": transformations.Graph,
    "node": transformations.Node,
    "in_port": transformations.InPort,
    "out_port": transformations.OutPort,
    "connection": transformations.Connection,
    "match": transformations.SubgraphMatch,
}


def test_the_list_of_built_in_transformations_is_theirs(request: pytest.FixtureRequest) -> None:
    infos, _ = describe_transformations()
    rows = ""
    for info in infos:
        state, description = "yes" if info.enabled else "no", info.description.replace("|", "\\|")
        rows += f"| `{info.name}` | {info.phase} | {state} | {description} |\n"
    text = GUIDE.read_text()
    before, rest = text.split("## Built-in transformations", 1)
    intro, table = rest.split(HEAD, 1)
    found, after = table.split(END, 1)
    if request.config.getoption("--golden"):
        GUIDE.write_text(f"{before}## Built-in transformations{intro}{HEAD}{rows}{END}{after}")
        return
    assert found == rows, "`make golden` writes it"


def test_all_flags_are_explained() -> None:
    names = [option.flag.name for option in options_of(TransformOptions)]
    table = GUIDE.read_text().split("## Flags", 1)[1].split("\n## ", 1)[0]
    for name in [*names, "list_transformations"]:
        assert f"`--{name}" in table, name


def test_members_that_the_guide_names_are_there() -> None:
    spans = re.findall(r"`([^`\n]+)`", GUIDE.read_text())
    named = {
        (owner, member)
        for span in spans
        for owner, member in re.findall(r"\b([a-z_]+)\.([a-z_]+)", span)
        if owner in OWNERS
    }
    assert len(named) > 40
    others = {  # attributes of MO, and of an example
        *(("graph", name) for name in ("edges", "node")),
        ("node", "axis"),
        ("node", "pb"),
    }
    for owner, member in named - others:
        cls = OWNERS[owner]
        described = any(member in (base.__doc__ or "") for base in cls.__mro__)
        is_there = hasattr(cls, member) or described
        assert is_there, f"{owner}.{member}"
