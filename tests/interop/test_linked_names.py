"""Tests vendors that link the host's functions by name in each program that loads vendors, in new processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.conftest import build_c_vendor

_HEADER = Path(__file__).with_name("linked_assets.h")

APPLY = ("-c", "from litert_npu_tools.apply_plugin import run; run()")
CHECK = ("-c", "from litert_npu_tools.litert_npu import run; run()", "vendor", "check")

_AT_LOAD = """
import sys
import numpy as np
from litert import CompiledModel, CustomOpInfo, Environment, HardwareAccelerator, Options

model, vendor, asset = sys.argv[1:]
environment = Environment.create(compiler_plugin_path=vendor, dispatch_library_path=vendor)
options = Options(HardwareAccelerator.NPU, custom_op_infos=[CustomOpInfo("Gain", asset)])
with CompiledModel.from_file(model, None, environment, options) as compiled:
    print(compiled.run({"x": np.full((1, 4), 4, np.float32)})["y"].tolist())
"""

_WITHOUT_FILES = """
import resource, sys
from pathlib import Path
from dispatch.native.dispatch_library import DispatchLibrary

resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
(path,) = Path(sys.argv[1]).glob("libLiteRtDispatch*.so")
try:
    print(DispatchLibrary(str(path)).name)
except RuntimeError as error:
    print(error)
"""


@pytest.fixture(scope="module", params=["lazy", "now"])
def linked_vendor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the C example, whose libraries link the functions by name, with lazy or immediate binding."""
    folder = build_c_vendor(
        tmp_path_factory.mktemp(request.param), f"-Werror -include {_HEADER} -Wl,-z,{request.param}"
    )
    (folder / "gain.txt").write_text("2.5")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The file of a model of `y = Gain(x)`."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    builder.output(builder.custom("Gain", [x], [("y", "float32", (1, 4))]))
    write_model(builder.build(), tmp_path / "gain.tflite")
    return tmp_path / "gain.tflite"


def run(*arguments: object) -> str:
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("flags", [[], ["--plugin_in_process"]], ids=["own process", "in process"])
def test_a_plugin_is_told_of_assets(
    linked_vendor: Path, model: Path, tmp_path: Path, flags: list[str]
) -> None:
    output = tmp_path / "out.tflite"
    info = f"--npu_custom_op_info=Gain,{linked_vendor}/gain.txt"
    vendor = ["--soc_manufacturer=Cobalt", f"--libs={linked_vendor}"]
    run(*APPLY, *vendor, info, *flags, model, output)
    with read_model(output) as compiled:
        assert [op.name for op in compiled.subgraphs[0].ops] == ["DISPATCH_OP"]


def test_a_plugin_is_listed(linked_vendor: Path) -> None:
    listed = run(*APPLY, "--cmd=info", f"--libs={linked_vendor}")
    assert '< LiteRtCompilerPlugin > "Cobalt" | "C1"' in listed


def test_a_program_compiles_at_load_and_runs(linked_vendor: Path, model: Path) -> None:
    assert (
        run("-c", _AT_LOAD, model, linked_vendor, linked_vendor / "gain.txt")
        == "[[10.0, 10.0, 10.0, 10.0]]\n"
    )


def test_both_libraries_keep_the_contract(linked_vendor: Path) -> None:
    info = f"--npu_custom_op_info=Gain,{linked_vendor}/gain.txt"
    rules = ["--rule=compile.ok", "--rule=dispatch.runs", "--rule=invoke.values", "--report=json"]
    report = json.loads(run(*CHECK, linked_vendor, info, *rules))
    assert report["conforms"] and not report["gaps"]
    differences = {row["op"]: row["difference"] for row in report["compared"] if not row["why"]}
    assert differences["MUL"] == 0 and "Gain" in [row["op"] for row in report["compared"]]


def test_only_a_dispatch_library_that_is_linked_with_names_needs_a_temporary_file(
    linked_vendor: Path, tmp_path: Path
) -> None:
    assert run("-c", _WITHOUT_FILES, build_c_vendor(tmp_path, "")) == "Cobalt\n"
    said = run("-c", _WITHOUT_FILES, linked_vendor)
    assert said.startswith(
        "DYNAMIC_LOADING: the loader cannot load the generated library for native vendors"
    )
    assert "Set TMPDIR to a directory on a file system without the mount option noexec." in said


def test_the_checks_find_what_the_host_cannot_load(tmp_path: Path) -> None:
    """Checks that both commands report the same sentence, as they load libraries with the same code."""
    source = tmp_path / "stranger.h"
    source.write_text(
        "void nobody_has_this(void);\n__attribute__((used)) static void f(void) { nobody_has_this(); }\n"
    )
    folder = build_c_vendor(tmp_path / "vendor", f"-include {source}")
    listed = run(*APPLY, "--cmd=info", f"--libs={folder}")
    command = [
        sys.executable,
        *CHECK,
        str(folder),
        "--report=json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    report: dict[str, Any] = json.loads(done.stdout)
    broken = {
        f["rule"]: f["text"]
        for p in report["parts"]
        for f in p["findings"]
        if f["outcome"] == "failed"
    }
    assert done.returncode == 1 and broken.keys() == {"plugin.symbols", "api.loads"}
    assert broken["plugin.symbols"] in listed
    for text in broken.values():
        assert text.startswith(
            "DYNAMIC_LOADING: the loader cannot load the library: undefined symbol: nobody_has_this ("
        )
