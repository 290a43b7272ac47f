"""`litert-npu compare --bisect`: the smallest part that is wrong, as a model that shows the fault again."""

from __future__ import annotations

import errno
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.pipeline import apply_plugin
from compiler_plugin.transform_options import TransformOptions
from compiler_plugin.transforming import transform_file
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.reader import read_model
from tests.analysis.conftest import Compare
from tests.analysis.planted.flags import ERRORS, PLANTED, TRIPLE, VENDOR
from tests.analysis.planted.network import OPS, write_network

FUSION = f"--extensions={PLANTED / 'fuse'}"


def again(compare: Compare, report: dict[str, Any]) -> dict[str, Any]:
    """The report of the command that a part came with."""
    return compare(*shlex.split(report["part"]["command"])[2:])


def op_names(report: dict[str, Any]) -> list[str]:
    """What the ops of a part compute."""
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
    """Cuts blame the end of the call alone: the search finds the ops before it."""
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
        )  # one is the schema's empty one
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
    assert "compiled anew is right" in report["notes"][-1]
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
    assert report["notes"][-1] == "--bisect has written nothing: no tensor is beyond its limit"


def test_a_wrong_transformation_s_part_is_the_op_that_it_replaces(
    compare: Compare, network: Path, tmp_path: Path
) -> None:
    """Compiled with the transformation, and as a file that it has made."""
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


def test_a_padding_off_by_one_in_a_real_network_has_a_part_with_its_op_and_weights(
    compare: Compare, networks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_ERROR", "padding@depthwise_conv2d_5")
    path = networks / "face_detection_short_range.tflite"
    report = compare(path, *VENDOR, f"--bisect={tmp_path}")
    assert [op["name"] for op in report["part"]["ops"]] == [
        "DEQUANTIZE", "DEQUANTIZE", "DEPTHWISE_CONV_2D",
    ]  # fmt: skip
    assert Path(report["part"]["path"]).stat().st_size < 20_000
    assert again(compare, report)["blamed"]["tensor"] == "depthwise_conv2d_5"
    monkeypatch.delenv("PLANTED_ERROR")
    assert again(compare, report)["blamed"] is None


def test_a_file_that_is_there_is_not_replaced(
    compare: Compare, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
