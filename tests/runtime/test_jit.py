"""Tests that a model that is not compiled is compiled at load, and that the cache keeps the result."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin import pipeline
from compiler_plugin.pipeline import apply_in_memory
from litert.compiled_model import CompiledModel
from litert.core.compiler_options import CustomOpInfo
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.environment import Environment
from litert.hardware_accelerator import HardwareAccelerator
from litert.host.cache_entry import write_entry
from litert.host.extensions import COMPILER_PLUGINS, find_entry_points
from litert.model.blob import MappedFile
from litert.model.builder import ModelBuilder
from litert.model.manifest import Manifest, set_manifest
from litert.model.reader import read_model
from litert.model.writer import to_bytes, write_model
from litert.options import Options
from litert.runtime import compile_key, load_candidates
from litert.runtime.compile_cache import CompileCache, Nothing
from litert.runtime.load_candidates import find_candidates
from tests.runtime.npu_models import FLOAT, VENDORS

CPU, NPU = HardwareAccelerator.CPU, HardwareAccelerator.NPU
X = np.array([[1, 2, 3, 4]], np.float32)
Load = Callable[..., CompiledModel]


def raw(*ops: str, weights: int = 0) -> bytes:
    """Returns a chain of ops that double their input: `double` is a custom op, `ADD` a builtin op."""
    builder = ModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    for i, op in enumerate(ops):
        if op.isupper():
            x = builder.op(op, [x, x], [(f"y{i}", FLOAT, (1, 4))])
        else:
            x = builder.custom(op, [x], [(f"y{i}", FLOAT, (1, 4))])
    if weights:
        constant = builder.constant("w", np.zeros(weights, np.float32))
        x = builder.op("ADD", [x, constant], [("w_y", FLOAT, (1, 4))])
    builder.output(x)
    return to_bytes(builder.build())


def _open() -> bytes:
    """Returns a model of one op on tensors whose first dimension is unknown."""
    builder = ModelBuilder()
    x = builder.input("x", FLOAT, (1, 4), shape_signature=(-1, 4))
    y = builder.tensor("y", FLOAT, (1, 4), shape_signature=(-1, 4))
    builder.output(builder.custom("double", [x], [y]))
    return to_bytes(builder.build())


OPEN = _open()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def load(tmp_path: Path, cache: Path) -> Iterator[Load]:
    """Loads models for the test vendor from a file or a buffer; the fixture closes them after the test."""
    models: list[CompiledModel] = []

    def make(
        data: bytes,
        *,
        accelerators: HardwareAccelerator = NPU | CPU,
        from_file: bool = True,
        plugins: str = str(VENDORS),
        tables: str = str(VENDORS),
        keep: bool = True,
        **options: Any,
    ) -> CompiledModel:
        environment = Environment.create(
            compiler_plugin_path=plugins,
            dispatch_library_path=tables,
            compiler_cache_dir=str(cache) if keep else "",
        )
        settings = Options(accelerators, **options)
        if from_file:
            path = tmp_path / "model.tflite"
            path.write_bytes(data)
            model = CompiledModel.from_file(path, environment=environment, options=settings)
        else:
            model = CompiledModel.from_buffer(data, environment=environment, options=settings)
        models.append(model)
        return model

    yield make
    for model in models:
        model.close()


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The vendors for which the model was compiled, in order."""
    asked: list[str] = []

    def count(source: Any, options: Any) -> Any:
        asked.append(options.soc_manufacturer)
        return apply_in_memory(source, options)

    monkeypatch.setattr(pipeline, "apply_in_memory", count)
    return asked


def doubled(model: CompiledModel) -> int:
    """Returns how many times a model doubles its input."""
    (found,) = model.run({"x": X}).values()
    return int(np.log2(found[0, 0] / X[0, 0]))


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "not kept"])
@pytest.mark.parametrize("from_file", [True, False], ids=["file", "buffer"])
def test_ops_that_a_vendor_takes_run_on_its_npu(
    load: Load, cache: Path, from_file: bool, keep: bool
) -> None:
    model = load(raw("double", "ADD"), from_file=from_file, keep=keep)
    assert doubled(model) == 2
    model.start_metrics_collection()
    model.run({"x": X})
    assert [call.name for call in model.stop_metrics_collection().calls] == ["double@0"]
    assert cache.exists() == keep


