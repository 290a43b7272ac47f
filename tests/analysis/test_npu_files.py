"""Tests making inner tensors of NPU calls outputs, for vendors that refuse some of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from compiler_plugin.apply_options import ApplyOptions
from litert.analysis.npu_files import NpuFiles
from litert.analysis.source_graph import SourceGraph
from litert.core.element_type import ElementType
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from litert.options import Options

NUM_OPS = 200


class Trial:
    def close(self) -> None:
        pass


class Files(NpuFiles):
    """Files of a vendor that accepts only some tensors as outputs; the model has no ops that read them."""

    def __init__(self, taken: frozenset[int], status: Status) -> None:
        super().__init__("", "", ApplyOptions(), Options(), EnvironmentOptions())
        self.taken, self.status, self.num_tried = taken, status, 0

    def _open_exposed(self, source: SourceGraph, places: Sequence[int]) -> Trial:  # type: ignore[override]
        self.num_tried += 1
        if not self.taken.issuperset(places):
            raise LiteRtError(self.status, "no such output", "vendor")
        return Trial()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> SourceGraph:
    b = ModelBuilder()
    x = b.input("x", ElementType.FLOAT32, (2,))
    for index in range(NUM_OPS):
        b.output(b.op("ABS", [x], [(f"y{index}", ElementType.FLOAT32, (2,))]))
    path = tmp_path_factory.mktemp("model") / "model.tflite"
    write_model(b.build(), path)
    return SourceGraph(str(path))


def open_parts(source: SourceGraph, files: Files) -> tuple[set[int], dict[int, LiteRtError]]:
    refused: dict[int, LiteRtError] = {}
    parts = [part for part, _ in files.open_parts(source, list(source.results), refused)]
    shown = [place for part in parts for place in part]
    assert len(shown) == len(set(shown))
    return set(shown), refused


def test_tensors_that_a_vendor_refuses_keep_no_other_one_from_being_shown(
    source: SourceGraph,
) -> None:
    refused = {source.results[0], source.results[77]}
    files = Files(frozenset(source.results) - refused, Status.UNSUPPORTED)
    shown, found = open_parts(source, files)
    assert found.keys() == refused and shown == set(source.results) - refused
    assert files.num_tried < 40


def test_a_vendor_that_refuses_all_tensors_is_not_asked_for_each(source: SourceGraph) -> None:
    files = Files(frozenset(), Status.COMPILATION)
    shown, found = open_parts(source, files)
    assert not shown and found.keys() == set(source.results)
    assert files.num_tried < 30


def test_who_cancels_is_not_asked_again(source: SourceGraph) -> None:
    files = Files(frozenset(), Status.CANCELLED)
    with pytest.raises(LiteRtError, match="no such output"):
        open_parts(source, files)
    assert files.num_tried == 1
