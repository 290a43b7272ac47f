"""Tests that a vendor gets weights shared by several tensors as one buffer, and can write them once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from compiler_plugin.commands import compile_model
from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.transformations import TransformOptions
from litert.core.compiler_options import CompilerOptions
from litert.host.extensions import load_file
from litert.model.builder import ModelBuilder, SubgraphBuilder
from litert.model.graph import Buffer
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.compiler_plugin.native.exported import Exported

ONCE = Path(__file__).parent / "once"
WEIGHTS = np.arange(8 * 15 * 15 * 16, dtype=np.float32).reshape(8, 15, 15, 16)
BIAS = np.zeros(8, np.float32)
LOADER = """
from litert.host.extensions import load_file

def load(path):
    return load_file(path, "PLUGIN")
"""
ISOLATED = """
from compiler_plugin.isolation.hosting import Hosting, PluginProcess
from compiler_plugin.isolation.isolated_plugin import IsolatedPluginFactory

class OwnLoader(Hosting):
    def take(self, path, loader):
        return PluginProcess(path, 60, "once_loader:load")

PLUGIN = IsolatedPluginFactory({path!r}, OwnLoader())
"""

Options = Callable[..., ApplyOptions]


@pytest.fixture(params=["here", "there"])
def once(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    """Options for the Once vendor, in this process or in its own process."""
    libs = ONCE
    if request.param == "there":
        libs = tmp_path / "libs"
        libs.mkdir()
        (tmp_path / "once_loader.py").write_text(LOADER)
        monkeypatch.syspath_prepend(str(tmp_path))
        text = ISOLATED.format(path=str(ONCE / "LiteRtCompilerPluginOnce.py"))
        (libs / "LiteRtCompilerPluginIsolated.py").write_text(text)

    def make(transform: TransformOptions | None = None, **flags: str) -> ApplyOptions:
        compiler = CompilerOptions(vendor_options=flags)
        return ApplyOptions("Once", libs=[str(libs)], compiler=compiler, transform=transform)

    return make


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with two signatures, the first with two convolutions.

    All three convolutions share their weights; one convolution of each signature shares its bias.
    """
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 9, 9, 16))
    weights = builder.constant("w", WEIGHTS)
    bias = builder.constant("b", BIAS)
    y = conv(builder, x, weights.buffer, bias.buffer, "y")
    z = builder.op("CONCATENATION", [y, y], [("z", "float32", (1, 9, 9, 16))], axis=3)
    builder.output(conv(builder, z, weights.buffer, builder.constant("b2", BIAS).buffer, "a"))
    builder.signature("first")
    second = builder.subgraph("second")
    u = second.input("u", "float32", (1, 4, 4, 16))
    second.output(conv(second, u, weights.buffer, bias.buffer, "v"))
    second.signature("second")
    path = tmp_path / "model.tflite"
    write_model(builder.build(), path)
    return path


def conv(builder: SubgraphBuilder, x: Any, weights: Buffer, bias: Buffer, name: str) -> Any:
    inputs = [
        x,
        builder.constant(f"{name}/w", weights, "float32", WEIGHTS.shape),
        builder.constant(f"{name}/b", bias, "float32", BIAS.shape),
    ]
    shape = (*x.shape[:3], 8)
    return builder.op("CONV_2D", inputs, [(name, "float32", shape)], stride_w=1, stride_h=1)


def read_once(module: memoryview | bytes) -> tuple[list[Sequence[int]], bytes]:
    """Returns the buffer numbers of each partition that has constants, and the buffers' data."""
    line, _, data = bytes(module).partition(b"\n")
    numbers: Mapping[str, Sequence[int]] = json.loads(line)
    return [found for found in numbers.values() if found], data


def compiled(path: Path) -> tuple[list[Sequence[int]], bytes]:
    """Reads the only module of a compiled file with `read_once`."""
    with read_model(path) as model:
        (module,) = model.byte_code
        return read_once(module.blob.view)


ALL = [[0, 1], [0, 2], [0, 1]]


def test_partitions_of_two_signatures_have_one_buffer(
    model: Path, once: Options, tmp_path: Path
) -> None:
    apply_plugin(model, tmp_path / "out.tflite", once())
    assert compiled(tmp_path / "out.tflite") == (ALL, WEIGHTS.tobytes() + 2 * BIAS.tobytes())


