"""Tests that one command finds a vendor's error in a network and blames the op that has it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.pipeline import apply_plugin
from litert.core.compiler_options import CompilerOptions
from tests.analysis.conftest import Compare
from tests.analysis.planted.flags import ERRORS, PLANTED, TRIPLE, VENDOR
from tests.analysis.planted.network import OPS, write_network
from tests.conformance.numeric_libraries import build_numeric_c

KERNELS = Path(__file__).parents[2] / "examples" / "kernels"
INSIDE = ("auto", "cuts", "taps")


@pytest.mark.parametrize("inside", INSIDE)
def test_nothing_is_found_where_nothing_was_planted(
    compare: Compare, network: Path, inside: str
) -> None:
    report = compare(network, *VENDOR, TRIPLE, f"--inside={inside}")
    assert report["blamed"] is None and not report["not_compared"]
    assert {tensor["name"] for tensor in report["tensors"]} == set(OPS)


@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("error", ERRORS)
def test_a_planted_error_is_found_at_its_op(
    compare: Compare, network: Path, monkeypatch: pytest.MonkeyPatch, error: str, inside: str
) -> None:
    tensor = ERRORS[error]
    monkeypatch.setenv("PLANTED_ERROR", f"{error}@{tensor}")
    blamed = compare(network, *VENDOR, TRIPLE, f"--inside={inside}")["blamed"]
    assert (blamed["tensor"], blamed["op"]["index"]) == (tensor, OPS.index(tensor)), blamed
    assert ("differ from run to run" in blamed["why"]) is (error == "race")


def test_only_taps_show_a_fusion_that_goes_wrong(compare: Compare, network: Path) -> None:
    """Cuts prevent the fusion, so with cuts only the end of the call is wrong."""
    wrong = [network, *VENDOR, TRIPLE, f"--extensions={PLANTED / 'fuse'}"]
    blamed = compare(*wrong)["blamed"]
    assert (blamed["tensor"], blamed["op"]["index"]) == ("narrow", OPS.index("narrow"))
    assert compare(*wrong, "--inside=taps")["blamed"] == blamed
    blamed = compare(*wrong, "--inside=cuts")["blamed"]
    assert blamed["tensor"] == "classes" and "only while these tensors stay inside" in blamed["why"]


@pytest.mark.parametrize("taps", [True, False])
def test_stale_byte_code_is_found(
    compare: Compare, network: Path, tmp_path: Path, taps: bool
) -> None:
    """With taps, the op whose weights have changed since the compilation is blamed; without taps, its call."""
    older, compiled = tmp_path / "older.tflite", tmp_path / "compiled.tflite"
    write_network(older, newest="logits")
    options = ApplyOptions(
        "Planted", libs=[str(PLANTED / "vendor")], compiler=CompilerOptions(taps=taps)
    )
    apply_plugin(older, compiled, options)
    blamed = compare(compiled, f"--reference={network}", *VENDOR, TRIPLE)["blamed"]
    assert blamed["tensor"] == ("logits" if taps else "classes")
    assert taps or "the file's byte code is stale" in blamed["why"]


@pytest.mark.parametrize("inside", INSIDE)
def test_a_wrong_transformation_is_found_at_the_op_that_it_replaces(
    compare: Compare, network: Path, inside: str
) -> None:
    wrong = f"--extensions={PLANTED / 'decompose'}"
    blamed = compare(network, *VENDOR, TRIPLE, wrong, f"--inside={inside}")["blamed"]
    assert (blamed["tensor"], blamed["op"]["name"]) == ("tripled", "Triple")


@pytest.mark.parametrize(
    ("fault", "tensor"),
    [("kNothing", ""), ("kBias", "qconv"), ("kPerChannel", "qconv"), ("kZeroPoint", "qconv")],
)
def test_an_error_of_a_vendor_in_c_is_found_at_its_op(
    compare: Compare, tmp_path: Path, fault: str, tensor: str
) -> None:
    libraries, network = build_numeric_c(tmp_path, fault), tmp_path / "network.tflite"
    write_network(network, custom=False)
    report = compare(
        network, f"--libs={libraries}", f"--dispatch_library_path={libraries}",
        "--soc_manufacturer=NumericC",
    )  # fmt: skip
    blamed = report["blamed"] or {"tensor": "", "call": ""}
    assert blamed["tensor"] == tensor and bool(blamed["call"]) is bool(tensor)


def test_a_kernel_that_forgets_its_last_row_is_found_in_a_real_network(
    compare: Compare, networks: Path, tmp_path: Path
) -> None:
    op = "Convolution2DTransposeBias"
    for path in KERNELS.glob(f"{op}.*"):
        shutil.copy(path, tmp_path)
    kernel, row = tmp_path / f"{op}.cl", "const size_t y = get_global_id(0) % OUT_H;"
    text = kernel.read_text()
    assert text.count(row) == 1
    kernel.write_text(text.replace(row, f"{row} if (y == OUT_H - 1) return;"))
    model = networks / "selfie_segmentation.tflite"
    blamed = compare(model, f"--npu_custom_op_info={op},{tmp_path / op}.json")["blamed"]
    assert (blamed["op"]["index"], blamed["op"]["name"], blamed["tensor"]) == (244, op, "segment")


def test_a_padding_off_by_one_is_found_in_a_real_network(
    compare: Compare, networks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_ERROR", "padding@depthwise_conv2d_5")
    blamed = compare(networks / "face_detection_short_range.tflite", *VENDOR)["blamed"]
    assert (blamed["op"]["index"], blamed["op"]["name"]) == (51, "DEPTHWISE_CONV_2D")
