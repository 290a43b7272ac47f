"""`litert-npu layer build`, and what becomes of its `.bin`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, HardwareAccelerator, Options
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from tests.tools.conftest import LitertNpu
from tests.tools.layer.conftest import SOFTSIGN
from vendor_reference.executable.binary_layer import unpack_binary_layer

Capture = pytest.CaptureFixture[str]
DESCRIPTION = {
    "version": 1,
    "sources": ["src/Softsign.cl"],
    "defines": [{"name": "PARAM_alpha", "option": "alpha"}],
}


@pytest.fixture
def described(author: Path) -> Path:
    """The layer as a description, with its source and a header in a folder below."""
    (author / "src").mkdir()
    (author / "src" / "Softsign.cl").write_text('#include "inc.h"\n' + SOFTSIGN)
    (author / "src" / "inc.h").write_text("#define UNUSED 1\n")
    (author / "Softsign.json").write_text(json.dumps(DESCRIPTION))
    return author


def _apply(folder: Path, asset: str) -> str:
    options = CompilerOptions([CustomOpInfo("Softsign", str(folder / asset))])
    apply_plugin("model.tflite", "out.npu", ApplyOptions(compiler=options))
    return "out.npu"


def _result(compiled: str, *, allow_native: bool = False) -> None:
    """Runs a compiled model, and compares it with NumPy."""
    options = Options(HardwareAccelerator.NPU | HardwareAccelerator.CPU)
    options.allow_native_assets = allow_native
    x = np.linspace(-3, 3, 8, dtype=np.float32).reshape(2, 4)
    y = x
    for alpha in (0.5, 0.5, 2.0):
        y = alpha * y / (1 + np.abs(y))
    with CompiledModel.from_file(compiled, options=options) as model:
        found = model.run({"x": x})["y"]
    np.testing.assert_allclose(found, np.maximum(y, 0), rtol=1e-6)


@pytest.mark.parametrize("asset", ["Softsign.cl", "Softsign.json"])
def test_a_binary_layer_stands_for_what_it_was_made_of(
    described: Path, litert_npu: LitertNpu, capsys: Capture, asset: str
) -> None:
    assert litert_npu("layer", "build", asset, "--model=model.tflite", "-o", "s.bin") == 0
    printed = capsys.readouterr().out
    assert "s.bin: 2 programs" in printed and f"files: {asset}" in printed
    layer = unpack_binary_layer((described / "s.bin").read_bytes(), "s.bin")
    assert len({code.program for code in layer.codes}) == 2
    for name in ("Softsign.cl", "Softsign.json", "src"):
        (described / name).rename(described / f"moved-{name}")
    _result(_apply(described, "s.bin"))


def test_a_source_that_is_left_out_is_not_in_the_file(
    described: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    arguments = ("Softsign.json", "--model=model.tflite", "-o", "s.bin", "--nosource")
    assert litert_npu("layer", "build", *arguments) == 0
    assert "src/Softsign.cl (left out), src/inc.h (left out)" in capsys.readouterr().out
    assert b"fabs(x[i])" not in (described / "s.bin").read_bytes()
    compiled = _apply(described, "s.bin")
    assert litert_npu("check", compiled) == 0
    assert "--allow_native_assets" in capsys.readouterr().out
    with pytest.raises(LiteRtError, match=r"source is left out.*allow_native_assets"):
        _result(compiled)
    _result(compiled, allow_native=True)


def test_an_op_that_a_layer_without_source_was_not_built_for_says_so(
    described: Path, litert_npu: LitertNpu
) -> None:
    arguments = ("Softsign.json", "--model=model.tflite", "--op=2", "-o", "s.bin", "--nosource")
    assert litert_npu("layer", "build", *arguments) == 0
    with pytest.raises(LiteRtError, match="no code, and its source is left out"):
        _apply(described, "s.bin")


@pytest.mark.usefixtures("described")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("Softsign.json", "-o", "s.cl"), "-o is 's.cl'"),
        (("Softsign.json",), "-o is ''"),
        (("missing.json", "-o", "s.bin"), "no such file"),
        (("Softsign.cl", "-o", "s.bin", "--nosource"), "cannot be left out"),
        (("Softsign.json", "-o", "no/such/folder/s.bin"), "no such file or directory"),
    ],
)
def test_what_cannot_be_built_says_why(
    litert_npu: LitertNpu, capsys: Capture, arguments: tuple[str, ...], says: str
) -> None:
    assert litert_npu("layer", "build", "--model=model.tflite", *arguments) != 0
    assert says in capsys.readouterr().err
    assert not Path("s.bin").exists()


def test_a_binary_layer_is_not_built_again(
    described: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("layer", "build", "Softsign.json", "--model=model.tflite", "-o", "s.bin") == 0
    assert litert_npu("layer", "build", "s.bin", "--model=model.tflite", "-o", "t.bin") != 0
    assert "holds machine code already" in capsys.readouterr().err
    assert not (described / "t.bin").exists()


def test_a_damaged_binary_layer_is_refused(described: Path, litert_npu: LitertNpu) -> None:
    assert litert_npu("layer", "build", "Softsign.json", "--model=model.tflite", "-o", "s.bin") == 0
    data = bytearray((described / "s.bin").read_bytes())
    data[len(data) // 2] ^= 1
    (described / "s.bin").write_bytes(data)
    with pytest.raises(LiteRtError, match=r"changed since it was made.*s\.bin"):
        _apply(described, "s.bin")
