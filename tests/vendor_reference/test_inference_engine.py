"""Tests Inference Engine extension libraries, compiled and run: the tutorial's own as printed, and others."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert import CompiledModel, Options
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.flexbuffer import FlexValue
from litert.model.writer import write_model
from tests.vendor_reference.executables import Array
from vendor_reference.cpu_layer.__main__ import include_folder

pytestmark = pytest.mark.each_driver

SHAPE = (2, 3, 4, 5)
PRINTED = Path(__file__).parent / "my_custom_layer.txt"
MENDS = {
    "factory": [(  # the printed class does not declare these functions
        "private:", """\
StatusCode getShapes(const std::vector<TensorDesc>&, std::vector<TensorDesc>&, ResponseDesc*) noexcept override;
StatusCode getImplementations(std::vector<ILayerImpl::Ptr>&, ResponseDesc*) noexcept override;
private:""")],
    "methods of the factory": [(" noexcept override {", " noexcept {")],  # only valid inside the class
    "getSupportedConfigurations": [
        ("virtual StatusCode", "StatusCode"),  # only valid inside the class
        ("    return GENERAL_ERROR;\n}\n", "    return GENERAL_ERROR;\n}\n}\n"),  # the closing brace is missing
    ],
    "init": [("virtual StatusCode", "StatusCode")],
    "execute": [
        ("virtual StatusCode", "StatusCode"),
        ("outputs->size()", "outputs[0]->size()"),  # std::vector has no ->
        ("    }\n}\n", "    }\n    return OK;\n}\n"),  # the function returns no value
    ],
    "extension": [
        ("static InferenceEngine::Version", "InferenceEngine::Version"),  # a static member is defined elsewhere
        ("MyCustomExtentionLib::getFactoryFor", "getFactoryFor"),  # the function is defined inside its class
    ],
}  # fmt: skip
"""The smallest corrections without which the tutorial's code does not compile, or crashes."""

ORDER = (
    "factory", "implementation", "methods of the factory", "getSupportedConfigurations", "init", "execute",
    "extension",
)  # fmt: skip
HEAD = """\
#include <litert_npu/inference_engine.hpp>
using namespace InferenceEngine;
"""
CREATE = """
INFERENCE_EXTENSION_API(StatusCode) CreateExtension(IExtension*& extension, ResponseDesc*) noexcept {
  extension = new MyCustomExtentionLib();
  return OK;
}
"""


SEVERAL = (Path(__file__).parent / "several_layers.cpp").read_text()

SCALE_XML = """\
<CustomLayer name="Scale" type="SimpleGPU" version="1">
  <Kernel entry="scale"><Source filename="scale.cl"/></Kernel>
  <Buffers>
    <Tensor arg-index="0" type="input" port-index="0"/><Tensor arg-index="1" type="output" port-index="0"/>
  </Buffers>
</CustomLayer>
"""


