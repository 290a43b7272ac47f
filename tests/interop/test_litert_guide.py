"""Tests that the code blocks of LiteRT's guide for custom op assets, with their dots filled in, make a vendor."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dispatch.native.dispatch_library import asset_slot, new_api
from litert import CompiledModel, CustomOpInfo, Environment, HardwareAccelerator, Options
from litert.abi.definitions import ffi
from litert.abi.headers import INCLUDE_FOLDER
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.stock_litert import run_in_ours, run_in_stock

StockTool = Callable[..., "subprocess.CompletedProcess[str]"]

FOLDER = Path(__file__).with_name("litert_guide")
COMMAND, PLUGIN, SIGNATURE, DISPATCH = re.findall(
    r"^```\w+\n(.*?)^```$", (FOLDER / "guide.md").read_text(), re.DOTALL | re.MULTILINE
)
CPP, C = ("g++", "-std=gnu++17", "-xc++"), ("gcc", "-std=gnu11", "-xc")
ASSETS = {"my_custom_op": b"\1\2\3\4", "another_op": b"\x10"}
INPUTS = {
    "x": np.array([1, 2, 3, 4], np.float32),
    "y": np.array([0.5, -1, 2, 8], np.float32),
}
SUM = INPUTS["x"] + INPUTS["y"]


def fill(block: str, *fillings: tuple[str, str]) -> str:
    """Returns a block with its dots replaced by the fillings, in order; checks that no dots remain."""
    done = ""
    for dots, filling in fillings:
        before, found, block = block.partition(dots)
        assert found, dots
        done += before + filling
    assert "..." not in block
    return done + block


PLUGIN_BLOCK = fill(
    PLUGIN,
    ("// ...\n", "auto* plugin = new LiteRtCompilerPluginT;\n"),
    ("// ...\n", "*plugin_out = plugin;\n  return kLiteRtStatusOk;\n"),
    ("plugin, ...,", "plugin, const char* soc_model,"),
    ("// ...\n", "for (const auto& op : litert::Subgraph(subgraph).Ops()) {\n"),
    ("op.Get(), ...)", "op.Get(), 0)"),
    (
        "// ...\n",
        "  if (op.Code() == kLiteRtOpCodeTflAdd) LiteRtPushOp(selected_ops, op.Get(), 0);\n  }\n"
        "  return kLiteRtStatusOk;\n",
    ),
)
DISPATCH_BLOCK = fill(
    DISPATCH,
    ("// ... other functions ...\n", ".version = {0, 1, 0},\n    .interface = &table,\n"),
)
TABLE_BLOCK = DISPATCH_BLOCK[DISPATCH_BLOCK.index("// In your API table definition") :]


def build(command: tuple[str, ...], source: str, block: str, output: Path) -> None:
    """Compiles a source file, which includes a block, to a library."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    output.parent.mkdir(parents=True, exist_ok=True)
    (output.parent / "block.h").write_text(block)
    warnings = ["-Wall", "-Werror", "-Wno-sign-compare"]  # the guide's loop counts in int
    flags = ["-shared", "-fPIC", "-fvisibility=hidden", f"-I{INCLUDE_FOLDER}", f"-I{output.parent}"]
    arguments = [*command, *warnings, *flags, str(FOLDER / source), "-o", str(output), "-ldl"]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=["C++", "C"])
def vendor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of MyVendor's libraries: the plugin in C++, and the dispatch library in C++ or C."""
    folder = tmp_path_factory.mktemp("guide")
    build(CPP, "plugin.cc", PLUGIN_BLOCK, folder / "libLiteRtCompilerPlugin_MyVendor.so")
    language, block = (CPP, DISPATCH_BLOCK) if request.param == "C++" else (C, TABLE_BLOCK)
    build(language, "dispatch.c", block, folder / "libLiteRtDispatch_MyVendor.so")
    return folder


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The folder of the files that the guide's command names, and of a model of ADD."""
    b = ModelBuilder()
    x, y = b.input("x", "float32", (4,)), b.input("y", "float32", (4,))
    mine = b.custom("my_custom_op", [x, y], [("mine", "float32", (4,))])
    b.output(b.custom("another_op", [mine], [("z", "float32", (4,))]))
    b.signature("main")
    write_model(b.build(), tmp_path / "input.tflite")
    b = ModelBuilder()
    x, y = b.input("x", "float32", (4,)), b.input("y", "float32", (4,))
    b.output(b.op("ADD", [x, y], [("z", "float32", (4,))]))
    b.signature("main")
    write_model(b.build(), tmp_path / "add.tflite")
    (tmp_path / "my_asset.bin").write_bytes(ASSETS["my_custom_op"])
    (tmp_path / "config.json").write_bytes(ASSETS["another_op"])
    return tmp_path


