"""Tests that a graph sent to another process is the same there: both ends write the same bytes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from compiler_plugin.isolation.exchange import Exchange
from compiler_plugin.isolation.transport import (
    pack_model,
    pack_options,
    pack_result,
    pack_subgraphs,
    replace_model,
    unpack_model,
    unpack_options,
    unpack_result,
)
from compiler_plugin.plugin import CallInfo, CompiledResult
from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.graph import Model, Tensor
from litert.model.reader import read_model
from litert.model.writer import to_bytes, write_model

Ends = tuple[Exchange, Exchange]


@pytest.fixture
def fd() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        yield file.fileno()


@pytest.fixture
def ends(fd: int) -> Ends:
    return Exchange(fd), Exchange(fd)


def send(model: Model, ends: Ends) -> Model:
    here, there = ends
    before = to_bytes(model)
    packed = pack_model(model, here)
    assert isinstance(packed, dict) and to_bytes(model) == before  # the model is unchanged
    return unpack_model(packed, there)


def build_model() -> Model:
    """Returns a model with shared and empty constants, a quantized op, small and large custom options,
    two subgraphs, and metadata.
    """
    builder = ModelBuilder()
    quantization = Quantization([0.5], [3])
    x = builder.input("x", "int8", (4,), quantization=quantization)
    w = builder.constant("w", bytes(range(4)), "int8", (4,))
    v = builder.constant("v", w.buffer, "int8", (4,))
    y = builder.tensor("y", "int8", (4,), quantization=quantization)
    builder.op("ADD", [x, w], [y])
    small = builder.custom("Small", [y, v], [("s", "int8", (4,))], options={"alpha": 0.5})
    large = builder.custom("Large", [small], [("l", "int8", (4,))], options={"text": "x" * 9000})
    builder.output(large)
    other = builder.subgraph("other")
    other.output(other.custom("Small", [other.input("i", "int8", (2,))], [("o", "int8", (2,))]))
    model = builder.build()
    model.set_metadata("notes", Blob(b"of the user's"))
    model.set_metadata("more", Blob(bytes(2 << 20)))
    return model


def test_a_model_in_memory_arrives_whole(ends: Ends) -> None:
    model = build_model()
    assert to_bytes(send(model, ends)) == to_bytes(model)


def test_a_models_constants_stay_in_its_file(tmp_path: Path, fd: int, ends: Ends) -> None:
    write_model(build_model(), tmp_path / "model.tflite")
    with read_model(tmp_path / "model.tflite") as model:
        sent = send(model, ends)
        assert to_bytes(sent) == to_bytes(model)
        blobs = [buffer.blob for buffer in sent.buffers if buffer.blob is not None]
        assert blobs and all(blob.file for blob in blobs)
    assert os.fstat(fd).st_size < 10_000  # the model file has 2 MiB


def test_real_models_arrive_whole(ends: Ends) -> None:
    folder = os.environ.get("LITERT_NPU_MODELS")
    if not folder:
        pytest.skip("LITERT_NPU_MODELS names no folder with models")
    paths = sorted(Path(folder).rglob("*.tflite"))
    assert paths
    for path in paths:
        with read_model(path) as model:
            model.trailing = None
            assert to_bytes(send(model, ends)) == to_bytes(model), path


def test_shared_constants_stay_shared(ends: Ends) -> None:
    sent = send(build_model(), ends)
    tensors = {tensor.name: tensor for tensor in sent.subgraphs[0].tensors}
    assert tensors["w"].buffer is tensors["v"].buffer


def test_subgraphs_arrive_in_order_and_without_their_model(ends: Ends) -> None:
    here, there = ends
    model = build_model()
    packed = pack_subgraphs(model.subgraphs[::-1], here)
    assert isinstance(packed, dict)
    other, main = unpack_model(packed, there).subgraphs
    assert (other.name, [op.name for op in other.ops]) == ("other", ["Small"])
    assert [op.name for op in main.ops] == ["ADD", "Small", "Large"]
    assert [bytes(tensor.data) for tensor in main.tensors] == [
        bytes(tensor.data) for tensor in model.subgraphs[0].tensors
    ]


def test_a_model_that_comes_back_takes_the_place_of_the_old(tmp_path: Path, ends: Ends) -> None:
    here, there = ends
    write_model(build_model(), tmp_path / "model.tflite")
    with read_model(tmp_path / "model.tflite") as model:
        source = model.source
        sent = unpack_model(pack_model(model, here), there)  # type: ignore[arg-type]
        sent.subgraphs[0].ops[1].code.custom_code = "Other"
        replace_model(model, unpack_model(pack_model(sent, there), here))  # type: ignore[arg-type]
        assert model.source is source
        assert [op.name for op in model.subgraphs[0].ops] == ["ADD", "Other", "Large"]
        assert to_bytes(model) == to_bytes(sent)
        assert all(buffer.blob is None or buffer.blob.file is source for buffer in model.buffers)


def test_a_graph_that_does_not_hold_together_is_refused_and_keeps_its_data(ends: Ends) -> None:
    model = build_model()
    model.subgraphs[0].tensors.pop(0)
    data = [buffer.blob for buffer in model.buffers]
    with pytest.raises(LiteRtError, match="not in the subgraph's list of tensors"):
        pack_model(model, ends[0])
    assert [buffer.blob for buffer in model.buffers] == data
    assert model.subgraphs[0].ops[2].custom_options is not None


def test_a_result_arrives(ends: Ends) -> None:
    here, there = ends
    result = CompiledResult(
        [Blob(b"one"), Blob(bytes(2 << 20))],
        [CallInfo("f", 1, [0]), CallInfo("ä", 0, [])],
        ["a note"],
        ["MyOp"],
    )
    packed = pack_result(result, there)
    assert isinstance(packed, dict)
    found = unpack_result(packed, here)
    assert [bytes(module) for module in found.byte_code] == [b"one", bytes(2 << 20)]
    assert (found.calls, found.notes, found.native_assets) == (
        result.calls,
        result.notes,
        result.native_assets,
    )


def test_options_arrive_whole() -> None:
    options = CompilerOptions(
        [CustomOpInfo("MyOp", "a,b.cl")],
        3,
        False,
        True,
        {"acme_tiles": "4", "acme_path": "\udcff"},
        ["layers"],
        "root",
        {"x": [1, 2]},
        DumpOptions("dump", "all", True),
        "weakly_connected",
        taps=True,
        replace_ir={"Partition_0": "a.mlir"},
    )
    default = CompilerOptions()
    assert all(getattr(options, f.name) != getattr(default, f.name) for f in fields(options))
    packed = pack_options(options)
    assert isinstance(packed, dict) and unpack_options(packed) == options
    environment = EnvironmentOptions("a", "b", "c")
    packed = pack_options(environment)
    assert isinstance(packed, dict) and EnvironmentOptions(**packed) == environment


def test_tensors_of_other_kinds_arrive(ends: Ends) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4), shape_signature=(-1, 4))
    state = builder.tensor("state", "float32", (1, 4), is_variable=True)
    builder.output(builder.op("ADD", [x, state], [builder.tensor("y", "float32", (1, 4))]))
    model = builder.build()
    sent = send(model, ends)
    found: list[Tensor] = sent.subgraphs[0].tensors
    assert found[0].shape_signature == (-1, 4) and found[1].is_variable
