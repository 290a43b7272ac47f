"""`transform` takes at most 3 s on 10,000 ops without a match, and at most 5 s with 1,000 matches of a fusion.

On 20,000 ops without a match, `transform` takes at most 2.2 times as long as on 10,000 ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.commands import APPLY_PLUGIN, noop
from benchmarks.harness import BUILD, Row, compare, run_checked
from benchmarks.models import chain, swishes

_RUNS = 5
_LITERT_NPU = str(Path(APPLY_PLUGIN).with_name("litert-npu"))
_GATE = """
from compiler_plugin.transformations import Any, Match, PatternReplacement

class GateSwish(PatternReplacement):
    pattern = Match("MUL", Any("x"), Match("LOGISTIC", Any("x"), name="sigmoid", uses=1), name="mul")

    def rewrite(self, graph, x, sigmoid, mul):
        assert x.data.get_shape() == mul.out_port(0).data.get_shape()
        gate = graph.create_op("ADD", [x, 3.0], {"fused_activation_function": "RELU6"})
        return graph.create_op("MUL", [graph.create_op("MUL", [gate, 1 / 6]), x])
"""


def measure() -> Sequence[Row]:
    """Transforms chains of ADD ops, and chains with many swishes, in turn with only reading and writing them."""
    short, long, swish = chain(10_000), chain(20_000), swishes(1_000)
    extension = BUILD / "gate" / "middle" / "gate_swish.py"
    extension.parent.mkdir(parents=True, exist_ok=True)
    extension.write_text(_GATE)
    gate = (f"--extensions={BUILD / 'gate'}",)
    idle = compare(_transform(short), _noop(short), _RUNS)
    growth = compare(_transform(long), _transform(short), _RUNS)
    fused = compare(_transform(swish, "--transformations=all,fuse_swish"), _noop(swish), _RUNS)
    gated = compare(_transform(swish, *gate), _noop(swish), _RUNS)
    return [
        idle.absolute_row("transform, 10,000 ops, no match (peer: noop)", 3.0),
        growth.row("transform, 20,000 ops compared with 10,000 ops", 2.2),
        fused.absolute_row("transform, 10,000 ops, fuse_swish matches 1,000 times", 5.0),
        gated.absolute_row("transform, 10,000 ops, 1,000 swishes become 3 ops each", 5.0),
    ]


def _transform(model: Path, *flags: str) -> Callable[[], float]:
    command = [_LITERT_NPU, "transform", str(model), str(BUILD / "transformed.tflite"), *flags]
    return lambda: run_checked(command).wall_s


def _noop(model: Path) -> Callable[[], float]:
    return lambda: run_checked(noop(APPLY_PLUGIN, model, BUILD / "many_ops.tflite")).wall_s