@pytest.fixture
def environment(vendor: Path, tmp_path: Path, own_environment: dict[str, str]) -> dict[str, str]:
    """Environment variables with which the vendor is an installed package."""
    packages = tmp_path / "packages"
    info = packages / "myvendor-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: myvendor\nVersion: 1.0\n")
    names = {"compiler_plugin": "CompilerPlugin", "dispatch": "Dispatch"}
    lines = [f"[litert_npu.{g}]\nMyVendor = myvendor:{n}\n" for g, n in names.items()]
    (info / "entry_points.txt").write_text("".join(lines))
    paths = [f"{n} = {str(vendor / f'libLiteRt{n}_MyVendor.so')!r}\n" for n in names.values()]
    (packages / "myvendor.py").write_text("".join(paths))
    return {**own_environment, "PYTHONPATH": str(packages)}


def command_line(tool: str, folder: Path, *left_out: str) -> str:
    """Returns the guide's command for an installed tool and a folder, without the lines with `left_out`."""
    bazel, text = COMMAND.split(" -- ", 1)
    assert bazel == "bazel run //third_party/odml/litert/litert/tools:apply_plugin"
    lines = [line for line in text.split("\n") if not any(each in line for each in left_out)]
    return f"{tool} " + "\n".join(lines).replace("/path/to/", f"{folder}/")


