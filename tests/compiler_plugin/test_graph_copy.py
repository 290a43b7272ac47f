"""Tests that a copy of ops has all their attributes, and shares only what may be shared."""

from __future__ import annotations

import pytest

from compiler_plugin.graph_copy import CopiedData, GraphCopy
from litert.core.element_type import ElementType
from litert.model.blob import Blob
from litert.model.builtin_options import make_builtin_options
from litert.model.graph import CUSTOM, Buffer, Op, OperatorCode, Subgraph, Tensor

OWN = {"_inputs", "_outputs", "code", "intermediates"}


def tensor(name: str, buffer: Buffer) -> Tensor:
    return Tensor(name, ElementType.FLOAT32, (4,), buffer)


def full_op() -> Op:
    """Returns an op whose attributes all differ from the defaults."""
    x, y, z, state = (tensor(name, Buffer(Blob(b"1234"))) for name in ("x", "y", "z", "state"))
    op = Op(OperatorCode(CUSTOM, "Own", 3), [x, None, x, y], [z])
    op.options, _ = make_builtin_options("SOFTMAX", {"beta": 0.5})
    _, op.options_2 = make_builtin_options("STABLEHLO_COMPOSITE", {"name": "a.b"})
    op.custom_options = Blob(b"options")
    op.custom_options_format = 1
    op.has_large_custom_options = True
    op.intermediates = (None, state)
    op.mutating_variable_inputs = (False, True, False, True)
    op.debug_metadata_index = 5
    return op


@pytest.mark.parametrize("share", [True, False], ids=["shared", "apart"])
def test_an_op_s_copy_has_all_that_it_has(share: bool) -> None:
    op, plain = full_op(), Op(OperatorCode(0), [], [])
    into = Subgraph()
    (copy,) = GraphCopy(into, data=None if share else CopiedData()).ops([op])
    for name in set(Op.__slots__) - OWN:
        # With equal values, the next line would prove nothing.
        assert getattr(op, name) != getattr(plain, name), name
        assert getattr(copy, name) == getattr(op, name), name
    code = copy.code
    assert (code.builtin_code, code.custom_code, code.version) == (CUSTOM, "Own", 3)
    assert (code is op.code) is share
    names = [t and t.name for t in (*copy.inputs, *copy.outputs, *copy.intermediates)]
    assert names == ["x", None, "x", "y", "z", None, "state"]
    assert copy.inputs[0] is copy.inputs[2]
    assert {t.name for t in into.tensors} == {"x", "y", "z", "state"}
    for old, new in zip(op.inputs, copy.inputs, strict=True):
        assert old is None or (new is not None and new is not old)
        assert old is None or (new is not None and (new.buffer is old.buffer) is share)


@pytest.mark.parametrize("subgraphs", [1, 2])
def test_ops_that_share_a_buffer_and_a_code_share_those_of_the_copies(subgraphs: int) -> None:
    shared, code = Buffer(Blob(b"1234")), OperatorCode(0)
    ops = [Op(code, [tensor("w", shared)], [tensor("y", Buffer())]) for _ in range(2)]
    data = CopiedData()
    copies = [GraphCopy(Subgraph(), data=data) for _ in range(subgraphs)]
    (first,), (second,) = copies[0].ops(ops[:1]), copies[-1].ops(ops[1:])
    assert first.code is second.code is not code
    one, other = first.inputs[0], second.inputs[0]
    assert one is not None and other is not None and one is not other
    assert one.buffer is other.buffer is not shared
