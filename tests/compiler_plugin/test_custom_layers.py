"""Tests which custom layers become assets of a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compiler_plugin.commands import compile_model, partition_model
from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.assets import read_assets
from litert.model.reader import read_model

VENDORS = str(Path(__file__).parent / "vendors")
Chain = Callable[..., Path]


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    """A folder with the null vendor's layers for A, B and Other."""
    folder = tmp_path / "layers"
    folder.mkdir()
    for name in ("A", "B", "Other"):
        (folder / f"{name}.layer").write_text(f"layer of {name}")
    return folder


def null_options(*folders: Path, **assets: Path) -> ApplyOptions:
    infos = [CustomOpInfo(name, str(path)) for name, path in assets.items()]
    compiler = CompilerOptions(infos, custom_layers=[str(folder) for folder in folders])
    return ApplyOptions("Null", compiler=compiler)


def fake_options(mode: str, *, layers: str = "layers") -> ApplyOptions:
    compiler = CompilerOptions(vendor_options={"fake_mode": mode}, custom_layers=[layers])
    return ApplyOptions("Fake", libs=[VENDORS], compiler=compiler)


def test_layers_whose_ops_the_model_has_become_its_assets(
    chain: Chain, layers: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.bin"
    report = apply_plugin(chain("A", "B", "C"), output, null_options(layers))
    assert [op.name for op in report.npu_ops] == ["A", "B"]
    with read_model(output) as model:
        assets = {asset.name: bytes(asset.blob) for asset in read_assets(model)}
    assert assets == {"A": b"layer of A", "B": b"layer of B"}
    assert [(a.name, a.path) for a in report.assets] == [
        ("A", str(layers / "A.layer")),
        ("B", str(layers / "B.layer")),
    ]
    assert f"  A: 10 bytes, from {layers / 'A.layer'}" in report.to_text()
    assert str(tmp_path).encode() not in output.read_bytes()


def test_an_asset_by_a_flag_goes_before_a_layer(chain: Chain, layers: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    options = null_options(layers, A=tmp_path / "mine.txt")
    report = apply_plugin(chain("A", "B"), tmp_path / "out.bin", options)
    with read_model(tmp_path / "out.bin") as model:
        assets = {asset.name: bytes(asset.blob) for asset in read_assets(model)}
    assert assets == {"A": b"mine", "B": b"layer of B"}
    assert not report.warnings


def test_layers_of_which_none_is_for_the_model_are_told_of(
    chain: Chain, layers: Path, tmp_path: Path
) -> None:
    report = apply_plugin(chain("C"), tmp_path / "out.bin", null_options(layers))
    assert any(
        text.startswith(
            "--custom_layers has no layer for any op of the model; files that do not name"
        )
        for text in report.warnings
    )
    assert not report.assets


def test_layers_that_the_environment_names_are_for_ops_that_have_none_else(
    chain: Chain, layers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, more = tmp_path / "own", tmp_path / "more"
    for folder, name in ((own, "A"), (more, "C")):
        folder.mkdir()
        (folder / f"{name}.layer").write_text(f"{folder.name} of {name}")
    monkeypatch.setenv("LITERT_NPU_CUSTOM_LAYERS", f"{layers}:{more}")
    report = apply_plugin(chain("A", "B", "C"), tmp_path / "out.bin", null_options(own))
    assert [(a.name, a.path) for a in report.assets] == [
        ("A", str(own / "A.layer")),
        ("B", str(layers / "B.layer")),
        ("C", str(more / "C.layer")),
    ]
    report = apply_plugin(chain("D"), tmp_path / "out.bin", null_options())
    assert not report.assets and report.warnings == ["no op went to the NPU"]


def test_an_error_in_a_layer_that_the_environment_names_says_so(
    chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITERT_NPU_CUSTOM_LAYERS", str(tmp_path / "nowhere.xml"))
    with pytest.raises(LiteRtError) as error:
        apply_plugin(chain("A"), tmp_path / "out.bin")
    assert error.value.status is Status.NOT_FOUND
    assert error.value.where == (
        f"{tmp_path}/nowhere.xml; vendor 'Reference', in custom_layers; variable LITERT_NPU_CUSTOM_LAYERS"
    )


def test_a_vendor_without_such_layers_does_not_read_the_environments(
    chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITERT_NPU_CUSTOM_LAYERS", str(tmp_path / "nowhere.xml"))
    apply_plugin(chain("A"), tmp_path / "out.bin", ApplyOptions("Fake", libs=[VENDORS]))


def test_partition_and_compile_find_the_same_layers(
    chain: Chain, layers: Path, tmp_path: Path
) -> None:
    source = chain("A", "C")
    shown = partition_model(source, tmp_path / "parts.tflite", null_options(layers))
    assert [op.name for op in shown.npu_ops] == ["A"]
    compile_model(source, tmp_path / "code.bin", null_options(layers))
    assert (tmp_path / "code.bin").stat().st_size


def test_an_output_may_not_replace_a_layer(chain: Chain, layers: Path) -> None:
    with pytest.raises(LiteRtError, match=r"the output file is also an input file.*A\.layer"):
        apply_plugin(chain("A"), layers / "A.layer", null_options(layers))
    assert (layers / "A.layer").read_text() == "layer of A"


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("layers_raises", "KeyError: 'layers' (vendor 'Fake', in custom_layers, at"),
        (
            "layers_text",
            "the list that custom_layers returns has type str, but must be a list or another sequence "
            "(vendor 'Fake', in custom_layers)",
        ),
        (
            "layers_foreign",
            "the plugin returns a layer for op 'Foreign', but the host requested layers only for A, B "
            "(vendor 'Fake', in custom_layers)",
        ),
        (
            "layers_twice",
            "the plugin returns two layers for op 'A' (vendor 'Fake', in custom_layers)",
        ),
        ("layers_gone", "asset file of op 'A': "),
    ],
)
def test_what_a_vendor_does_wrong_names_the_vendor_and_the_call(
    chain: Chain, tmp_path: Path, mode: str, says: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        apply_plugin(chain("A", "B"), tmp_path / "out.bin", fake_options(mode))
    assert says in str(error.value)
    assert not (tmp_path / "out.bin").exists()


@pytest.mark.parametrize("mode", ["", "layers_absent"])
def test_a_vendor_without_such_layers_says_so(chain: Chain, tmp_path: Path, mode: str) -> None:
    with pytest.raises(LiteRtError) as error:
        apply_plugin(chain("A"), tmp_path / "out.bin", fake_options(mode))
    assert error.value.status is Status.UNSUPPORTED
    assert "the vendor does not support --custom_layers (vendor 'Fake', in custom_layers)" in str(
        error.value
    )
    assert "--npu_custom_op_info=op,path" in error.value.hint
