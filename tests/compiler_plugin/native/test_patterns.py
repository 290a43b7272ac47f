"""Tests that a plugin's own transformations change a model in our host as in stock's."""

from __future__ import annotations

import numpy as np
import pytest

from compiler_plugin.native.builder_slots import OPTIONS
from compiler_plugin.native.compiler_context import CompilerContext
from compiler_plugin.native.patterns import Pattern, apply_patterns
from litert.abi.definitions import ffi
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from tests.compiler_plugin.native.conftest import BothHosts, read_calls

F32 = ("float32", (2, 3))


def _model() -> Model:
    """Returns a model that each pattern matches."""
    b = ModelBuilder()
    x, y = b.input("x", *F32), b.input("y", *F32)
    three = b.constant("three", np.full((2, 3), 3, np.float32))
    total = b.op("ADD", [x, y], [("total", *F32)])
    a = b.op("RELU", [total], [("a", *F32)])
    c = b.op("RELU6", [a], [("c", *F32)])
    d = b.op("MUL", [c, three], [("d", *F32)])
    kept = b.op("ADD", [d, three], [("kept", *F32)])
    e = b.op("RELU", [kept], [("e", *F32)])
    f = b.op("NEG", [b.op("NEG", [e], [("n", *F32)])], [("f", *F32)])
    g = b.op("RELU", [f], [("g", *F32)])
    b.output(b.op("RELU6", [g], [("h", *F32)]), b.op("ABS", [kept], [("i", *F32)]))
    return b.build()


@pytest.mark.parametrize(
    "rewrites",
    [
        "fuse",
        "split",
        "share",
        "cancel",
        "fuse,split,share,cancel",
        "cancel,share,split,fuse",
        "split,misuse",
        "withdraw",
        "withdraw,fuse,split",
        "endless",
        "",
    ],
)
def test_patterns_make_the_same_graph_as_in_stock(both_hosts: BothHosts, rewrites: str) -> None:
    stock, ours = both_hosts.calls(_model(), SCRIBE_TAKE="all", SCRIBE_REWRITES=rewrites)
    assert ours == stock


@pytest.mark.parametrize("rewrites", ["fuse,split,share,cancel", ""])
def test_in_a_process_of_its_own_a_plugin_makes_the_same(
    both_hosts: BothHosts, rewrites: str
) -> None:
    both_hosts.setenv("SCRIBE_TAKE", "all")
    both_hosts.setenv("SCRIBE_REWRITES", rewrites)
    model = both_hosts.written(_model())
    assert read_calls(both_hosts.isolated(model)) == read_calls(both_hosts.ours(model))
    isolated, ours = (
        [(item.name, item.matches) for item in report.transformations]
        for report in both_hosts.reports
    )
    assert isolated == ours and len(ours) == len(rewrites.split(",")) * bool(rewrites)


def test_the_graph_is_shown_once_to_all_patterns_that_leave_it_alone() -> None:
    """Showing a graph takes time in proportion to its ops: showing it for each op would take quadratic time."""
    asked: list[int] = []

    def match(_context: object, _builder: object, op: object) -> int:
        asked.append(int(ffi.cast("uintptr_t", op)))
        return Status.PATTERN_NO_MATCH

    callback = ffi.callback("LiteRtPatternFn", match)
    patterns = [Pattern(name, 1, callback) for name in ("first", "second")]
    model = _model()
    assert not apply_patterns(CompilerContext("a test"), patterns, model, "here")
    number = len(model.subgraphs[0].ops)
    assert len(asked) == 2 * number and len(set(asked)) == number


def test_the_report_says_how_often_each_pattern_has_matched(both_hosts: BothHosts) -> None:
    both_hosts.calls(_model(), SCRIBE_TAKE="all", SCRIBE_REWRITES="split,fuse,cancel,orphaned")
    found = {line.name: line.matches for line in both_hosts.reports[-1].transformations}
    assert found == {"split": 2, "fuse": 2, "cancel": 1}


@pytest.mark.parametrize("op_name", sorted(OPTIONS))
def test_options_are_built_as_in_stock(both_hosts: BothHosts, op_name: str) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (2, 3, 4))
    y = builder.tensor("y", "float32", (1, 2))
    builder.output(builder.op(op_name.upper(), [x], [y]))
    stock, ours = both_hosts.calls(
        builder.build(), SCRIBE_TAKE="all", SCRIBE_REWRITES=f"options_of_{op_name}"
    )
    assert ours == stock
    assert both_hosts.reports[-1].transformations


def test_lists_and_composites_are_built_as_in_stock(both_hosts: BothHosts) -> None:
    b = ModelBuilder()
    body = b.subgraph("body")
    body.output(body.op("NEG", [body.input("a", "float32", (1, 1))], [("b", "float32", (1, 1))]))
    x = b.input("x", "float32", (1, 1))
    y = b.op("RESHAPE", [x], [("y", "float32", (1, 1))])
    z = b.op("SQUEEZE", [y], [("z", "float32", (1, 1))])
    b.output(b.op("NEG", [z], [("w", "float32", (1, 1))]))
    stock, ours = both_hosts.calls(b.build(), SCRIBE_TAKE="all", SCRIBE_REWRITES="lists")
    assert ours[0] == stock[0]
    assert "acme.neg 1 3 01 02 ff" in ours[0].text
    assert "get_reshape_new_shape_option 2: 1 0" in ours[0].text


def test_a_pattern_that_breaks_the_graph_is_named(both_hosts: BothHosts) -> None:
    with pytest.raises(
        LiteRtError,
        match="no op would write tensor 'n', which is still in use, because the transformation erases the op "
        "that writes the tensor",
    ) as error:
        both_hosts.setenv("SCRIBE_REWRITES", "orphan")
        both_hosts.ours(both_hosts.written(_model()))
    assert error.value.status is Status.INVALID_GRAPH_INVARIANT
    assert "transformation 'orphan' at op NEG" in str(error.value)