def test_whole_subgraphs_have_one_buffer(model: Path, once: Options, tmp_path: Path) -> None:
    compile_model(model, tmp_path / "out.bin", once())
    found, data = read_once((tmp_path / "out.bin").read_bytes())
    assert found == [[0, 1, 0, 2], [0, 1]] and len(data) == WEIGHTS.nbytes + 2 * BIAS.nbytes


def test_weights_in_another_layout_are_one_buffer(
    model: Path, once: Options, tmp_path: Path
) -> None:
    apply_plugin(model, tmp_path / "out.tflite", once(once_layout="NCHW"))
    moved = WEIGHTS.transpose(0, 3, 1, 2)
    assert compiled(tmp_path / "out.tflite") == (ALL, moved.tobytes() + 2 * BIAS.tobytes())


HALVE = """
    from compiler_plugin.transformations import Transformation

    class Halve(Transformation):
        graph_condition = [lambda graph: graph.layout == "NCHW"]

        def find_and_replace_pattern(self, graph):
            for conv in graph.get_op_nodes(op="CONV_2D"):
                half = graph.create_const(conv.in_port(1).data.get_value() / 2)
                conv.in_port(1).get_connection().set_source(half.out_port(0))
"""


def test_weights_that_a_transformation_makes_in_partitions_are_one_buffer(
    model: Path, once: Options, tmp_path: Path
) -> None:
    folder = tmp_path / "mine" / "back"
    folder.mkdir(parents=True)
    (folder / "halve.py").write_text(dedent(HALVE))
    options = once(TransformOptions([str(folder.parent)]), once_layout="NCHW")
    apply_plugin(model, tmp_path / "out.tflite", options)
    halved = WEIGHTS.transpose(0, 3, 1, 2) / 2
    found, data = compiled(tmp_path / "out.tflite")
    assert data.count(halved.tobytes()) == 1
    assert len({weights for weights, _ in found}) == 1


def test_partitions_that_are_taken_one_by_one_are_compiled_together(
    model: Path, once: Options, tmp_path: Path
) -> None:
    report = apply_plugin(model, tmp_path / "out.tflite", once(once_refuse="CONCATENATION"))
    assert [op.name for op in report.cpu_ops] == ["CONCATENATION"]
    assert compiled(tmp_path / "out.tflite") == (ALL, WEIGHTS.tobytes() + 2 * BIAS.tobytes())


def test_partitions_that_cannot_be_compiled_together_stay_as_they_are(
    model: Path, once: Options, tmp_path: Path
) -> None:
    options = once(once_refuse="CONCATENATION", once_most="1")
    report = apply_plugin(model, tmp_path / "out.tflite", options)
    assert [op.name for op in report.cpu_ops] == ["CONCATENATION"]
    (warning,) = report.warnings
    assert "weights that several partitions share" in warning and "no memory for so many" in warning
    with read_model(tmp_path / "out.tflite") as out:
        assert len(out.byte_code) == 3


def test_partitions_that_share_little_are_compiled_once(once: Options, tmp_path: Path) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (4,))
    c = builder.constant("c", np.ones(4, np.float32))
    a = builder.op("ADD", [x, c], [("a", "float32", (4,))])
    b = builder.op("NEG", [a], [("b", "float32", (4,))])
    builder.output(builder.op("ADD", [b, c], [("d", "float32", (4,))]))
    write_model(builder.build(), tmp_path / "small.tflite")
    apply_plugin(tmp_path / "small.tflite", tmp_path / "out.tflite", once(once_refuse="NEG"))
    with read_model(tmp_path / "out.tflite") as out:
        assert [read_once(module.blob.view)[0] for module in out.byte_code] == [[[0]], [[0]]]


def test_stock_s_partitions_have_one_buffer(model: Path) -> None:
    """Uses an exported plugin; stock passes it a model of partitions, here two whole signatures."""
    factory = load_file(str(ONCE / "LiteRtCompilerPluginOnce.py"), "PLUGIN")
    with Exported(factory) as plugin:
        status, result = plugin.compile(model)
        assert status == 0
        (module,) = plugin.modules(result)
        plugin.call("DestroyCompiledResult", result)
    found, data = read_once(module.byte_code)
    assert found == [[0, 1, 0, 2], [0, 1]] and len(data) == WEIGHTS.nbytes + 2 * BIAS.nbytes
