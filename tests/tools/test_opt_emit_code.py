"""Tests `litert-npu opt --emit` with the document's binary layer and code from `litert-npu layer build`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.tools.conftest import LitertNpu
from tests.vendor_reference.document_texts import MENDED
from tests.vendor_reference.ir_networks import run_file

SOURCE = """\
__kernel void Mix(__global const half* x, __global const half* w, __global half* y) {
  // The document's N, C, H, W are the kernel's B, Y, X, F.
  const size_t c = get_global_id(0), row = get_global_id(1), out = get_global_id(2);
  float sum = 0;
  for (int i = 0; i < INPUT0_DIMS[2]; ++i)
    sum += vload_half(i * INPUT0_PITCHES[2] + row * INPUT0_PITCHES[3] + c * INPUT0_PITCHES[1], x)
         * vload_half(out * INPUT1_PITCHES[0] + i * INPUT1_PITCHES[2] + INPUT1_PITCHES[3] + INPUT1_PITCHES[1], w);
  vstore_half(sum, out * OUTPUT0_PITCHES[2] + row * OUTPUT0_PITCHES[3] + c * OUTPUT0_PITCHES[1], y);
}
"""
DESCRIPTION = '{"version": 1, "sources": ["Mix.cl"], "work_sizes": {"global": ["F", "X", "Y"]}}'
X = np.random.default_rng(0).normal(size=(1, 16, 100, 100)).astype(np.float16)
W = np.random.default_rng(1).normal(size=(32, 16, 3, 3)).astype(np.float16)
Y = np.einsum("nchw,oc->nohw", X.astype(np.float32), W[:, :, 1, 1].astype(np.float32))


@pytest.fixture
def code(in_folder: Path, litert_npu: LitertNpu) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The machine code of a layer, which is also in `Mix.bin` and in `code.npz`."""
    Path("Mix.cl").write_text(SOURCE)
    Path("Mix.json").write_text(DESCRIPTION)
    shapes = ("--inputs=1x16x100x100xf16,32x16x3x3xf16", "--outputs=1x32x100x100xf16")
    assert litert_npu("layer", "build", "Mix.json", *shapes, "-o", "Mix.bin") == 0
    built = np.fromfile("Mix.bin", np.uint8)
    np.savez("code.npz", bin_code=built)
    return built


@pytest.mark.parametrize("stage", ["BINARY_LAYER", "BINARY_LAYER_ON_BUFFERS"])
def test_the_documents_binary_layer_runs(
    litert_npu: LitertNpu, code: np.ndarray, stage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MENDED[stage].replace("10240", str(code.size))
    Path("net.mlir").write_text(text)
    flags = ["--emit=out.tflite", "--constants=code.npz"]
    assert litert_npu("opt", "net.mlir", *flags) == 0
    assert re.search(r"Mix: [\d,]+ bytes, from net.mlir", capsys.readouterr().out)
    (y,) = run_file(Path("out.tflite"), [X, W])
    np.testing.assert_allclose(y, Y, rtol=5e-3, atol=5e-3)
    assert litert_npu("opt", "net.mlir", *flags, "--npu_custom_op_info=Mine,Mix.bin") == 0
    assert re.search(r"Mine: [\d,]+ bytes, from Mix.bin", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("task", "values", "hint"),
    [
        ("OCL", "dense_resource<bin_code>", "`litert-npu layer build`"),
        ("OCL", "dense<0>", "`litert-npu layer build`"),
        ("CPP", "dense_resource<bin_code>", "func.call"),
    ],
)
def test_code_that_does_not_say_how_it_is_launched_is_an_error(
    in_folder: Path,
    litert_npu: LitertNpu,
    capsys: pytest.CaptureFixture[str],
    task: str,
    values: str,
    hint: str,
) -> None:
    np.savez("code.npz", bin_code=np.zeros(10240, np.uint8))
    text = MENDED["BINARY_LAYER"].replace("VPUIP.OCL", f"VPUIP.{task}")
    Path("net.mlir").write_text(text.replace("dense_resource<bin_code>", values))
    assert litert_npu("opt", "net.mlir", "--emit=out.tflite", "--constants=code.npz") != 0
    message = capsys.readouterr().err
    assert (
        f"this code of kind {task} has no description of how to launch it (net.mlir:6:1)" in message
    )
    assert hint in message and not Path("out.tflite").exists()


HALVES = """\
func.func private @Twice(tensor<2x3xf16>) -> tensor<2x3xf16> attributes {
  VPUIP.source = "__kernel void Twice(__global const half* x, __global half* y) { const size_t i = get_global_id(0); vstore_half(2 * vload_half(i, x), i, y); }"
}
func.func @main(%x: tensor<2x3xf16>) -> tensor<2x3xf16> {
  %y = func.call @Twice(%x) : (tensor<2x3xf16>) -> tensor<2x3xf16>
  return %y : tensor<2x3xf16>
}
"""  # noqa: E501


def test_a_kernel_that_declares_half_gets_halves(in_folder: Path, litert_npu: LitertNpu) -> None:
    """`apply_plugin` treats such a kernel the same way."""
    Path("net.mlir").write_text(HALVES)
    assert litert_npu("opt", "net.mlir", "--emit=out.tflite") == 0
    x = np.arange(6, dtype=np.float16).reshape(2, 3)
    (y,) = run_file(Path("out.tflite"), [x])
    np.testing.assert_array_equal(y, 2 * x)