def test_what_is_opened_to_compile_a_model_is_closed_with_it(load: Load) -> None:
    load(raw("double")).close()  # opens what a process opens only once
    before = len(os.listdir("/proc/self/fd"))
    load(raw("double", "double"), keep=False).close()
    load(raw("double", "double")).close()
    load(raw("double")).close()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("from_file", [True, False], ids=["file", "buffer"])
def test_a_model_that_was_compiled_before_is_not_compiled_again(
    load: Load, compilations: list[str], from_file: bool
) -> None:
    for _ in range(2):
        assert doubled(load(raw("double"), from_file=from_file)) == 1
    assert compilations == ["Test"]


def test_a_file_and_a_buffer_of_the_same_bytes_share_a_result(
    load: Load, compilations: list[str]
) -> None:
    for from_file in (True, False):
        load(raw("double"), from_file=from_file)
    assert len(compilations) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"data": raw("double")}, {"data": raw("double", "double")}),
        ({}, {"soc_manufacturer": "Test", "soc_model": "T1"}),
        ({}, {"compiler_options": {"test_name": "double@other"}}),
        ({}, {"allow_native_assets": True}),
        ({}, {"check_kernels": False}),
        ({"data": OPEN}, {"data": OPEN, "shape_bounds": {"x": (2, 4)}}),
        ({"asset": b"a.h"}, {"asset": b"b.h"}),
        ({"asset": b"a.h"}, {"asset": b"a.h", "asset_name": "other.cl"}),
        ({"asset": b"a.h"}, {"asset": b"a.h", "asset_root": "."}),
        (
            {"asset": b"a.h", "asset_root": "."},
            {"asset": b"a.h", "asset_root": ".", "asset_name": "below/double.cl"},
        ),
        ({"custom_layers": ["a"]}, {"custom_layers": ["b"]}),
    ],
    ids=[
        "model", "target", "vendor's option", "native assets", "check of kernels", "bound of a shape", "asset",
        "asset's name", "root of assets", "where an asset lies in the root", "layers",
    ],
)  # fmt: skip
def test_whatever_shapes_the_result_is_compiled_anew(
    load: Load,
    compilations: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: dict[str, Any],
    second: dict[str, Any],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    for name in ("a.h", "b.h"):
        (tmp_path / name).write_text("both the same")
    for changes in (first, second, first):
        options = {"data": raw("double"), **changes}
        if "asset" in options:
            path = tmp_path / options.pop("asset_name", "double.cl")
            path.write_bytes(options.pop("asset"))
            options["custom_op_infos"] = [CustomOpInfo("double", str(path))]
        options.setdefault("soc_manufacturer", "Test")
        load(**options)
    assert len(compilations) == 2


@pytest.mark.parametrize("named", ["double.layer", "."], ids=["file", "folder"])
def test_a_layer_for_any_model_that_has_changed_compiles_anew(
    load: Load,
    compilations: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)  # the folder also contains the model and the cache
    (tmp_path / "common").mkdir()

    def is_compiled(path: str, text: str, **options: Any) -> bool:
        (tmp_path / path).write_text(text)
        before = len(compilations)
        load(raw("double"), soc_manufacturer="Test", custom_layers=[named], **options)
        return len(compilations) > before

    (tmp_path / "common/double.h").write_text("one")
    assert is_compiled("double.layer", "common/double.h")
    assert not is_compiled("double.layer", "common/double.h")
    assert is_compiled("common/double.h", "two")
    assert not is_compiled("common/double.h", "two")
    (tmp_path / "double.h").write_text("two")
    assert is_compiled("double.layer", "double.h")
    (tmp_path / "root").mkdir()
    assert is_compiled("root/double.h", "two", asset_root="root")
    assert not is_compiled("root/double.h", "two", asset_root="root")
    assert is_compiled("root/double.h", "three", asset_root="root")
    assert is_compiled("other.layer", "") == (named == ".")
    assert not is_compiled("other.layer", "")


def test_a_layer_deeper_in_a_folder_is_not_kept(
    load: Load, compilations: list[str], tmp_path: Path
) -> None:
    plugins = copy_vendor(tmp_path / "plugins")
    plugin = plugins / "LiteRtCompilerPlugin_Test.py"
    plugin.write_text(plugin.read_text().replace('f"{name}.layer")', 'f"deep/{name}.layer")'))
    (tmp_path / "layers/deep").mkdir(parents=True)
    (tmp_path / "layers/readme").write_text("what lies directly in it")
    (tmp_path / "layers/deep/double.layer").write_text("")
    for _ in range(2):
        layers = [str(tmp_path / "layers")]
        load(raw("double"), plugins=str(plugins), soc_manufacturer="Test", custom_layers=layers)
    assert compilations == ["Test", "Test"]


def copy_vendor(folder: Path) -> Path:
    folder.mkdir()
    plugin = VENDORS / "LiteRtCompilerPlugin_Test.py"
    (folder / plugin.name).write_bytes(plugin.read_bytes())
    return folder


def test_a_plugin_that_was_changed_compiles_anew(
    load: Load, compilations: list[str], tmp_path: Path
) -> None:
    plugins = copy_vendor(tmp_path / "plugins")
    load(raw("double"), plugins=str(plugins))
    (plugins / "helper.py").write_text("# the vendor's next version\n")
    load(raw("double"), plugins=str(plugins))
    load(raw("double"), plugins=str(plugins))
    assert len(compilations) == 2


@pytest.mark.parametrize("variable", ["LITERT_NPU_OPTIONS", "LITERT_NPU_CUSTOM_OP_INFO"])
def test_what_exported_plugins_read_of_the_environment_compiles_anew(
    load: Load, compilations: list[str], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    load(raw("double"))
    monkeypatch.setenv(variable, "double,/another.asset")
    load(raw("double"))
    load(raw("double"))
    assert len(compilations) == 2


@pytest.mark.parametrize(
    "where", ["option", "list", "layers", "layer", "variable", "options", "assets"]
)
def test_a_file_that_is_named_and_has_changed_compiles_anew(
    load: Load,
    compilations: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    where: str,
) -> None:
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers/names_tiles.json").touch()
    file = tmp_path / "layers" / "tiles.txt"
    file.write_text("one")
    named: dict[str, Any] = {
        "option": {"compiler_options": {"test_table": str(file)}},
        "list": {"compiler_options": {"test_table": f"a,{file}"}},
    }
    variables = {
        "layers": ("LITERT_NPU_OPTIONS", f"custom_layers={file.parent}"),
        "layer": ("LITERT_NPU_OPTIONS", f"custom_layers={file.parent}/names_tiles.json"),
        "variable": ("LITERT_NPU_CUSTOM_LAYERS", f"/nowhere:{file.parent}"),
        "options": ("LITERT_NPU_OPTIONS", f"test_x=1;--npu_custom_op_info=other,{file}"),
        "assets": ("LITERT_NPU_CUSTOM_OP_INFO", f"a,b;other,{file}"),
    }
    if where in variables:
        monkeypatch.setenv(*variables[where])
    options = {"soc_manufacturer": "Test", **named.get(where, {})}
    for text in ("one", "one", "two!", "two!", "one"):
        if file.read_text() != text:
            file.write_text(text)
        load(raw("double"), **options)
    # The cache compares modification times of files in a folder, not their content.
    assert len(compilations) == (3 if where in ("layers", "layer") else 2)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b'{"max_bytes": 256}', b'{"max_bytes": 999}'),
        lambda data: data.replace(b"y0", b"Y0"),
        lambda data: data[:-1],
    ],
    ids=["empty", "cut", "changed byte code", "a changed name", "a byte less"],
)
def test_a_damaged_entry_is_made_anew(
    load: Load,
    compilations: list[str],
    cache: Path,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[bytes], bytes],
) -> None:
    load(raw("double")).close()
    (entry,) = cache.glob("*.tflite")
    entry.write_bytes(damage(entry.read_bytes()))
    assert doubled(load(raw("double"))) == 1
    assert len(compilations) == 2
    assert "is compiled again" in caplog.text


