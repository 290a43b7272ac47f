"""Tests `litert-npu opt --emit`, which compiles IR text of any level to a file that runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.model.manifest import read_manifest
from litert.model.reader import read_model
from tests.tools.conftest import LitertNpu
from tests.vendor_reference.cpu_layers import library
from tests.vendor_reference.document_texts import DESCRIBED, escaped
from tests.vendor_reference.ir_networks import (
    NETWORKS,
    Array,
    Network,
    byte_code,
    convolutions,
    layouts,
    run_file,
)
from vendor_reference.compiler.compiled_text import compile_text
from vendor_reference.compiler.constant_files import open_constants
from vendor_reference.compiler.pass_pipeline import IMPORT, pipeline

STAGES = [IMPORT, *pipeline()]
LEVELS = (IMPORT, "optimize-reorders", "lower-ie-to-iert", "lower-iert-to-vpuip", "plan-memory")


def assets(network: Network) -> list[str]:
    return [
        f"--npu_custom_op_info={info.op_name},{info.asset_path}"
        for info in network.options.custom_op_infos
    ]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_dump_of_each_level_gives_the_bytes_and_outputs_of_a_plain_compile(
    tmp_path: Path, litert_npu: LitertNpu, name: str
) -> None:
    network = NETWORKS[name](tmp_path)
    dumps = network.dump()
    expected, made = network.run(), tmp_path / "made.tflite"
    for stage in LEVELS:
        text = dumps[STAGES.index(stage)]
        assert litert_npu("opt", text, f"--emit={made}", *assets(network)) == 0
        assert byte_code(made) == byte_code(tmp_path / "out.tflite")
        for found, wanted in zip(network.run("made.tflite"), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_real_network_does_so(models: Path, tmp_path: Path, litert_npu: LitertNpu) -> None:
    from tests.vendor_reference.test_replaced_ir import selfie

    network = selfie(models, tmp_path)
    dumps, made = network.dump(), tmp_path / "made.tflite"
    for stage in ("optimize-reorders", "place-parts", "plan-memory"):
        text = dumps[STAGES.index(stage)]
        assert litert_npu("opt", text, f"--emit={made}", *assets(network)) == 0
        assert byte_code(made) == byte_code(tmp_path / "out.tflite")
        np.testing.assert_array_equal(network.run("made.tflite"), network.run())


def test_the_file_is_one_that_other_commands_know(
    tmp_path: Path, litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str]
) -> None:
    network = layouts(tmp_path)
    text, made = network.dump()[-1], tmp_path / "made.tflite"
    assert litert_npu("opt", text, f"--emit={made}", *assets(network)) == 0
    said = capsys.readouterr().out
    assert "in 1 call" in said and "2 Scale" in said and f"Wrote {made}" in said
    assert "func.func" not in said
    assert litert_npu("check", made) == 0
    assert litert_npu("inspect", made) == 0
    assert litert_npu("run", made) == 0
    assert "Scale/scale.cl" in capsys.readouterr().out
    with read_model(made) as model:
        (subgraph,) = model.subgraphs
        (op,) = subgraph.ops
        assert [t.name for t in subgraph.inputs] == ["x"] and op.is_custom
        manifest = read_manifest(model)
    assert manifest is not None and manifest.assets.keys() == {"Scale", "Scale/scale.cl"}


def test_a_layer_that_is_compiled_ahead_is_given_as_its_asset(
    tmp_path: Path, litert_npu: LitertNpu
) -> None:
    """The layer's code is a constant of the text but not of the model, so the dump writes it to constants.bin."""
    network = layouts(tmp_path)
    model, packed, made = tmp_path / "in.tflite", tmp_path / "Scale.bin", tmp_path / "made.tflite"
    built = litert_npu("layer", "build", tmp_path / "scale.xml", f"--model={model}", "-o", packed)
    assert built == 0
    network.options = replace(network.options, custom_op_infos=[CustomOpInfo("Scale", str(packed))])
    dumps = network.dump()
    assert (dumps[0].parent / "constants.bin").stat().st_size >= packed.stat().st_size
    for stage in (IMPORT, "plan-memory"):
        text = dumps[STAGES.index(stage)]
        assert "from %" in text.read_text()
        assert litert_npu("opt", text, f"--emit={made}", *assets(network)) == 0
        assert byte_code(made) == byte_code(tmp_path / "out.tflite")
    np.testing.assert_array_equal(network.run("made.tflite"), network.run())