def printed() -> dict[str, str]:
    parts = re.split(r"^==== (.*) ====\n", PRINTED.read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def tutorial() -> str:
    """Returns the source of the tutorial's library, corrected."""
    blocks = printed()
    for name, mends in MENDS.items():
        for old, new in mends:
            assert old in blocks[name], old
            blocks[name] = blocks[name].replace(old, new)
    return HEAD + "\n".join(blocks[name] for name in ORDER) + CREATE


def build(folder: Path, text: str, *flags: str) -> Path:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler to build libraries with")
    (folder / "layers.cpp").write_text(text)
    command = [
        compiler,
        *(flags or ("-std=c++11",)),
        "-O2",
        "-shared",
        "-fPIC",
        f"-I{include_folder()}",
    ]
    subprocess.run(
        [*command, str(folder / "layers.cpp"), "-o", str(folder / "layers.so")], check=True
    )
    return folder / "layers.so"


def compile_model(
    folder: Path, library: Path, ops: Sequence[str] = ("MyCustomLayer",), **options: float
) -> Report:
    """Compiles a chain of ops for the NPU; the library gives the layers."""
    b = ModelBuilder()
    x = b.input("x", "float32", SHAPE)
    values: dict[str, FlexValue] = {"slope": 0.25, "sizes": [3, 1], **options}
    for index, op in enumerate(ops):
        n, h, w, c = x.shape
        made = (f"y{index}", "float32", (n, 2 * h if op == "Twice" else h, w, c))
        x = b.custom(op, [x], [made], options=values)
    b.output(x)
    write_model(b.build(), folder / "m.tflite")
    compiler = CompilerOptions(custom_layers=[str(library)], allow_native_assets=True)
    told = ApplyOptions(require_npu=["all"], compiler=compiler)
    return apply_plugin(folder / "m.tflite", folder / "compiled.tflite", told)


def load(folder: Path) -> CompiledModel:
    options = Options(allow_native_assets=True)
    return CompiledModel.from_file(str(folder / "compiled.tflite"), options=options)


def run(folder: Path) -> tuple[Array, Array]:
    x = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    with load(folder) as model:
        (y,) = model.run({"x": x}).values()
    return x, y


@pytest.mark.parametrize("standard", ["-std=c++11", "-std=gnu++17"])
def test_the_tutorials_library_runs(tmp_path: Path, standard: str) -> None:
    library = build(tmp_path, tutorial(), standard, "-Wall", "-Werror")
    report = compile_model(tmp_path, library)
    x, y = run(tmp_path)
    np.testing.assert_array_equal(y, 2 * x)
    (note,) = [note for note in report.notes if "machine code" in note]
    assert note == (
        "MyCustomLayer runs as machine code on the host: 'implementation 1' of library 'MyCustomExtentionLib' "
        "(version 1.0); 2 of the op's tensors are reordered"
    )
    assert [(a.name, a.path) for a in report.assets] == [("MyCustomLayer", str(library))]


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library of several layers; it logs the calls of Unload and Release in a file."""
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    return build(tmp_path, SEVERAL, "-fno-gnu-unique")


@pytest.mark.parametrize("blocks", [False, True], ids=["plain", "blocks"])
def test_dimensions_are_in_their_order_however_a_tensor_lies(
    tmp_path: Path, several: Path, blocks: bool
) -> None:
    report = compile_model(tmp_path, several, ["Channel", "Twice", "Scale"], blocks=blocks)
    _, y = run(tmp_path)
    channels = np.broadcast_to(np.arange(5, dtype=np.float32), (2, 6, 4, 5))
    np.testing.assert_array_equal(y, 0.25 * channels)
    (note,) = [note for note in report.notes if note.startswith("Scale runs")]
    assert note.endswith("of library 'several' (version 2.5)")


def test_a_library_is_released_and_closed_with_the_last_model_that_uses_it(
    tmp_path: Path, several: Path
) -> None:
    compile_model(tmp_path, several, ["Scale"])
    told = tmp_path / "told"
    assert set(told.read_text().split()) == {"Unload", "Release"}  # from child processes
    told.write_text("")
    before = loaded()
    first, second = load(tmp_path), load(tmp_path)
    x = np.ones(SHAPE, np.float32)
    first.run({"x": x})
    first.close()
    assert told.read_text() == "" and len(loaded() - before) == 1
    np.testing.assert_array_equal(second.run({"x": x})["y0"], 0.25 * x)
    second.close()
    assert told.read_text().split() == ["Unload", "Release"]
    assert not loaded() - before
    run(tmp_path)
    assert told.read_text().split() == ["Unload", "Release"] * 2


def test_a_library_that_cannot_be_closed_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    compile_model(
        tmp_path, build(tmp_path, SEVERAL + "// with a static variable in a class"), ["Scale"]
    )
    (tmp_path / "told").write_text("")
    before = loaded()
    for _ in range(3):
        x, y = run(tmp_path)
        np.testing.assert_array_equal(y, 0.25 * x)
    assert (tmp_path / "told").read_text().split() == ["Unload", "Release"] * 3
    assert len(loaded() - before) <= 1  # 0 if a test with another driver has loaded it


def loaded() -> set[str]:
    """Returns the asset libraries loaded in this process; other tests may have left some."""
    maps = Path("/proc/self/maps").read_text()
    return set(re.findall(r"(\d+) +/memfd:litert-npu-asset", maps))


@pytest.mark.parametrize("op", ["Twice", "Scale"])
def test_shapes_that_a_run_tells_are_the_librarys_or_an_inputs(
    tmp_path: Path, several: Path, op: str
) -> None:
    factor = 2 if op == "Twice" else 1
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 1, 4, 5), shape_signature=(-1, -1, 4, 5))
    y = b.tensor("y", "float32", (1, 1, 4, 5), shape_signature=(-1, -1, 4, 5))
    b.output(b.custom(op, [x], [y], options={"slope": 0.25, "sizes": [3, 1]}))
    write_model(b.build(), tmp_path / "m.tflite")
    compiler = CompilerOptions(
        custom_layers=[str(several)], allow_native_assets=True, shape_bounds={"x": (4, 3, 4, 5)}
    )
    told = ApplyOptions(require_npu=["all"], compiler=compiler)
    apply_plugin(tmp_path / "m.tflite", tmp_path / "compiled.tflite", told)
    with load(tmp_path) as model:
        for batch, height in ((4, 3), (1, 2), (4, 1), (1, 2)):
            data = np.random.default_rng(0).normal(size=(batch, height, 4, 5)).astype(np.float32)
            expected = np.concatenate([data] * 2, axis=1) if op == "Twice" else 0.25 * data
            np.testing.assert_array_equal(model.run({"x": data})["y"], expected)
            assert expected.shape[1] == factor * height


REFUSED = {
    "its configurations": (
        ["Broken"],
        {},
        "getSupportedConfigurations: no configuration for 1 inputs",
    ),
    "its factory": (["Scale"], {"slope": 0.0}, "getFactoryFor: status -5"),
}


@pytest.mark.parametrize(("ops", "options", "says"), REFUSED.values(), ids=list(REFUSED))
def test_what_a_library_refuses_has_its_words(
    tmp_path: Path, several: Path, ops: Sequence[str], options: dict[str, float], says: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        compile_model(tmp_path, several, ops, **options)
    assert says in str(error.value)


def test_a_failing_run_has_its_words(tmp_path: Path, several: Path) -> None:
    compile_model(tmp_path, several, ["Scale"], slope=-1.0)
    with pytest.raises(RuntimeError, match="execute: a slope below 0"):
        run(tmp_path)


def test_an_extension_that_cannot_be_made_is_an_error(
    tmp_path: Path, several: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFUSES", "1")
    with pytest.raises(LiteRtError, match="the library does not support interface version 1"):
        compile_model(tmp_path, several, ["Scale"])


def test_a_library_for_any_model_needs_consent(tmp_path: Path, several: Path) -> None:
    compile_model(tmp_path, several, ["Scale"])
    told = ApplyOptions(compiler=CompilerOptions(custom_layers=[str(several)]))
    with pytest.raises(LiteRtError) as error:
        apply_plugin(tmp_path / "m.tflite", tmp_path / "other.tflite", told)
    assert error.value.status is Status.INVALID_TOOL_CONFIG
    assert (
        "the library is machine code, which may run only with --allow_native_assets"
        in error.value.what
    )
    assert "--allow_native_assets" in error.value.hint
    told = ApplyOptions(compiler=CompilerOptions(custom_layers=[str(tmp_path)]))
    (tmp_path / "scale.xml").write_text(SCALE_XML)
    (tmp_path / "scale.cl").write_text("__kernel void scale(global float* x, global float* y) {}")
    report = apply_plugin(tmp_path / "m.tflite", tmp_path / "other.tflite", told)
    assert (
        f"{several} is ignored, because it is machine code, which may run only with --allow_native_assets."
        in report.notes
    )