def test_a_vendor_is_named_by_any_of_its_names(load: Load) -> None:
    assert doubled(load(raw("double"), soc_manufacturer="TEST")) == 1
    (point,) = find_candidates(Options(soc_manufacturer="null"), EnvironmentOptions()).installed
    assert point.name == "Null"


def test_the_reference_vendor_is_told_of_where_it_is_not_asked(
    load: Load, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks this with and without other installed vendors."""
    points = find_entry_points(COMPILER_PLUGINS)
    only = {name: point for name, point in points.items() if name == "Reference"}
    monkeypatch.setattr(load_candidates, "find_entry_points", lambda group: only)
    assert doubled(load(raw("ADD"), plugins="")) == 1
    assert (
        "No vendor compiled the model when it was loaded. Vendor 'Reference' was not tried, because"
        in caplog.text
    )
    caplog.clear()
    assert doubled(load(raw("ADD"), plugins="", soc_manufacturer="Null")) == 1
    assert "Vendor 'Null' compiled no op: ADD (" in caplog.text and "Reference" not in caplog.text


def test_that_no_vendor_takes_an_op_is_kept_too(
    load: Load, compilations: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        caplog.clear()
        assert doubled(load(raw("ADD"), soc_manufacturer="Test")) == 1
        assert (
            "No vendor compiled the model when it was loaded. "
            "Vendor 'Test' compiled no op: ADD (the plugin refuses the op without giving a reason)."
            in caplog.text
        )
    assert compilations == ["Test"]


def test_vendors_are_asked_in_turn_until_one_takes_an_op(
    load: Load, compilations: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugins = copy_vendor(tmp_path / "plugins")
    text = (plugins / "LiteRtCompilerPlugin_Test.py").read_text()
    other = text.replace('soc_manufacturer = "Test"', 'soc_manufacturer = "Absent"')
    (plugins / "LiteRtCompilerPlugin_Absent.py").write_text(other)
    caplog.set_level(logging.INFO)
    assert doubled(load(raw("double"), plugins=str(plugins))) == 1
    assert compilations == ["Test"]  # Absent has no dispatch table, so nothing was compiled for it
    assert "was compiled for Test" in caplog.text


def test_the_warnings_of_who_takes_nothing_are_said_once_and_only_where_nobody_takes_an_op(
    load: Load, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugins = copy_vendor(tmp_path / "plugins")
    text = (plugins / "LiteRtCompilerPlugin_Test.py").read_text()
    coy = text.replace('= "Test"', '= "Coy"').replace("op.is_custom", "op.name == 'other'")
    (plugins / "LiteRtCompilerPlugin_Coy.py").write_text(coy)
    table = (VENDORS / "LiteRtDispatch_Test.py").read_text()
    for name in ("Coy", "Test"):
        (plugins / f"LiteRtDispatch_{name}.py").write_text(table)
    (tmp_path / "k.cl").touch()
    options = {"plugins": str(plugins), "tables": str(plugins)}
    infos = [CustomOpInfo(name, str(tmp_path / "k.cl")) for name in ("double", "other")]
    load(raw("double"), custom_op_infos=infos[:1], **options)
    assert "although an asset is given" not in caplog.text
    load(raw("ADD"), custom_op_infos=infos[1:], **options)
    assert caplog.text.count("an asset is given for op 'other', but the model has no such op") == 1
    with pytest.raises(
        LiteRtError,
        match=r"Vendor 'Coy' compiled no op: double, ADD, SUB, 1 more \(the plugin refuses",
    ):
        load(raw("ADD", "SUB", "MUL", "double"), soc_manufacturer="Coy", **options)


def test_a_vendor_s_error_is_raised_where_the_vendor_is_named_and_a_reason_where_not(
    load: Load, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugins = copy_vendor(tmp_path / "plugins")
    path = plugins / "LiteRtCompilerPlugin_Test.py"
    path.write_text(path.read_text().replace("calls = []", "raise OSError('no licence')"))
    with pytest.raises(LiteRtError, match=r"no licence.*vendor 'Test', in compile"):
        load(raw("double", "ADD"), plugins=str(plugins), soc_manufacturer="Test")
    assert doubled(load(raw("ADD"), plugins=str(plugins))) == 1
    caplog.clear()
    with pytest.raises(
        LiteRtError, match=r"double.*No vendor compiled the model when it was loaded.*no licence"
    ):
        load(raw("double"), plugins=str(plugins))
    assert not caplog.text  # the error contains the warning


BAD: dict[str, tuple[dict[str, Any], Status, str]] = {
    "unknown vendor": ({"soc_manufacturer": "Nobody"}, Status.NOT_FOUND, "'Nobody'"),
    "unknown SoC": (
        {"soc_manufacturer": "Test", "soc_model": "T9"},
        Status.INVALID_TOOL_CONFIG,
        "no SoC model 'T9'",
    ),
    "SoC of nobody": ({"soc_model": "T1"}, Status.INVALID_ARGUMENT, "but no manufacturer"),
    "option of nobody": (
        {"compiler_options": {"nobody_fast": "1"}},
        Status.INVALID_ARGUMENT,
        "no vendor has the compiler option 'nobody_fast'.*Test",
    ),
    "missing asset": (
        {"custom_op_infos": [CustomOpInfo("double", "missing.cl")]},
        Status.NOT_FOUND,
        r"asset file of op 'double'.*missing\.cl",
    ),
}


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "not kept"])
@pytest.mark.parametrize("kind", BAD)
def test_what_a_program_asks_for_and_cannot_have_is_an_error(
    load: Load, kind: str, keep: bool
) -> None:
    options, status, message = BAD[kind]
    with pytest.raises(LiteRtError, match=message) as error:
        load(raw("double"), keep=keep, **options)
    assert error.value.status is status


def test_options_for_a_stock_vendor_that_is_not_there_change_nothing(load: Load) -> None:
    options = Options(NPU | CPU)
    options.qualcomm_options.vtcm_size = 4
    model = load(raw("double"), qualcomm_options=options.qualcomm_options)
    assert doubled(model) == 1


def test_without_the_npu_nothing_is_compiled(load: Load, compilations: list[str]) -> None:
    assert doubled(load(raw("ADD"), accelerators=CPU)) == 1
    with pytest.raises(LiteRtError, match="double"):
        load(raw("double"), accelerators=CPU)
    assert compilations == []


def test_the_npu_alone_says_which_ops_no_vendor_takes(load: Load) -> None:
    with pytest.raises(
        LiteRtError, match=r"1 op \(ADD\) is not compiled for the NPU and needs the CPU"
    ) as error:
        load(raw("double", "ADD"), accelerators=NPU)
    assert error.value.status is Status.COMPILATION
    assert doubled(load(raw("double", "double"), accelerators=NPU)) == 2


def test_a_compiled_file_is_loaded_as_it_is(
    load: Load, compilations: list[str], cache: Path
) -> None:
    load(raw("double")).close()
    (entry,) = cache.glob("*.tflite")
    compiled = entry.read_bytes()
    entry.unlink()
    assert doubled(load(compiled)) == 1
    assert compilations == ["Test"] and not list(cache.iterdir())


def test_a_cache_that_cannot_be_written_costs_a_compilation_each_time(
    load: Load, compilations: list[str], cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache.write_text("a file, where a folder is to be")
    for _ in range(2):
        assert doubled(load(raw("double"))) == 1
    assert len(compilations) == 2
    assert (
        f"is not stored in the cache: the cache folder is a file ({cache}). Give a folder."
        in caplog.text
    )


def test_the_cache_drops_what_was_used_least_recently(tmp_path: Path) -> None:
    with read_model(raw("ADD", weights=1000)) as model:
        set_manifest(model, Manifest("Test", "T1", has_digest=True))
        data = to_bytes(model)
    folder = tmp_path / "cache"
    cache = CompileCache(str(folder), limit_bytes=2 * len(data) + 500)
    keys = [str(i) * 64 for i in range(3)]
    for age, key in zip((300, 200), keys, strict=False):
        with read_model(data) as model:
            stored = cache.store(key, model)
        assert stored
        stored.close()
        os.utime(folder / f"{key}.tflite", (age, age))
    found = cache.find(keys[0], Options())
    assert found and not isinstance(found, Nothing)
    (folder / "notes.txt").write_text("a user's own")
    with read_model(data) as model:
        stored = cache.store(keys[2], model)
    assert stored
    stored.close()
    assert sorted(os.listdir(folder)) == [f"{keys[0]}.tflite", f"{keys[2]}.tflite", "notes.txt"]
    assert found.file.view[80:] == data[80:]  # still open; the seal is in the first 80 bytes
    found.file.close()


PROGRAM = """
import sys
import numpy as np
from litert import CompiledModel, Environment, HardwareAccelerator
model, vendors, cache = sys.argv[1:]
environment = Environment.create(
    compiler_plugin_path=vendors, dispatch_library_path=vendors, compiler_cache_dir=cache
)
accelerators = HardwareAccelerator.NPU | HardwareAccelerator.CPU
with CompiledModel.from_file(model, accelerators, environment) as loaded:
    print(loaded.run({"x": np.ones((1, 4), np.float32)})["y0"][0, 0])
print(*sorted(m for m in sys.modules if m.endswith("LiteRtCompilerPlugin_Test")))
"""


def test_a_result_that_cannot_be_removed_stays_and_the_next_oldest_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder for several users, each user may be allowed to remove only their own files."""
    unlink = os.unlink
    cache = CompileCache(str(tmp_path), limit_bytes=5)
    paths = [tmp_path / f"{number * 64}.nothing" for number in "012"]
    for age, path in enumerate(paths[:2], 1):
        path.write_text("why")
        os.utime(path, (age, age))

    def refuse_the_first(path: str) -> None:
        if path == str(paths[0]):
            raise PermissionError(1, "Operation not permitted", path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", refuse_the_first)
    cache.store_nothing("2" * 64, Nothing("why"))
    assert [path.exists() for path in paths] == [True, False, True]


def test_processes_share_a_cache_and_a_plugin_is_not_imported_for_what_is_in_it(
    tmp_path: Path, cache: Path
) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(raw("double"))
    command = [sys.executable, "-c", PROGRAM, str(path), str(VENDORS), str(cache)]
    together = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in together:
        output, _ = process.communicate(timeout=100)
        assert process.returncode == 0 and output.startswith("2.0\n")
    assert [entry.suffix for entry in cache.iterdir()] == [".tflite"]
    later = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert later.stdout == "2.0\n\n"


def test_a_large_file_is_read_once_for_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_key, "_LARGE_FILE", 4)
    monkeypatch.setattr(compile_key, "_CLOCK_NS", -(10**12))  # as if the file were old
    path = tmp_path / "model.tflite"
    path.write_bytes(b"a large model")

    def digest() -> str:
        with MappedFile(path) as file:
            return compile_key.model_digest(file, str(tmp_path))

    assert digest() == sha256(b"a large model").hexdigest()
    (kept,) = tmp_path.glob("*.digest")
    write_entry(str(kept), compile_key._PURPOSE, b"0" * 64)
    assert digest() == "0" * 64  # the stored digest: the file was not read
    path.write_bytes(b"A larger model")
    assert digest() == sha256(b"A larger model").hexdigest()


def test_the_digest_of_a_file_that_is_just_being_written_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_key, "_LARGE_FILE", 4)
    path = tmp_path / "model.tflite"
    path.write_bytes(b"a large model")
    with MappedFile(path) as file:
        compile_key.model_digest(file, str(tmp_path))
    assert not list(tmp_path.glob("*.digest"))


