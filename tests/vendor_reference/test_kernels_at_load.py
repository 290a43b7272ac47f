"""Tests that `Options.dump_kernels` and `litert-npu run --dump_kernels` write the kernels of a loaded model."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from litert_npu_tools.apply_plugin import main as apply_plugin
from litert_npu_tools.litert_npu import guarded_main as litert_npu

from litert import CompiledModel, CustomOpInfo, Environment, HardwareAccelerator, Options
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.kernel_files import write_kernels
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.runtime.npu_models import VENDORS, one_call
from tests.vendor_reference.test_kernel_dump import SOURCE, compile_gains

GAINS = (("a", (4,), 0.5), ("b", (6,), 0.5), ("c", (4,), 0.5), ("d", (4,), 2.5))
BOTH = HardwareAccelerator.NPU | HardwareAccelerator.CPU


def texts(folder: Path) -> Mapping[str, str]:
    """Returns the texts of a folder's files by name."""
    return {path.name: path.read_text() for path in folder.iterdir()}


def load(path: Path, **options: Any) -> None:
    environment = Environment.create()
    with CompiledModel.from_file(
        str(path), environment=environment, options=Options(BOTH, **options)
    ):
        pass


@pytest.mark.parametrize("isolated", [False, True], ids=["inline", "isolated"])
def test_they_are_those_that_apply_plugin_has_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, isolated: bool
) -> None:
    compile_gains(tmp_path, *GAINS)
    with caplog.at_level(logging.INFO):
        load(tmp_path / "c.tflite", dump_kernels=str(tmp_path / "loaded"), isolated=isolated)
    assert texts(tmp_path / "loaded") == texts(tmp_path / "dump")
    assert len(texts(tmp_path / "loaded")) == 3
    assert f"3 kernels written to {tmp_path}/loaded." in caplog.messages


def test_without_the_option_nobody_asks(tmp_path: Path) -> None:
    compile_gains(tmp_path, *GAINS)
    before = set(tmp_path.iterdir())
    load(tmp_path / "c.tflite")
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("sandbox", ["--sandbox=try", "--sandbox=off"])
def test_a_strangers_file_shows_them_from_its_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], sandbox: str
) -> None:
    compile_gains(tmp_path, *GAINS)
    monkeypatch.setenv("LITERT_NPU_DATA_DIR", str(tmp_path / "another user's"))
    flags = ["--dump_kernels", f"--dump_folder={tmp_path}/loaded", sandbox]
    assert litert_npu(["litert-npu", "run", str(tmp_path / "c.tflite"), *flags]) == 0
    said = capfd.readouterr().err
    assert ("in a sandbox" in said) == (sandbox == "--sandbox=try")
    assert said.count(f"3 kernels written to {tmp_path}/loaded.") == 1
    assert texts(tmp_path / "loaded") == texts(tmp_path / "dump")


def test_a_model_that_is_compiled_at_load_has_them_too(tmp_path: Path) -> None:
    compile_gains(tmp_path, *GAINS)
    infos = [CustomOpInfo("Gain", str(tmp_path / "gain.cl"))]
    load(tmp_path / "m.tflite", custom_op_infos=infos, dump_kernels=str(tmp_path / "loaded"))
    assert texts(tmp_path / "loaded") == texts(tmp_path / "dump")


@pytest.mark.parametrize("checks", [True, False], ids=["checked", "not checked"])
def test_a_kernel_that_does_not_build_is_written_all_the_same(tmp_path: Path, checks: bool) -> None:
    compile_gains(tmp_path, *GAINS)
    (tmp_path / "gain.cl").write_text(SOURCE.replace("OFFSET", "OFSET"))
    infos = [CustomOpInfo("Gain", str(tmp_path / "gain.cl"))]
    with pytest.raises(LiteRtError, match="OFSET"):
        load(
            tmp_path / "m.tflite",
            custom_op_infos=infos,
            check_kernels=checks,
            dump_kernels=str(tmp_path / "loaded"),
        )
    assert "OFSET" in (tmp_path / "loaded" / "program0.cl").read_text()


