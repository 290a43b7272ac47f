"""Tests devices whose work groups cannot pass results within a launch: each command is a separate launch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus.whole_network import picture_for
from litert import CompiledModel
from litert.core.tracing import SpanKind, record
from tests.vendor_reference.executables import Array
from tests.vendor_reference.library_runs import Case, run_library
from tests.vendor_reference.test_library_moves import made
from tests.vendor_reference.test_library_reductions import positive, reduced, softmax
from tests.vendor_reference.test_whole_networks import apply
from vendor_reference.compiler.library.library_op import library_ops


class Launches:
    """Records the events of layers' launches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import pyopencl as cl

        from vendor_reference.device import layer_run

        def enqueue_and_keep(*arguments: Any) -> Any:
            self.events.append(cl.enqueue_nd_range_kernel(*arguments))
            return self.events[-1]

        self.events: list[Any] = []
        monkeypatch.setattr(layer_run, "enqueue_nd_range_kernel", enqueue_and_keep)


def layers() -> list[Case]:
    """Returns sums of two commands each, and layers of one command."""
    tall = positive((20_003, 16))
    shifted, _ = made("NEG", [tall], [tall.shape])
    sums = [reduced("SUM", positive((300_001,)), [0]), reduced("MEAN", tall, [0])]
    return [*sums, softmax(tall[:999]), shifted, *sums]


def count_commands(case: Case) -> int:
    return len(library_ops()[case.op.name].kernel(case.placed()).commands)


def test_layers_of_several_commands_have_the_same_results(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases, launches = layers(), Launches(monkeypatch)
    together = run_library(device, cases)
    assert len(launches.events) == 1
    monkeypatch.setattr(device, "ordering_option", None)
    apart = run_library(device, cases)
    commands = sum(map(count_commands, cases))
    assert len(launches.events) == 1 + commands > 1 + len(cases)
    for one, other in zip(together, apart, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_time_of_a_layer_is_that_of_all_its_commands(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases, launches = layers(), Launches(monkeypatch)
    monkeypatch.setattr(device, "ordering_option", None)
    with record() as recording:
        run_library(device, cases)
    events = iter(launches.events)
    spans = [span for span in recording.spans if span.kind is SpanKind.TASK]
    for case, span in zip(cases, spans, strict=True):
        own = [next(events) for _ in range(count_commands(case))]
        assert span.duration_ns == own[-1].profile.end - own[0].profile.start
    assert next(events, None) is None


@pytest.mark.each_driver
@pytest.mark.parametrize("name", ["selfie_segmentation", "hand_landmark_lite"])
def test_a_network_has_the_same_outputs(
    networks: Path,
    tmp_path: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from vendor_reference.device.opencl_device import shared_device

    path, compiled = networks / f"{name}.tflite", tmp_path / "compiled.tflite"
    apply(path, compiled, "all")
    together = run_twice(compiled, picture_for(path))
    launches = Launches(monkeypatch)
    monkeypatch.setattr(shared_device(""), "ordering_option", None)
    apart = run_twice(compiled, picture_for(path))
    assert len(launches.events) > 100
    for output, values in together.items():
        np.testing.assert_array_equal(apart[output], values)


def run_twice(compiled: Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the outputs of a second run, which starts with the counters that the first run left."""
    with CompiledModel.from_file(str(compiled)) as model:
        model.run(inputs)
        return dict(model.run(inputs))