def test_a_function_on_the_host_is_an_asset_that_needs_consent(
    tmp_path: Path, litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str]
) -> None:
    asset = library(tmp_path)
    text, made = tmp_path / "net.mlir", tmp_path / "made.tflite"
    text.write_text(without_source(SOFTSIGN).replace("Softsign", "Double"))
    command = ["opt", text, f"--emit={made}", f"--npu_custom_op_info=Double,{asset}"]
    assert litert_npu(*command) == 2
    assert "--allow_native_assets" in capsys.readouterr().err and not made.exists()
    assert litert_npu(*command, "--allow_native_assets") == 0
    assert "machine code" in capsys.readouterr().out


def test_an_offset_that_is_edited_takes_effect(tmp_path: Path, litert_npu: LitertNpu) -> None:
    network = layouts(tmp_path)
    text, made = network.dump()[-1], tmp_path / "made.tflite"
    edited = re.sub(r"@CMX\[256\]", "@CMX[65536]", text.read_text())
    text.write_text(edited)
    assert litert_npu("opt", text, f"--emit={made}", *assets(network)) == 0
    assert byte_code(made) != byte_code(tmp_path / "out.tflite")
    assert b'"offset": 65536' in byte_code(made)[0] or b'"offset":65536' in byte_code(made)[0]
    np.testing.assert_array_equal(network.run("made.tflite"), network.run())


SOFTSIGN = """\
func.func private @Softsign(tensor<2x3xf32>) -> tensor<2x3xf32> attributes {
  VPUIP.source = "KERNEL"
}
func.func @main(%input: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %ones = IE.Constant tensor<2x3xf32> = dense<1.0>
  %bias = IE.Constant tensor<3xf32> = dense<[0.5, -2.0, 4.0]>
  %sum = IE.Add(%input, %ones) : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  %biased = IE.Add(%sum, %bias) : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  %output = func.call @Softsign(%biased) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %output : tensor<2x3xf32>
}
"""
KERNEL = """\
__kernel void Softsign(__global const float* x, __global float* y) {
  const int i = get_global_id(0);
  y[i] = x[i] / (1 + fabs(x[i]));
}
"""


SOFTSIGN = SOFTSIGN.replace("KERNEL", escaped(KERNEL))
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 3


def softsign(x: Array) -> Array:
    biased = x + 1 + np.array([0.5, -2, 4], np.float32)
    return np.asarray(biased / (1 + np.abs(biased)))


def emit(litert_npu: LitertNpu, text: str, *flags: str) -> int:
    """Compiles a text to `out.tflite`; returns the exit status."""
    Path("net.mlir").write_text(text)
    return litert_npu("opt", "net.mlir", "--emit=out.tflite", *flags)


def ran(x: Array) -> Array:
    """Returns what `out.tflite` computes from an array."""
    (y,) = run_file(Path("out.tflite"), [x])
    return y


def test_a_text_of_ones_own_is_compiled_with_its_kernel_and_its_constants(
    in_folder: Path, litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str]
) -> None:
    assert emit(litert_npu, SOFTSIGN) == 0
    np.testing.assert_allclose(ran(X), softsign(X), rtol=1e-6)
    assert re.search(r"Softsign: \d+ bytes, from net.mlir", capsys.readouterr().out)


@pytest.mark.parametrize("level", ["lower-ie-to-iert", "lower-iert-to-vpuip", "plan-memory"])
def test_it_keeps_its_kernel_from_level_to_level(
    in_folder: Path, litert_npu: LitertNpu, level: str
) -> None:
    described = SOFTSIGN.replace(
        "attributes {",
        "attributes {\n"
        '  VPUIP.kernel = {title = "Softsign", arguments = [{input = 0 : i64}, {output = 0 : i64}]},',
    )
    passes = ",".join(STAGES[1 : STAGES.index(level) + 1])
    Path("first.mlir").write_text(described)
    assert litert_npu("opt", "first.mlir", f"--passes={passes}", "-o", "lowered.mlir") == 0
    lowered = Path("lowered.mlir").read_text()
    assert "VPUIP.source" in lowered and f'VPUIP.after = "{level}"' in lowered
    assert emit(litert_npu, lowered) == 0
    np.testing.assert_allclose(ran(X), softsign(X), rtol=1e-6)