def test_a_text_that_depends_on_shapes_is_that_for_the_largest(tmp_path: Path) -> None:
    source = SOURCE.replace("PARAM_gain", "INPUT0_DIMS[0]")
    compile_gains(tmp_path, ("y", (4,), 2.0), source=source)
    with read_model(tmp_path / "m.tflite") as model:
        for tensor in model.subgraphs[0].tensors:
            tensor.shape_signature = (-1,)
        write_model(model, tmp_path / "open.tflite")
    flags = [f"--npu_custom_op_info=Gain,{tmp_path}/gain.cl", "--shape_bounds=x0:9"]
    flags += ["--dump_kernels", f"--dump_folder={tmp_path}/dump"]
    model_path, output = str(tmp_path / "open.tflite"), str(tmp_path / "c.tflite")
    assert apply_plugin(["apply_plugin", *flags, model_path, output]) == 0
    load(tmp_path / "c.tflite", dump_kernels=str(tmp_path / "loaded"))
    assert texts(tmp_path / "loaded") == texts(tmp_path / "dump")
    assert "INPUT0_DIMS (int []){ 9,1,1,1, }" in texts(tmp_path / "loaded")["program0.cl"]


def test_of_code_that_was_compiled_ahead_there_are_the_defines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_gains(tmp_path, ("y", (4,), 2.0))
    monkeypatch.chdir(tmp_path)
    layer = {"version": 1, "sources": ["gain.cl"], "entry": "Gain"}
    layer |= {"arguments": [{"input": 0}, {"output": 0}], "work_sizes": {"global": ["B*F*Y*X"]}}
    Path("Gain.json").write_text(json.dumps(layer))
    Path("gain.cl").write_text(
        "__kernel void Gain(const __global float* x, __global float* y) { *y = *x; }"
    )
    build = ["Gain.json", "-o", "Gain.bin", "--model=m.tflite", "--nosource"]
    assert litert_npu(["litert-npu", "layer", "build", *build]) == 0
    flags = ["--npu_custom_op_info=Gain,Gain.bin", "--allow_native_assets", "--dump_kernels"]
    assert apply_plugin(["apply_plugin", *flags, "--dump_folder=dump", "m.tflite", "c.tflite"]) == 0
    load(tmp_path / "c.tflite", dump_kernels="loaded", allow_native_assets=True)
    assert texts(tmp_path / "loaded") == texts(tmp_path / "dump")
    text = Path("loaded/program0.cl").read_text()
    assert "#define NUM_INPUTS 1\n" in text and "__kernel" not in text


def test_a_vendor_that_does_not_show_them_is_an_error(tmp_path: Path) -> None:
    environment = Environment.create(dispatch_library_path=str(VENDORS))
    for isolated in (False, True):
        options = Options(BOTH, dump_kernels=str(tmp_path / "loaded"), isolated=isolated)
        with pytest.raises(
            LiteRtError, match="cannot return the source code of its kernels"
        ) as error:
            CompiledModel.from_buffer(one_call("double"), environment=environment, options=options)
        assert error.value.status is Status.UNSUPPORTED
        assert "dump_kernels" in error.value.hint
    assert not (tmp_path / "loaded").exists()


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    compile_gains(tmp_path, *GAINS)
    with pytest.raises(LiteRtError) as error:
        load(tmp_path / "c.tflite", dump_kernels=str(tmp_path / "no" / "such"))
    assert error.value.status is Status.NOT_FOUND


def test_more_than_anybody_reads_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(LiteRtError, match="10001 kernels"):
        write_kernels(str(tmp_path / "loaded"), [""] * 10_001)
    assert not (tmp_path / "loaded").exists()


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("--dump_kernels", "Add --dump_folder=FOLDER."),
        ("--dump_folder=f", "Add --dump_kernels, or"),
    ],
)
def test_one_flag_asks_for_the_other(
    flag: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert litert_npu(["litert-npu", "run", "m.tflite", flag]) != 0
    assert hint in capsys.readouterr().err
