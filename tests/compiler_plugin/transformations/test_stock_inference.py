"""Tests how stock LiteRT infers regions of ops: it never gets weights, and it never crashes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.transformations.stock_inference import Prepared, prepare, run
from litert.core.errors import LiteRtError
from litert.core.quantization import BlockwiseQuantization, Quantization
from litert.model.blob import MappedFile
from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor
from litert.model.table import Table
from litert.model.writer import write_model

MIB = 1 << 20


def ask(builder: ModelBuilder) -> Prepared:
    return prepare(builder.graph.ops, lambda tensor: tensor.shape, lambda tensor: None)


def test_the_graph_that_is_asked_about_stays_as_it_is() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 3))
    y = b.op("ABS", [x], [("y", "float32", (7,))])
    found = ask(b)
    assert found.shapes == {y: (2, 3)} and found.stopped is None
    assert y.shape == (7,) and x.uses == b.graph.ops and b.graph.tensors == [x, y]


def test_it_stops_behind_an_op_whose_shape_only_a_run_tells() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 3))
    before = b.op("ABS", [x], [("before", "float32", ())])
    where = b.op("WHERE", [b.input("c", "bool", (2,))], [("where", "int64", ())])
    b.op("NEG", [where], [("after", "int64", ())])
    found = ask(b)
    assert found == Prepared({before: (2, 3)}, 1, "")


def test_it_stops_before_an_op_that_stock_refuses_or_does_not_know() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 3))
    y = b.op("ABS", [x], [("y", "float32", ())])
    b.op("ADD", [y, b.input("z", "float32", (2, 5))], [("sum", "float32", ())])
    found = ask(b)
    assert found.shapes == {y: (2, 3)} and found.stopped == 1 and "broadcast" in found.reason
    b.graph.ops[1].code.version = 99
    found = ask(b)
    assert found.shapes == {y: (2, 3)} and found.stopped == 1 and "version '99'" in found.reason


def test_an_op_that_cannot_run_is_named() -> None:
    b = ModelBuilder()
    one = b.constant("one", np.array([1, 2], np.float32))
    past = b.constant("past", np.array([7], np.int32))
    lost = b.op("GATHER", [one, past], [("lost", "float32", (1,))], axis=0)
    good = b.op("NEG", [one], [("good", "float32", (2,))])
    with pytest.raises(LiteRtError, match="GATHER 'lost'"):
        run(b.graph.ops, lambda tensor: None, [good, lost])
    (value,) = run(b.graph.ops[1:], lambda tensor: None, [good])
    assert value.tolist() == [-1, -2]


BAD: dict[str, tuple[str, Any]] = {
    "left out": ("SQUEEZE", lambda b: [None]),
    "second left out": ("ATAN2", lambda b: [b.input("x", "float32", (2,)), None]),
    "no input": ("CONV_2D", lambda b: []),
    "too few": ("BATCH_MATMUL", lambda b: [b.input("x", "float32", (2, 2))]),
    "too many": ("ABS", lambda b: [b.input(f"x{i}", "float32", (2,)) for i in range(3)]),
    "no scale": ("SUB", lambda b: [b.input(f"x{i}", "int8", (2,)) for i in range(2)]),
    "text": ("CUMSUM", lambda b: [b.input("x", "string", (2,))] * 2),
}


@pytest.mark.parametrize("name, inputs", BAD.values(), ids=BAD)
def test_an_op_that_makes_no_sense_is_refused_and_crashes_nothing(name: str, inputs: Any) -> None:
    b = ModelBuilder()
    made = inputs(b)
    b.op(name, made, [("y", "int8" if name == "SUB" else "float32", ())])
    found = ask(b)
    assert found.stopped == 0 and found.reason and not found.shapes


QUANTIZED: dict[str, tuple[str, list[float], str]] = {
    "another type": ("float32", [1, 1, 1], "tensor 'y' has type FLOAT32, but must have type INT8"),
    "no number": (
        "int8",
        [1, float("nan"), 1],
        "the scale of tensor 'x1' must be positive and finite, but is nan",
    ),
    "negative": (
        "int8",
        [1, 1, -1],
        "the scale of tensor 'y' must be positive and finite, but is -1",
    ),
    "far apart": (
        "int8",
        [1, 1e30, 1],
        "the scale of tensor 'y' is 1, which does not fit the scales of the inputs",
    ),
}


@pytest.mark.parametrize("kind, scales, reason", QUANTIZED.values(), ids=QUANTIZED)
@pytest.mark.parametrize("name", ["ADD", "SUB", "SQUARED_DIFFERENCE"])
def test_an_op_is_refused_whose_scales_would_end_the_process(
    name: str, kind: str, scales: list[float], reason: str
) -> None:
    b = ModelBuilder()
    first, second, result = (Quantization([scale], [0]) for scale in scales)
    x = [
        b.input("x0", "int8", (2,), quantization=first),
        b.input("x1", "int8", (2,), quantization=second),
    ]
    y = b.op(name, x, [("y", kind, ())])
    y.quantization = result
    found = ask(b)
    assert found.stopped == 0 and reason in found.reason


def test_an_op_without_a_result_is_refused() -> None:
    b = ModelBuilder()
    b.op("SIGN", [b.input("x", "float32", (2,))], [])
    assert ask(b) == Prepared({}, 0, "the op has no output")


def test_shapes_that_cannot_be_broadcast_are_refused() -> None:
    b = ModelBuilder()
    shapes = [b.constant(f"s{i}", np.array(v, np.int32)) for i, v in enumerate(([0, 1], [2, 1]))]
    b.op("BROADCAST_ARGS", shapes, [("y", "int32", ())])
    assert ask(b) == Prepared({}, 0, "the shapes [0, 1] and [2, 1] cannot be broadcast")


def test_ops_of_more_dimensions_than_kernels_have_are_not_run() -> None:
    b = ModelBuilder()
    x = b.constant("x", np.ones((1,) * 7 + (2, 1), np.float32))
    y = b.op("SUB", [x, b.constant("one", np.float32(1))], [("y", "float32", x.shape)])
    assert ask(b).shapes == {y: x.shape}
    with pytest.raises(LiteRtError, match="tensor 'x' has 9 dimensions, but may have at most 8"):
        run(b.graph.ops, lambda tensor: None, [y])


def test_a_softmax_of_nothing_is_not_run() -> None:
    b = ModelBuilder()
    sizes = b.constant("sizes", np.array([2, 0], np.int32))
    x = b.op("FILL", [sizes, b.constant("one", np.float32(1))], [("x", "float32", (2, 0))])
    y = b.op("SOFTMAX", [x], [("y", "float32", (2, 0))], beta=1.0)
    with pytest.raises(LiteRtError, match="tensor 'y' has no elements"):
        run(b.graph.ops, lambda tensor: None, [y])


@pytest.mark.parametrize("name", ["EXPAND_DIMS", "RESHAPE", "SQUEEZE"])
def test_an_op_that_copies_into_another_type_is_not_run(name: str) -> None:
    b = ModelBuilder()
    x = b.constant("x", np.ones((1, 6), np.float32))
    second = {"EXPAND_DIMS": np.int32(0), "RESHAPE": np.array([6], np.int32), "SQUEEZE": None}[name]
    inputs = [x] if second is None else [x, b.constant("second", second)]
    y = b.op(name, inputs, [("y", "int8", ())])
    assert y in ask(b).shapes
    with pytest.raises(LiteRtError, match="tensor 'y' has type INT8, but must have type FLOAT32"):
        run(b.graph.ops, lambda tensor: None, [y])


def test_a_depthwise_convolution_without_bias_has_a_shape_and_is_not_run() -> None:
    b = ModelBuilder()
    x = b.constant("x", np.ones((1, 4, 4, 2), np.float32))
    w = b.constant("w", np.ones((1, 2, 2, 2), np.float32))
    options = {"depth_multiplier": 1, "stride_w": 1, "stride_h": 1}
    y = b.op("DEPTHWISE_CONV_2D", [x, w], [("y", "float32", ())], **options)
    assert ask(b).shapes == {y: (1, 4, 4, 2)}
    with pytest.raises(LiteRtError, match="the op has no bias"):
        run(b.graph.ops, lambda tensor: None, [y])


def test_a_second_result_that_the_kernel_does_not_know_has_no_value() -> None:
    b = ModelBuilder()
    one = b.constant("one", np.ones(2, np.float32))
    results = b.op("SIGN", [one], [("y", "float32", (2,)), ("z", "float32", (2,))])
    with pytest.raises(LiteRtError, match="the op's kernel sets no shape for tensor 'z'"):
        run(b.graph.ops, lambda tensor: None, results)


def test_whole_numbers_of_16_bits_need_no_scale() -> None:
    b = ModelBuilder()
    x = b.input("x", "int16", (2,))
    y = b.op("ADD", [x, x], [("y", "int16", ())])
    assert ask(b).shapes == {y: (2,)}


@pytest.mark.parametrize("name", ["FAKE_QUANT", "SQUEEZE", "SOFTMAX", "LEAKY_RELU"])
def test_options_that_a_file_leaves_out_are_the_schemas_defaults(name: str) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2, 1, 3))
    b.op(name, [x], [("y", "float32", ())])
    (op,) = b.graph.ops
    op.options = op.options_2 = None
    ask(b)  # stock LiteRT would crash without the defaults
    assert op.options is None


# Kinds of tensors.


def big(b: ModelBuilder, kind: str, shape: tuple[int, ...], **options: Any) -> Tensor:
    """Adds a constant that is too large to be passed to stock LiteRT with its data."""
    numbers = np.arange(np.prod(shape), dtype=np.int64).reshape(shape) % 5
    return b.constant("w", numbers, kind, **options)


KINDS: dict[str, Any] = {
    "float32": lambda b: big(b, "float32", (32, 64)),
    "float16": lambda b: b.op("DEQUANTIZE", [big(b, "float16", (32, 64))], [("f", "float32", ())]),
    "int8": lambda b: big(b, "int8", (32, 64), quantization=Quantization([0.5], [0])),
    "int8 per channel": lambda b: big(
        b, "int8", (32, 64), quantization=Quantization([0.5] * 32, [0] * 32)
    ),
    "int4": lambda b: big(b, "int4", (32, 64), quantization=Quantization([0.5], [0])),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_weights_of_each_kind_are_constants_without_data(make: Any) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (3, 64))
    y = b.op("FULLY_CONNECTED", [x, make(b), None], [("y", "float32", ())])
    assert ask(b).shapes[y] == (3, 32)


def test_without_a_place_for_a_temporary_file_the_error_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (3, 64))
    b.op("FULLY_CONNECTED", [x, big(b, "float32", (32, 64)), None], [("y", "float32", ())])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(LiteRtError, match=r"FILE_IO: cannot write a temporary file.* TMPDIR"):
        ask(b)


def test_sparse_weights_stay_sparse() -> None:
    b = ModelBuilder()
    rows = 512
    dense = Table.make("DimensionMetadata", format=0, dense_size=rows)
    sparse = Table.make(
        "DimensionMetadata", format=1,
        array_segments=Table.make("Int32Vector", values=list(range(rows + 1))),
        array_indices=Table.make("Int32Vector", values=[0] * rows),
    )  # fmt: skip
    sparsity = Table.make(
        "SparsityParameters", traversal_order=[0, 1], block_map=[], dim_metadata=[dense, sparse]
    )
    data = np.ones(rows, np.float32).tobytes()
    w = b.constant("w", data, "float32", (rows, 4), sparsity=sparsity)
    full = b.op("DENSIFY", [w], [("full", "float32", ())])
    assert ask(b).shapes == {full: (rows, 4)}


def test_scales_in_a_tensor_of_their_own_come_along() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 64))
    scales = b.constant("scales", np.ones((32, 2), np.float16))
    quantization = Quantization(blockwise=BlockwiseQuantization(scales, None, 32))
    w = big(b, "int4", (32, 64), quantization=quantization)
    b.op("FULLY_CONNECTED", [x, w, None], [("y", "float32", ())])
    found = ask(b)
    assert found.shapes or found.reason  # without XNNPACK, stock's kernels may refuse the op


def test_variables_and_text_are_inputs_that_nobody_sets() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 2))
    state = b.tensor("state", "float32", (1, 12), is_variable=True)
    feature, time = (b.constant(n, np.ones((4, k), np.float32)) for n, k in (("f", 2), ("t", 3)))
    y = b.op("SVDF", [x, feature, time, None, state], [("y", "float32", ())], rank=1)
    texts = b.constant("texts", np.array([["a", "bc"]]))
    b.op("RESHAPE", [texts, b.constant("s", np.array([2], np.int32))], [("r", "string", ())])
    assert ask(b) == Prepared({y: (1, 4)}, 1, "")  # string tensors get their shape in a run


def test_gigabytes_of_weights_take_neither_memory_nor_disk(tmp_path: Path) -> None:
    size = 256 * MIB
    with (tmp_path / "weights").open("wb") as file:
        file.truncate(size)
    with MappedFile(tmp_path / "weights") as weights:
        b = ModelBuilder()
        y = b.input("x", "float32", (1, 4096))
        for index in range(4):
            blob = weights.blob(index * size // 4, size // 4)
            w = b.constant(f"w{index}", blob, "float32", (4096, 4096), is_external=True)
            y = b.op("FULLY_CONNECTED", [y, w, None], [(f"y{index}", "float32", (1, 4096))])
        b.output(y)
        write_model(b.build(), tmp_path / "m.tflite")
    code = (
        "import resource, sys\n"
        "import numpy, ai_edge_litert.interpreter\n"
        "from compiler_plugin.transformations.graph import Graph\n"
        "from compiler_plugin.transformations.partial_inference import PartialInference\n"
        "from litert.model.reader import read_model\n"
        "def rss(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = rss()\n"
        "with read_model(sys.argv[1]) as model:\n"
        "    subgraph = model.subgraphs[0]\n"
        "    graph = Graph(model, subgraph, PartialInference(subgraph))\n"
        "    for node in graph.nodes: node.touch()\n"
        "    graph.infer()\n"
        "print(rss() - before)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m.tflite")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(result.stdout.splitlines()[-1]) < 24 * 1024  # KiB