def without_source(text: str) -> str:
    return re.sub(r" attributes \{\n  VPUIP.source.*\n\}", "", text)


def test_a_kernel_comes_from_an_asset(in_folder: Path, litert_npu: LitertNpu) -> None:
    Path("soft.cl").write_text(KERNEL)
    asset = "--npu_custom_op_info=Softsign,soft.cl"
    assert emit(litert_npu, without_source(SOFTSIGN), asset) == 0
    np.testing.assert_allclose(ran(X), softsign(X), rtol=1e-6)


def test_a_kernel_that_names_no_file_has_those_of_its_asset(
    in_folder: Path, litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("soft.cl").write_text(KERNEL)
    kernel = '{title = "Softsign", arguments = [{input = 0 : i64}, {output = 0 : i64}]}'
    text = re.sub(r"VPUIP.source = .*", f"VPUIP.kernel = {kernel}", SOFTSIGN)
    assert emit(litert_npu, text, "--npu_custom_op_info=Softsign,soft.cl") == 0
    np.testing.assert_allclose(ran(X), softsign(X), rtol=1e-6)
    Path("out.tflite").unlink()
    assert emit(litert_npu, text) != 0
    assert (
        "the IR text needs the kernel in the asset for op 'Softsign', but no flag gives this asset"
        in capsys.readouterr().err
    )


def test_constants_come_from_a_file_by_their_keys(in_folder: Path, litert_npu: LitertNpu) -> None:
    text = SOFTSIGN.replace("dense<[0.5, -2.0, 4.0]>", "dense_resource<bias>")
    np.savez("weights.npz", bias=np.array([0.5, -2, 4], ">f4"), other=np.zeros(2))
    assert emit(litert_npu, text, "--constants=weights.npz") == 0
    np.testing.assert_allclose(ran(X), softsign(X), rtol=1e-6)


def test_the_text_between_passes_is_written_where_it_is_asked_for(
    in_folder: Path, litert_npu: LitertNpu
) -> None:
    flags = ["--passes=convert-precisions,adjust-layouts", "-o", "between.mlir"]
    assert emit(litert_npu, SOFTSIGN, *flags) == 0
    between = Path("between.mlir").read_text()
    assert 'VPUIP.after = "adjust-layouts"' in between and "IE.Add" in between
    np.testing.assert_allclose(ran(X), softsign(X), rtol=1e-6)


def test_one_of_several_functions_is_chosen(
    in_folder: Path, litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str]
) -> None:
    (main,) = re.findall(r"func\.func @main.*?\n}\n", SOFTSIGN, re.DOTALL)
    text = SOFTSIGN.replace("@main", "@first") + main.replace("@main", "@second")
    assert emit(litert_npu, text) != 0
    message = capsys.readouterr().err
    assert (
        "the IR text has 2 functions with bodies, but only one can be compiled (net.mlir)"
        in message
        and "first, second" in message
    )
    assert "--function" in message
    assert emit(litert_npu, text, "--function=second") == 0
    np.testing.assert_allclose(ran(X), softsign(X), rtol=1e-6)
    assert emit(litert_npu, text, "--function=third") != 0
    assert "no function 'third' with a body" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "flags", "message"),
    [
        (
            "dense<1.0>",
            "dense_resource<ones>",
            (),
            "the data of constant 'ones' is missing (net.mlir:5:",
        ),
        ("dense<1.0>", "dense_resource<ones>", ("--constants=w.npz",), "constant 'ones' has type "),
        ("dense<1.0>", "dense_resource<ones>", ("--constants=no.npz",), "no.npz"),
        (
            "dense<1.0>",
            "dense_resource<ones>",
            ("--constants=one.npy",),
            "Write a .npz file with numpy.savez",
        ),
        ("dense<1.0>", "dense_resource<ones>", ("--constants=net.json",), "net.json"),
        (
            "VPUIP.source",
            "VPUIP.sauce",
            (),
            "the IR text calls function 'Softsign', but the function has no kernel (net.mlir:1:",
        ),
        ("fabs", "fabsolutely", (), "fabsolutely"),
        ("__kernel void", "void", (), "no kernel, but must have kernel 'Softsign'"),
        ("@Softsign(%biased)", "@Softsine(%biased)", (), "Softsine"),
        ("", "", ("--emit=net.mlir",), "the output file is also an input file (net.mlir)"),
        (
            "",
            "",
            ("--constants=w.npz", "--emit=w.npz"),
            "the output file is also an input file (w.npz)",
        ),
        ("", "", ("-o", "out.tflite"), "-o and --emit name the same file: out.tflite"),
        (
            "",
            "",
            ("--npu_custom_op_info=Softsign,w.npz",),
            "custom op 'Softsign' was given two assets",
        ),
    ],
)
def test_what_lacks_is_an_error_and_nothing_is_written(
    in_folder: Path,
    litert_npu: LitertNpu,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    flags: Sequence[str],
    message: str,
) -> None:
    np.savez("w.npz", ones=np.ones((3, 2), np.float32))
    np.save("one.npy", np.ones((2, 3), np.float32))
    Path("net.json").write_text("{}")
    assert not old or old in SOFTSIGN
    assert emit(litert_npu, SOFTSIGN.replace(old, new) if old else SOFTSIGN, *flags) != 0
    assert message in capsys.readouterr().err
    assert not Path("out.tflite").exists()


