"""Tests stock LiteRT's Python compile flow with this project's compiler, and with stock LiteRT's own compiler."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.aot import aot_compile
from ai_edge_litert.aot.core import aot_types

import litert.aot
from litert import CompiledModel, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.stamp import read_stamp
from litert.model.writer import to_bytes, write_model
from tests.stock_litert import run_in_stock

X = np.array([[1, 2, 3, 4]], np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with an ADD and a custom op that Null supports, and a second subgraph with only the custom op."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    doubled = builder.op("ADD", [x, x], [("doubled", "float32", (1, 4))])
    builder.output(builder.custom("Copy", [doubled], [("y", "float32", (1, 4))]))
    builder.signature("serving_default")
    other = builder.subgraph("other")
    v = other.input("v", "float32", (1, 4))
    other.output(other.custom("Copy", [v], [("w", "float32", (1, 4))]))
    other.signature("other")
    path = tmp_path / "model.tflite"
    write_model(builder.build(), path)
    return path


@pytest.fixture
def infos(tmp_path: Path) -> list[CustomOpInfo]:
    (tmp_path / "copy.asset").write_bytes(b"of no use to Null")
    return [CustomOpInfo("Copy", str(tmp_path / "copy.asset"))]


def check_runs(compiled: CompiledModel) -> None:
    with compiled:
        outputs = compiled.run({"x": X}, "serving_default")
        np.testing.assert_array_equal(outputs["y"], 2 * X)


NULL = litert.aot.Target("Null", "NULL1")


def test_a_model_is_compiled_with_its_assets(
    model: Path, infos: list[CustomOpInfo], tmp_path: Path
) -> None:
    result = aot_compile.aot_compile(
        str(model), tmp_path / "out", target=NULL, custom_op_infos=infos, keep_going=False
    )
    (compiled,) = result.models
    assert compiled.path.name == "model_Null_NULL1_apply_plugin.tflite"
    with read_model(compiled.path) as found:
        assert str(read_stamp(found)) == "Stamp(soc_manufacturer='Null', soc_model='NULL1')"
    check_runs(CompiledModel.from_file(compiled.path))
    assert compiled.partition_stats == aot_types.PartitionStats(
        [aot_types.SubgraphPartitionStats(i, 1, num, 1) for i, num in enumerate([2, 1])]
    )


def test_a_model_in_memory_gives_one_in_memory(model: Path, infos: list[CustomOpInfo]) -> None:
    source = aot_types.Model.create_from_bytes(model.read_bytes())
    result = aot_compile.aot_compile(source, target=NULL, custom_op_infos=infos, keep_going=False)
    check_runs(CompiledModel.from_buffer(result.models[0].model_bytes))


def test_options_may_be_a_configuration_s(
    model: Path, infos: list[CustomOpInfo], tmp_path: Path
) -> None:
    config = aot_types.CompilationConfig(NULL, custom_op_infos=infos)
    result = aot_compile.aot_compile(str(model), tmp_path / "out", config=[config])
    check_runs(CompiledModel.from_file(result.models[0].path))


def test_subgraphs_are_chosen_as_in_stock(
    model: Path, infos: list[CustomOpInfo], tmp_path: Path
) -> None:
    result = aot_compile.aot_compile(
        str(model),
        tmp_path / "out",
        target=NULL,
        custom_op_infos=infos,
        subgraphs_to_compile=[1],
        keep_going=False,
    )
    stats = result.models[0].partition_stats
    assert [s.num_partitions_offloaded for s in stats.subgraph_stats] == [0, 1]


def test_a_target_without_a_soc_model_is_each_of_the_vendor_s() -> None:
    config = litert.aot.Target("Reference").flatten()
    backends = list(litert.aot.LiteRtNpuBackend.create(config).specialize())
    assert [backend.target_id for backend in backends] == [
        f"Reference_{soc_model}" for soc_model in ("EMU8", "EMU4", "EMU16")
    ]


def test_a_target_without_a_vendor_is_each_that_is_installed() -> None:
    config = {"backend_id": litert.aot.BACKEND_ID}  # as in stock's flow for all backends
    backends = list(litert.aot.LiteRtNpuBackend.create(config).specialize())
    assert {backend.soc_manufacturer for backend in backends} == {"Null", "Reference"}


BAD: dict[str, tuple[litert.aot.Target, dict[str, Any], str]] = {
    "unknown vendor": (
        litert.aot.Target("Nobody", "N1"),
        {},
        "there is no usable compiler plugin for vendor 'Nobody'",
    ),
    "unknown SoC model": (litert.aot.Target("Null", "N9"), {}, "no SoC model 'N9'"),
    "a text for a list": (NULL, {"require_npu": "all"}, "require_npu is the text 'all'"),
    "misspelled option": (
        NULL,
        {"custom_op_info": []},
        "unknown option 'custom_op_info'.*require_npu",
    ),
    "op that stays": (
        NULL,
        {"require_npu": ["ADD"]},
        "--require_npu requires the NPU for op ADD, but the op stays on the CPU",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_goes_wrong_is_told_as_stock_tells_it(model: Path, tmp_path: Path, kind: str) -> None:
    target, options, message = BAD[kind]

    def compile_for_target(keep_going: bool) -> Any:
        folder = tmp_path / "out"
        return aot_compile.aot_compile(
            str(model), folder, target=target, keep_going=keep_going, **options
        )

    with pytest.raises(ValueError, match=message):
        compile_for_target(keep_going=False)
    result = compile_for_target(keep_going=True)
    assert not result.models
    assert result.failed_backends[0][0].target == target
    assert not list((tmp_path / "out").iterdir())


def test_other_backends_options_are_left_to_them(
    model: Path, infos: list[CustomOpInfo], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        result = aot_compile.aot_compile(
            str(model),
            tmp_path / "out",
            target=[NULL],
            custom_op_infos=infos,
            intel_openvino_graph_backends="cpu",
        )
    assert len(result.models) == 1 and not result.failed_backends


PROGRAM = """
import sys
from ai_edge_litert.aot import aot_compile
from ai_edge_litert.aot.vendors.intel_openvino import target
folder, path, root = sys.argv[1:]
import litert
assert litert.__file__.startswith(root), litert.__file__
aot_compile.aot_compile(
    path,
    folder,
    target=target.Target(target.SocModel.PTL),
    intel_openvino_graph_backends="cpu",
    keep_going=False,
)
"""


@pytest.fixture
def compile_for_intel(intel: Path, tmp_path: Path) -> Callable[[bytes], Path]:
    """Function that compiles a model for Intel with stock LiteRT's flow, in a separate process."""

    def compile_model(data: bytes) -> Path:
        (tmp_path / "intel.tflite").write_bytes(data)
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "out")]
        root = str(Path(litert.__file__).parent)
        done = subprocess.run(
            [*command, str(tmp_path / "intel.tflite"), root], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return tmp_path / "out" / "intel_IntelOpenVINO_PTL_apply_plugin.tflite"

    return compile_model


def add() -> bytes:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    builder.output(builder.op("ADD", [x, x], [("y", "float32", (1, 4))]))
    builder.signature("serving_default", {"x": x})
    return to_bytes(builder.build())


def test_what_stock_s_flow_has_compiled_runs_here(
    compile_for_intel: Callable[[bytes], Path],
) -> None:
    """Checks this although stock LiteRT's flow finds this project's package `litert` before its own files."""
    path = compile_for_intel(add())
    with read_model(path) as model:
        assert [op.name for op in model.ops()] == ["DISPATCH_OP"]
    with CompiledModel.from_file(path) as compiled:
        np.testing.assert_allclose(compiled.run({"x": X})["y"], 2 * X)


def test_a_native_vendor_compiles_in_this_backend_and_runs_in_stock(
    intel: Path, tmp_path: Path
) -> None:
    (tmp_path / "add.tflite").write_bytes(add())
    target = litert.aot.Target("IntelOpenVINO", "PTL")
    result = aot_compile.aot_compile(
        str(tmp_path / "add.tflite"),
        tmp_path / "out",
        target=target,
        intel_openvino_graph_backends="cpu",
        keep_going=False,
    )
    run = run_in_stock(result.models[0].path, intel / "dispatch", {"x": X})
    assert run.exit_status == 0, run.log
    np.testing.assert_allclose(next(iter(run.outputs.values())), 2 * X)
