"""Tests `litert-npu compare --bisect`, which writes the smallest wrong part as a model that shows the fault."""

from __future__ import annotations

import errno
import shlex
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.pipeline import apply_plugin
from compiler_plugin.transform_options import TransformOptions
from compiler_plugin.transforming import transform_file
from litert.analysis.part_file import find_ends, write_part
from litert.analysis.reference_run import ReferenceOptions, ReferenceRun
from litert.analysis.source_graph import SourceGraph
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.reader import read_model
from tests.analysis.conftest import Compare
from tests.analysis.planted.flags import ERRORS, PLANTED, TRIPLE, VENDOR
from tests.analysis.planted.network import OPS, write_network

FUSION = f"--extensions={PLANTED / 'fuse'}"


def again(compare: Compare, report: dict[str, Any]) -> dict[str, Any]:
    """Runs the command that was printed with a part, and returns its report."""
    return compare(*shlex.split(report["part"]["command"])[2:])


def op_names(report: dict[str, Any]) -> list[str]:
    """Returns the names of the results of a part's ops."""
    return [OPS[op["index"]] for op in report["part"]["ops"]]


@pytest.mark.parametrize("error", ERRORS)
def test_the_part_of_a_planted_error_is_its_op_and_shows_it_until_it_is_mended(
    compare: Compare, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    tensor = ERRORS[error]
    monkeypatch.setenv("PLANTED_ERROR", f"{error}@{tensor}")
    report = compare(network, *VENDOR, TRIPLE, f"--bisect={tmp_path / 'part'}")
    part = report["part"]
    assert op_names(report) == [tensor] and part["is_smallest"]
    assert report["blamed"]["op"] == part["blamed"] == part["ops"][0]
    blamed = again(compare, report)["blamed"]
    assert (blamed["tensor"], blamed["op"]["index"]) == (tensor, 0)
    monkeypatch.delenv("PLANTED_ERROR")
    assert again(compare, report)["blamed"] is None


@pytest.mark.parametrize("inside", ["auto", "cuts", "taps"])
def test_the_part_of_a_fusion_is_the_ops_that_are_fused(
    compare: Compare, network: Path, tmp_path: Path, inside: str
) -> None:
    """Cuts blame only the end of the call, but the search finds the ops before it."""
    report = compare(
        network, *VENDOR, TRIPLE, FUSION, f"--inside={inside}", f"--bisect={tmp_path / 'part'}"
    )
    assert op_names(report) == ["energy", "narrow"] and report["part"]["is_smallest"]
    assert again(compare, report)["blamed"]["tensor"] == "narrow"


def test_the_part_has_what_its_op_needs_and_nothing_else(
    compare: Compare, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_ERROR", "scale@qconv")
    part = compare(network, *VENDOR, TRIPLE, f"--bisect={tmp_path}")["part"]
    with read_model(network) as whole, read_model(part["path"]) as model:
        (subgraph,), (op,) = model.subgraphs, model.subgraphs[0].ops
        names = ["quantized", "qconv/weights", "qconv/bias", "qconv"]
        assert [tensor.name for tensor in subgraph.tensors] == names
        assert (
            len(model.buffers) == 3 and len(model.operator_codes) == 1
        )  # the schema requires one empty buffer
        original = whole.subgraphs[0].ops[OPS.index("qconv")]
        for ours, theirs in zip(
            (*op.inputs, *op.outputs), (*original.inputs, *original.outputs), strict=True
        ):
            assert ours is not None and theirs is not None
            assert ours.type == theirs.type and ours.quantization == theirs.quantization
            assert bytes(ours.data) == bytes(theirs.data)
    inputs, expected = np.load(part["inputs"]), np.load(part["expected"])
    assert inputs.files == ["quantized"] and expected.files == ["qconv"]
    assert inputs["quantized"].dtype == expected["qconv"].dtype == np.int8


def test_a_stale_file_has_no_wrong_part(compare: Compare, network: Path, tmp_path: Path) -> None:
    older, compiled = tmp_path / "older.tflite", tmp_path / "compiled.tflite"
    write_network(older, newest="logits")
    options = ApplyOptions(
        "Planted", libs=[str(PLANTED / "vendor")], compiler=CompilerOptions(taps=True)
    )
    apply_plugin(older, compiled, options)
    reference = f"--reference={network}"
    report = compare(compiled, reference, *VENDOR, TRIPLE, f"--bisect={tmp_path / 'part'}")
    assert report["blamed"] and report["part"] is None
    assert "gives right results after it is compiled again" in report["notes"][-1]
    assert not (tmp_path / "part").exists()


def test_a_compiled_file_s_part_is_compiled_as_it_was(
    compare: Compare, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_ERROR", "padding@conv")
    apply_plugin(
        network, tmp_path / "c.tflite", ApplyOptions("Planted", libs=[str(PLANTED / "vendor")])
    )
    report = compare(
        tmp_path / "c.tflite", f"--reference={network}", *VENDOR[:2], TRIPLE, f"--bisect={tmp_path}"
    )
    assert op_names(report) == ["conv"] and again(compare, report)["blamed"]["tensor"] == "conv"


def test_nothing_is_written_where_nothing_is_wrong(
    compare: Compare, network: Path, tmp_path: Path
) -> None:
    report = compare(network, *VENDOR, TRIPLE, f"--bisect={tmp_path / 'part'}")
    assert report["part"] is None and not (tmp_path / "part").exists()
    assert (
        report["notes"][-1]
        == "--bisect wrote no files: the errors of all tensors are within their limits"
    )


def test_a_wrong_transformation_s_part_is_the_op_that_it_replaces(
    compare: Compare, network: Path, tmp_path: Path
) -> None:
    """The transformation runs in the comparison, or has already written the compared file."""
    wrong = f"--extensions={PLANTED / 'decompose'}"
    report = compare(network, *VENDOR, TRIPLE, wrong, f"--bisect={tmp_path / 'compiled'}")
    assert op_names(report) == ["tripled"] and report["part"]["transformed"] == ""
    assert again(compare, report)["blamed"]["tensor"] == "tripled"
    options = TransformOptions(extensions=[str(PLANTED / "decompose")])
    transform_file(network, tmp_path / "transformed.tflite", options)
    report = compare(
        tmp_path / "transformed.tflite",
        f"--reference={network}",
        TRIPLE,
        f"--bisect={tmp_path / 'made'}",
    )
    assert op_names(report) == ["tripled"]
    with read_model(report["part"]["transformed"]) as model:
        assert [op.name for op in model.ops()] == ["ADD"]
    assert again(compare, report)["blamed"]["tensor"] == "tripled"


@pytest.mark.parametrize(
    ("name", "error", "tensor"),
    [
        ("face_detection_short_range", "padding", "depthwise_conv2d_5"),
        ("face_landmark_with_attention", "last row", "depthwise_conv2d_18"),
    ],
)
def test_the_part_of_a_real_network_is_an_op_with_its_weights(
    compare: Compare,
    networks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    error: str,
    tensor: str,
) -> None:
    """The op of the second network comes after ops that nothing runs."""
    monkeypatch.setenv("PLANTED_ERROR", f"{error}@{tensor}")
    report = compare(networks / f"{name}.tflite", *VENDOR, f"--bisect={tmp_path}")
    ops = [op["name"] for op in report["part"]["ops"]]
    assert ops == ["DEQUANTIZE", "DEQUANTIZE", "DEPTHWISE_CONV_2D"]
    assert Path(report["part"]["path"]).stat().st_size < 20_000
    assert again(compare, report)["blamed"]["tensor"] == tensor
    monkeypatch.delenv("PLANTED_ERROR")
    assert again(compare, report)["blamed"] is None


def test_a_file_that_is_there_is_not_replaced(
    compare: Compare, network: Path, tmp_path: Path
) -> None:
    (tmp_path / "inputs.npz").write_text("mine")
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(LiteRtError) as error:
        compare(network, *VENDOR, TRIPLE, f"--bisect={tmp_path}")
    assert error.value.status is Status.ALREADY_EXISTS and "--bisect" in error.value.hint
    assert (tmp_path / "inputs.npz").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    (tmp_path / "file").write_text("")
    for place in ("file", "file/part"):
        with pytest.raises(LiteRtError):
            compare(network, *VENDOR, TRIPLE, f"--bisect={tmp_path / place}")


def test_a_write_that_fails_leaves_no_file(
    compare: Compare, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("PLANTED_ERROR", "kernel@bent")
    monkeypatch.setattr("litert_npu_tools.wrong_part_files.write_npz", full)
    (tmp_path / "part").mkdir()
    with pytest.raises(LiteRtError, match="no space left"):
        compare(network, *VENDOR, TRIPLE, f"--bisect={tmp_path / 'part'}")
    assert not list((tmp_path / "part").iterdir())


def test_ctrl_c_in_the_search_leaves_nothing(
    compare: Compare, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("PLANTED_ERROR", "kernel@bent")
    monkeypatch.setattr("litert.analysis.wrong_part.compare_model", interrupt)
    with pytest.raises(KeyboardInterrupt, match="'bisect'"):
        compare(network, *VENDOR, TRIPLE, f"--bisect={tmp_path / 'part'}")
    assert not (tmp_path / "part").exists() and not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("network", ["hand_recrop", "face_landmark", "selfie_segmentation"])
def test_a_part_computes_what_the_network_does(
    networks: Path, tmp_path: Path, network: str
) -> None:
    """The last ops of the network, as a model of their own, give its outputs for the same values."""
    source = SourceGraph(str(networks / f"{network}.tflite"))
    random, options = np.random.default_rng(0), ReferenceOptions()
    given = {
        place: random.uniform(0, 1, source.tensor(place).shape).astype(np.float32)
        for place in source.inputs.values()
    }
    varying = [
        op for op in range(len(source.subgraph.ops)) if makes(source, op) & set(source.results)
    ]
    ops = {*varying[len(varying) // 2 :]}
    ops |= {
        p for op in ops for place in makes(source, op) for p in source.region(place, source.results)
    } - {*varying}
    ends = find_ends(source, ops)
    write_part(source, ops, ends, str(tmp_path / "part.tflite"))
    part = SourceGraph(str(tmp_path / "part.tflite"))
    wanted = [*ends.inputs.values(), *ends.outputs.values()]
    values = ReferenceRun(
        source, (), [p for p in wanted if p not in given], options, str(tmp_path)
    ).run(given, {})
    values |= given
    inputs = {part.inputs[name]: values[place] for name, place in ends.inputs.items()}
    found = ReferenceRun(part, (), list(part.outputs.values()), options, str(tmp_path)).run(
        inputs, {}
    )
    assert len(part.subgraph.ops) == len(ops) < len(source.subgraph.ops)
    for name, place in part.outputs.items():
        assert np.array_equal(found[place], values[ends.outputs[name]])


def makes(source: SourceGraph, op: int) -> set[int]:
    """Returns the places of an op's results."""
    return {source.places[tensor] for tensor in source.subgraph.ops[op].outputs}