@pytest.mark.parametrize("flag", ["--constants=w.npz", "--function=main"])
def test_flags_that_do_nothing_are_refused(
    in_folder: Path, litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    Path("net.mlir").write_text(SOFTSIGN)
    assert litert_npu("opt", "net.mlir", flag) != 0
    assert "has no effect, since nothing is compiled" in capsys.readouterr().err


def test_constants_of_a_dump_are_those_of_the_model_as_it_was(
    tmp_path: Path, litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str]
) -> None:
    network = convolutions(tmp_path)
    text, made = network.dump()[0], tmp_path / "made.tflite"
    table = text.parent / "constants.json"
    assert table.stat().st_size < 2000 and not (text.parent / "constants.bin").exists()
    moved = tmp_path / "moved.mlir"
    text.rename(moved)
    assert litert_npu("opt", moved, f"--emit={made}") != 0
    assert "the data of constant 'constant_0' is missing" in capsys.readouterr().err
    assert litert_npu("opt", moved, f"--emit={made}", f"--constants={table}") == 0
    assert byte_code(made) == byte_code(tmp_path / "out.tflite")
    model = tmp_path / "in.tflite"
    assert litert_npu("opt", moved, f"--emit={model}", f"--constants={table}") != 0
    assert f"the output file is also an input file ({model})" in capsys.readouterr().err
    (tmp_path / "in.tflite").touch()
    assert litert_npu("opt", moved, f"--emit={made}", f"--constants={table}") != 0
    assert "has changed since the constants were dumped" in capsys.readouterr().err
    (tmp_path / "in.tflite").unlink()
    assert litert_npu("opt", moved, f"--emit={made}", f"--constants={table}") != 0
    assert f"named in {table}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"path": "/', '"path": "x'), "which is not an absolute path"),
        (
            lambda text: re.sub(r'"path": "[^"]*"', '"path": "/etc/passwd"', text),
            "which is not a model",
        ),
        (
            lambda text: text.replace('"file": 0', '"file": 7'),
            "constant 'constant_0' refers to file 7, but the only file has index 0",
        ),
        (lambda text: re.sub(r'"offset": \d+', '"offset": 99999999', text), "99999999"),
        (lambda text: text[:50], "constants.json"),
    ],
)
def test_a_table_of_constants_may_be_anybodys(
    tmp_path: Path,
    litert_npu: LitertNpu,
    capsys: pytest.CaptureFixture[str],
    change: Any,
    message: str,
) -> None:
    text = convolutions(tmp_path).dump()[0]
    table = text.parent / "constants.json"
    table.write_text(change(table.read_text()))
    assert litert_npu("opt", text, f"--emit={tmp_path / 'made.tflite'}") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "made.tflite").exists()


