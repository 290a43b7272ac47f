"""Tests the ranges of random inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from litert_npu_tools.array_files import TensorSpec, complete_inputs
from litert_npu_tools.benchmark_command import BenchmarkOptions, benchmark_model
from litert_npu_tools.input_ranges import index_ranges, read_ranges

from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.tools.conftest import LitertNpu

Capture = pytest.CaptureFixture[str]
SPECS = [
    TensorSpec("a:0", "float32", (1000,), 0),
    TensorSpec("ids", "int32", (1000,), 2),
    TensorSpec("b", "bool", (1000,), 3),
    TensorSpec("big", "uint64", (1000,), 4),
]


def test_ranges_go_by_name_or_index_and_both_ends_are_in() -> None:
    texts = ["a:0:-2:2.5", "2:-3:3", "b:1:1", f"big:{2**64 - 2}:{2**64 - 1}"]
    ranges = read_ranges(texts, SPECS, ())
    real, ids, flags, big = (i.value for i in complete_inputs({}, SPECS, 0, ranges).values())
    assert -2 <= real.min() < -1.9 and 2.4 < real.max() <= 2.5
    assert set(ids) == {*range(-3, 4)} and ids.dtype == np.int32
    assert flags.all() and flags.dtype == bool
    assert set(big) == {2**64 - 2, 2**64 - 1}


def test_without_ranges_numbers_are_those_of_their_type() -> None:
    bytes_ = TensorSpec("bytes", "int8", (9999,), 5)
    real, ids, flags, big, small = (
        i.value for i in complete_inputs({}, [*SPECS, bytes_], 0, {}).values()
    )
    assert real.min() >= 0 and real.max() <= 1
    assert set(ids) == set(big) == {*range(100)}
    assert set(flags) == {False, True} and set(small) == {*range(-128, 128)}


WRONG = {
    "no numbers": ("ids", "--input_range=ids does not contain two numbers"),
    "one number": ("ids:3", "--input_range=ids:3 does not contain two numbers"),
    "no such input": (
        "q:0:1",
        "there is no input with the name or index 'q' (--input_range=q:0:1)",
    ),
    "a fraction": (
        "ids:0:0.5",
        "'0:0.5' in --input_range=ids:0:0.5 is not a valid range of int32 numbers",
    ),
    "no order": ("a:0:1:0", "is not a valid range of float32 numbers"),
    "no end": ("a:0:0:inf", "is not a valid range of float32 numbers"),
    "too wide": ("a:0:-1e308:1e308", "is not a valid range of float32 numbers"),
    "too many digits": ("ids:0:" + "9" * 400, "is not a valid range of int32 numbers"),
    "a word": ("a:0:0:x", "is not a valid range of float32 numbers"),
    "an input with a file": ("0:0:1", "input 'a:0' already has a file"),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG)
def test_what_is_no_range_is_refused(text: str, said: str) -> None:
    with pytest.raises(LiteRtError) as error:
        read_ranges([text], SPECS, {"a:0"} if text.startswith("0") else ())
    assert said in str(error.value)
    with pytest.raises(
        LiteRtError,
        match="input 'ids' already has a range, so it cannot have this range too",
    ):
        read_ranges(["ids:0:1", "2:0:1"], SPECS, ())


def test_a_range_beyond_the_type_is_refused() -> None:
    with pytest.raises(LiteRtError, match=r"'x' of type uint8\[2\] .*0 to 256\..* 0 to 255"):
        complete_inputs({}, [TensorSpec("x", "uint8", (2,), 0)], 0, {"x": (0, 256)})
    with pytest.raises(LiteRtError, match=r"float16\[2\] .*0 to 100000\.0\..* to 65504"):
        complete_inputs({}, [TensorSpec("x", "float16", (2,), 0)], 0, {"x": (0, 1e5)})


def gathering() -> ModelBuilder:
    """Returns a model with inputs that are indices into dimensions of different sizes."""
    b = ModelBuilder()
    table = b.input("table", "float32", (7, 5, 3))
    names = ("rows", "last", "moved", "points", "words", "places", "groups", "free")
    shapes = [(4,), (4,), (2, 2), (4, 2), (4,), (4, 1), (7,), (4,)]
    ids = {n: b.input(n, "int32", shape) for n, shape in zip(names, shapes, strict=True)}
    b.op("GATHER", [table, ids["rows"]], [("a", "float32", (4, 5, 3))])
    b.op("GATHER", [table, ids["last"]], [("b", "float32", (7, 5, 4))], axis=-1)
    b.op("GATHER", [table, ids["rows"]], [("b2", "float32", (7, 4, 3))], axis=1)
    shape = b.constant("shape", [4], "int32")
    flat = b.op("RESHAPE", [ids["moved"], shape], [("flat", "int32", (4,))])
    wide = b.op("CAST", [flat], [("wide", "int64", (4,))])
    b.op("GATHER", [table, wide], [("c", "float32", (7, 4, 3))], axis=1)
    b.op("GATHER_ND", [table, ids["points"]], [("d", "float32", (4, 3))])
    b.op("EMBEDDING_LOOKUP", [ids["words"], table], [("e", "float32", (4, 5, 3))])
    values = b.constant("values", np.ones(4, np.float32))
    size = b.constant("size", [6], "int32")
    b.op("SCATTER_ND", [ids["places"], values, size], [("f", "float32", (6,))])
    count = b.constant("count", [2], "int32")
    b.op("UNSORTED_SEGMENT_SUM", [table, ids["groups"], count], [("g", "float32", (2, 5, 3))])
    b.op("ADD", [ids["free"], shape], [("h", "int32", (4,))])
    return b


def test_indices_are_those_that_the_tables_have() -> None:
    inputs = gathering().build().subgraphs[0].inputs
    assert index_ranges((t.name, t) for t in inputs) == {
        "rows": (0, 4), "last": (0, 2), "moved": (0, 4), "points": (0, 4), "words": (0, 6),
        "places": (0, 5), "groups": (0, 1),
    }  # fmt: skip


def gather_model(path: str) -> str:
    """Writes a model that looks up 50 indices in a table of 3 numbers, and adds another input."""
    b = ModelBuilder()
    ids, other = b.input("ids", "int32", (50,)), b.input("other", "int32", (50,))
    table = b.constant("table", np.arange(3, dtype=np.int32))
    found = b.op("GATHER", [table, ids], [("found", "int32", (50,))])
    b.output(found, b.op("ADD", [found, other], [("sum", "int32", (50,))]))
    write_model(b.build(), path)
    return path


def test_run_and_benchmark_take_ranges_and_find_those_of_indices(
    in_folder: Path, litert_npu: LitertNpu
) -> None:
    path = gather_model("gather.tflite")
    assert litert_npu("run", path, "--input_range=other:1000:1001", "--output=out.npz") == 0
    arrays = np.load("out.npz")
    assert set(arrays["found"]) == {0, 1, 2}
    assert set(arrays["sum"] - arrays["found"]) == {1000, 1001}
    report = benchmark_model(path, BenchmarkOptions(warm_up=0, runs=1, ranges=["other:7:7"]))
    assert report.stock and report.greatest_difference == 0
    assert litert_npu("benchmark", path, "--runs=1", "--input_range=ids:0:3") == 2