def test_a_plugin_that_cannot_be_loaded_is_told_of(
    load: Load, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugins = copy_vendor(tmp_path / "plugins")
    (plugins / "LiteRtCompilerPlugin_Torn.py").write_text("PLUGIN = 1 +")
    assert doubled(load(raw("double"), plugins=str(plugins))) == 1
    assert "LiteRtCompilerPlugin_Torn.py is not used as a compiler: DYNAMIC_LOADING" in caplog.text


@pytest.mark.parametrize("mode", [0o700, 0o777], ids=["own folder", "shared folder"])
@pytest.mark.parametrize("problem", ["none", "others can write", "renamed", "no seal", "no key"])
def test_what_others_may_have_compiled_is_not_run(
    load: Load,
    cache: Path,
    tmp_path: Path,
    compilations: list[str],
    monkeypatch: pytest.MonkeyPatch,
    problem: str,
    mode: int,
) -> None:
    monkeypatch.setenv("LITERT_NPU_DATA_DIR", str(tmp_path / "data"))
    cache.mkdir()
    cache.chmod(mode)
    assert doubled(load(raw("double"))) == 1
    assert doubled(load(raw("double", "double"))) == 2
    entries = {len(path.read_bytes()): path for path in cache.glob("*.tflite")}
    one, two = (entries[size] for size in sorted(entries))
    assert {path.stat().st_mode & 0o777 for path in (one, two)} == {0o600}
    if problem == "others can write":
        one.chmod(0o620)
    elif problem == "renamed":
        two.rename(one)
    elif problem == "no seal":
        with read_model(one) as model:
            write_model(model, one)
    elif problem == "no key":
        (tmp_path / "data" / "litert-npu" / "key").unlink()
    compilations.clear()
    assert doubled(load(raw("double"))) == 1
    assert len(compilations) == (problem != "none")