@pytest.mark.parametrize("name", DESCRIBED)
def test_the_documents_network_of_dynamic_shapes_runs(
    in_folder: Path, litert_npu: LitertNpu, name: str
) -> None:
    """The text of each stage runs once it has kernels for the layers that the document does not describe."""
    assert emit(litert_npu, DESCRIBED[name]) == 0
    channels = np.arange(16)
    for shape in ((2, 3, 4, 5), (1, 3, 7, 2)):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float16)
        layer1 = (x[:, channels % 3] + channels[:, None, None]).astype(np.float16)
        expected = (2 * layer1).astype(np.float32).sum((2, 3))
        np.testing.assert_allclose(ran(x), expected, rtol=1e-3)


def test_a_text_whose_layers_take_shapes_goes_on_behind_the_pass_that_adds_them(
    in_folder: Path, litert_npu: LitertNpu
) -> None:
    """After this pass, layers take shapes as inputs, and such layers are not fused."""
    Path("first.mlir").write_text("""
        func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> attributes {IE.bounds = [array<i64: 8, 3>]} {
          %y = IE.Add(%x, %x) : tensor<?x3xf32>, tensor<?x3xf32> -> tensor<?x3xf32>
          %z = IE.Multiply(%y, %y) : tensor<?x3xf32>, tensor<?x3xf32> -> tensor<?x3xf32>
          return %z : tensor<?x3xf32>
        }""")
    for passes in ("add-shape-values", "add-shape-values,bound-shapes"):
        assert litert_npu("opt", "first.mlir", f"--passes={passes}", "-o", "shapes.mlir") == 0
        text = re.sub(r"VPUIP\.after = .*?\}", "}", Path("shapes.mlir").read_text())
        assert emit(litert_npu, text.replace("attributes {}", "", 1)) == 0
        np.testing.assert_array_equal(ran(X), 4 * X * X)


def test_a_layer_of_any_shape_is_its_source_alone(in_folder: Path, litert_npu: LitertNpu) -> None:
    """The layer needs no description: the text gives the kernel's arguments and the rule for the output shape."""
    text = SOFTSIGN.replace("2x3xf32", "?x3xf32").replace(
        "tensor<?x3xf32> {\n", "tensor<?x3xf32> attributes {IE.bounds = [array<i64: 8, 3>]} {\n"
    )
    text = re.sub(r"\n  %ones.*", "", text).replace("%input, %ones", "%input, %input")
    assert emit(litert_npu, text) == 0
    for rows in (2, 8, 1):
        x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3) - 3
        biased = 2 * x + np.array([0.5, -2, 4], np.float32)
        np.testing.assert_allclose(ran(x), biased / (1 + np.abs(biased)), rtol=1e-6)


def test_an_op_that_is_declared_runs(in_folder: Path, litert_npu: LitertNpu) -> None:
    text = re.sub(r"func\.call @Softsign\((.*?)\) : \((.*?)\)", r"IE.Softsign(\1) : \2", SOFTSIGN)
    assert "= IE.Softsign(%biased) : tensor<2x3xf32> ->" in text
    assert emit(litert_npu, text) == 0
    np.testing.assert_allclose(ran(X), softsign(X), rtol=1e-6)


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return convolutions(tmp_path_factory.mktemp("dumps")).dump()


TOKEN = re.compile(r'%\w+|[@#]\w+|(?:tensor|memref)<[^>]*>|\d+|"[^"]*"|\w+|.', re.DOTALL)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_a_text_that_was_edited_badly_is_compiled_or_refused(
    dumps: list[Path], data: st.DataObject
) -> None:
    path = dumps[data.draw(st.integers(0, len(dumps) - 1))]
    text = path.read_text()
    for _ in range(data.draw(st.integers(1, 3))):
        lines = data.draw(st.booleans())
        parts = text.splitlines(keepends=True) if lines else TOKEN.findall(text)
        places = st.sampled_from([i for i, part in enumerate(parts) if part.strip()])
        parts[data.draw(places)] = data.draw(
            st.sampled_from(["", "0", "-1", str(2**70), parts[data.draw(places)]])
        )
        text = "".join(parts)
    with open_constants(str(path.parent / "constants.json")) as constants:
        try:
            compile_text(text.encode(), "edited.mlir", "", constants, CompilerOptions())
        except LiteRtError as error:
            assert error.what and "defect" not in str(error)