@pytest.mark.parametrize("tool", ["apply_plugin", "apply_plugin_main"])
def test_the_command_line_works_as_printed_and_the_vendor_gets_its_assets(
    tool: str, vendor: Path, files: Path, environment: dict[str, str]
) -> None:
    done = subprocess.run(
        ["bash", "-c", command_line(tool, files)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Target: MyVendor MySocModel" in done.stdout
    with read_model(files / "output.bin") as model:
        assert [op.name for op in model.subgraphs[0].ops] == ["DISPATCH_OP"]
        for op, data in ASSETS.items():
            blob = model.find_metadata(f"litert_npu_asset_{op}")
            assert blob is not None and bytes(blob) == data
    for path in [*files.glob("*.bin"), files / "config.json"]:  # the result is self-contained
        if path.name != "output.bin":
            path.unlink()
    run = run_in_ours(files / "output.bin", vendor, INPUTS)
    assert run.exit_status == 0, run.log
    np.testing.assert_array_equal(run.outputs["z"], SUM + [1, 2, 3, 4] + 16)


def test_an_op_without_an_asset_stays_on_the_cpu(files: Path, environment: dict[str, str]) -> None:
    line = command_line("apply_plugin", files, "another_op")
    done = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with read_model(files / "output.bin") as model:
        assert [op.name for op in model.subgraphs[0].ops] == ["DISPATCH_OP", "another_op"]


def test_stock_compiles_and_runs_the_same_vendor(
    vendor: Path, files: Path, stock_apply_plugin: StockTool
) -> None:
    output = files / "stock.tflite"
    done = stock_apply_plugin(
        "--cmd=apply",
        f"--model={files / 'add.tflite'}",
        f"--o={output}",
        f"--libs={vendor}",
        "--soc_manufacturer=MyVendor",
        "--soc_model=MySocModel",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with read_model(output) as model:
        assert [op.name for op in model.subgraphs[0].ops] == ["DISPATCH_OP"]
    run = run_in_stock(output, vendor, INPUTS, runs=2)
    assert run.exit_status == 0, run.log
    np.testing.assert_array_equal(run.outputs["z"], SUM)


def test_stock_compiles_it_at_load(vendor: Path, files: Path) -> None:
    run = run_in_stock(files / "add.tflite", vendor, INPUTS, plugin_folder=vendor)
    assert run.exit_status == 0, run.log
    np.testing.assert_array_equal(run.outputs["z"], SUM)
    assert "MyVendor" in run.log


def test_stock_has_no_assets_for_it(
    vendor: Path, files: Path, stock_apply_plugin: StockTool
) -> None:
    output = files / "stock.tflite"
    done = stock_apply_plugin(
        "--cmd=apply",
        f"--model={files / 'input.tflite'}",
        f"--o={output}",
        f"--libs={vendor}",
        "--soc_manufacturer=MyVendor",
        "--soc_model=MySocModel",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with read_model(output) as model:
        assert [op.name for op in model.subgraphs[0].ops] == ["my_custom_op", "another_op"]


@pytest.mark.parametrize("isolated", [False, True])
def test_a_program_loads_it_with_its_assets(vendor: Path, files: Path, isolated: bool) -> None:
    infos = [
        CustomOpInfo("my_custom_op", str(files / "my_asset.bin")),
        CustomOpInfo("another_op", str(files / "config.json")),
    ]
    environment = Environment.create(
        compiler_plugin_path=str(vendor), dispatch_library_path=str(vendor)
    )
    options = Options(HardwareAccelerator.NPU, custom_op_infos=infos, isolated=isolated)
    path = str(files / "input.tflite")
    with CompiledModel.from_file(path, environment=environment, options=options) as model:
        np.testing.assert_array_equal(model.run(INPUTS)["z"], SUM + [1, 2, 3, 4] + 16)


@pytest.mark.parametrize("language", [C, CPP], ids=["C", "C++"])
@pytest.mark.parametrize("header", ["dispatch.h", "support/guide_dispatch.h"])
def test_the_signature_is_the_headers(
    language: tuple[str, ...], header: str, tmp_path: Path
) -> None:
    if shutil.which(language[0]) is None:
        pytest.skip(f"no {language[0]}")
    source = tmp_path / "signature.c"
    source.write_text(f'#include "litert_npu/{header}"\n{SIGNATURE}')
    command = [*language, "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE_FOLDER}"]
    subprocess.run([*command, "-fsyntax-only", str(source)], check=True)


def test_the_vendor_keeps_the_contract(vendor: Path, files: Path) -> None:
    infos = [f"--npu_custom_op_info=my_custom_op,{files / 'my_asset.bin'}"]
    infos.append(f"--npu_custom_op_info=another_op,{files / 'config.json'}")
    rules = ["api", "create", "destroy", "partition", "register_asset.unknown"]
    code = "from litert_npu_tools.litert_npu import run; run()"
    arguments = [f"--model={files / 'input.tflite'}", *infos, *(f"--rule={rule}" for rule in rules)]
    done = subprocess.run(
        [sys.executable, "-c", code, "vendor", "check", str(vendor), *arguments],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MyVendor keeps the contract" in done.stdout


@pytest.mark.parametrize("language", [C, CPP], ids=["C", "C++"])
def test_what_our_own_document_shows_compiles(language: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(language[0]) is None:
        pytest.skip(f"no {language[0]}")
    text = (Path(__file__).parents[2] / "docs" / "vendors.md").read_text()
    (shown,) = re.findall(r"^```cpp\n(#include .*?guide_dispatch.*?)^```$", text, re.DOTALL | re.M)
    include, rest = shown.split("\n", 1)
    needed = "static LiteRtDispatchInterface my_functions;\nLiteRtStatus MyRegisterAsset(\n"
    needed += "    LiteRtDispatchDeviceContext, const char*, const LiteRtMemBuffer*);\n"
    (tmp_path / "shown.c").write_text(f"{include}\n{needed}{rest}")
    command = [*language, "-Wall", "-Werror", f"-I{INCLUDE_FOLDER}", "-fsyntax-only"]
    subprocess.run([*command, str(tmp_path / "shown.c")], check=True)


@pytest.mark.parametrize(("size", "is_there"), [(0, False), (56, False), (64, True), (72, True)])
def test_the_slot_is_that_of_a_table_which_says_that_it_has_one(size: int, is_there: bool) -> None:
    api = new_api()
    assert asset_slot(api) is None
    api.register_asset = ffi.cast(ffi.typeof(api.register_asset), 16)
    api.abi_header.struct_size = size
    assert (asset_slot(api) is not None) == is_there
