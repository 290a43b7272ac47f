"""Fixtures for the tests of `litert-npu`: model files, compiled by hand or for the null vendor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from litert_npu_tools import progress_bar
from litert_npu_tools.litert_npu import guarded_main

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.assets import Asset, set_assets
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.dispatch_op import DISPATCH_OP
from litert.model.graph import Appended, Model
from litert.model.manifest import Digest, Manifest, set_manifest
from litert.model.stamp import Stamp, set_stamp
from litert.model.writer import write_model

MakeCompiled = Callable[..., str]
LitertNpu = Callable[..., int]

ASSETS = {"MyOp": b"kernel void MyOp() {}", "MyOp/lib/common.cl": b"#define X 1\n"}
BYTE_CODE = b"byte code of Partition_0"


def compiled_model(
    manufacturer: str = "Null",
    assets: Mapping[str, bytes] = ASSETS,
    sdk_version: str | None = None,
) -> Model:
    """Returns a model with one NPU call, like one that `apply_plugin` has compiled."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4))
    y = b.custom(DISPATCH_OP, [x], [("y", "float32", (1, 4))])
    b.output(b.op("RELU", [y], [("z", "float32", (1, 4))]))
    b.signature("serving_default", {"image": x}, {"mask": b.graph.outputs[0]})
    model = b.build()
    model.byte_code.append(Appended(Blob(BYTE_CODE), [(model.subgraphs[0].ops[0], "Partition_0")]))
    set_stamp(model, Stamp(manufacturer, "NULL1"))
    embedded = [Asset(*_split(name), Blob(data)) for name, data in assets.items()]
    set_assets(model, embedded)
    digests = {asset.name: Digest.of(asset.blob) for asset in embedded}
    modules = (Digest.of(Blob(BYTE_CODE)),)
    flags = {"require_npu": "all"}
    manifest = Manifest(manufacturer, "NULL1", "0.1.0", flags, digests, modules)
    if sdk_version:
        manifest = Manifest(
            manufacturer, "NULL1", "0.1.0", flags, digests, modules, sdk_version=sdk_version
        )
    set_manifest(model, manifest)
    return model


def _split(name: str) -> tuple[str, str]:
    op_name, _, path = name.partition("/")
    return op_name, path


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder that is the working directory, so that paths in reports are short."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def compiled(in_folder: Path) -> str:
    """The path of a compiled file that was built by hand."""
    write_model(compiled_model(), "model.npu.tflite")
    return "model.npu.tflite"


@pytest.fixture
def original(in_folder: Path) -> str:
    """The path of a model for the CPU, which returns half of each element of a picture."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4, 6, 3))
    half = b.constant("half", 0.5, "float32")
    b.output(b.op("MUL", [x, half], [("y", "float32", (1, 4, 6, 3))]))
    b.signature("serving_default", {"image": x}, {"half": b.graph.outputs[0]})
    write_model(b.build(), "original.tflite")
    return "original.tflite"


@pytest.fixture
def copying(in_folder: Path) -> str:
    """The path of a compiled model: the null vendor runs its op Copy, and its output is that of `original`."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 4, 6, 3))
    copied = b.custom("Copy", [x], [("c", "float32", (1, 4, 6, 3))])
    half = b.constant("half", 0.5, "float32")
    b.output(b.op("MUL", [copied, half], [("y", "float32", (1, 4, 6, 3))]))
    b.signature("serving_default", {"image": x}, {"half": b.graph.outputs[0]})
    write_model(b.build(), "raw.tflite")
    (in_folder / "copy.txt").write_text("kernel")
    infos = (CustomOpInfo("Copy", "copy.txt"),)
    options = ApplyOptions("Null", compiler=CompilerOptions(custom_op_infos=infos))
    apply_plugin("raw.tflite", "copying.tflite", options)
    return "copying.tflite"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes commands show each step of their progress at once."""
    monkeypatch.setattr(progress_bar, "_LOG_INTERVAL_S", 1e-9)
    monkeypatch.setattr(progress_bar, "_PATIENCE_S", 0.0)


@pytest.fixture
def litert_npu() -> LitertNpu:
    """A function that runs a command line in this process and returns the exit status."""

    def call(*arguments: object) -> int:
        status: int = guarded_main(["litert-npu", *map(str, arguments)])
        return status

    return call
