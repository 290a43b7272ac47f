"""Tests libraries that are not plugins, and plugins that break the rules."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler_plugin.native.native_plugin import NativePluginFactory
from compiler_plugin.native.plugin_library import FUNCTIONS, PluginLibrary
from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.version import COMPILER_PLUGIN_API_VERSION
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.compiler_plugin.native.conftest import SOURCES, build_plugin, wrap

Apply = Callable[[str], Report]


@pytest.fixture
def apply(scribe: Path, tmp_path: Path) -> Apply:
    """Compiles a small model with a plugin that makes one mistake."""

    def run(naughty: str) -> Report:
        shutil.copy(scribe.parent / "getters.inc", tmp_path)
        for name in ("option_rewrites.inc", "option_rewrites_list.inc"):
            shutil.copy(scribe.parent / name, tmp_path)
        sources = [SOURCES / "naughty.c", SOURCES / "rewrites.c"]
        library = build_plugin(tmp_path, sources, "Naughty", f"-DNAUGHTY={naughty}")
        builder = ModelBuilder()
        x = builder.input("x", "float32", (2,))
        builder.output(builder.op("NEG", [x], [("y", "float32", (2,))]))
        model, output = tmp_path / "model.tflite", tmp_path / "out.tflite"
        write_model(builder.build(), model)
        options = ApplyOptions("Scribe", "quill", [str(wrap(library, tmp_path))])
        try:
            return apply_plugin(model, output, options)
        except LiteRtError:
            assert not output.exists()
            raise

    return run


@pytest.mark.parametrize(
    ("naughty", "status", "says"),
    [
        ("CREATE", Status.INVALID_TOOL_CONFIG, "LiteRtCreateCompilerPlugin failed"),
        ("CREATE_NULL", Status.DYNAMIC_LOADING, "returns NULL instead of a plugin"),
        ("MANUFACTURER", Status.DYNAMIC_LOADING, "SocManufacturer returns NULL"),
        ("OLD", Status.WRONG_VERSION, "0.1.5"),
        ("PUSH_GARBAGE", Status.INVALID_ARGUMENT, "LiteRtCompilerPluginPartition failed"),
        (
            "PUSH_TWICE",
            Status.INVALID_ARGUMENT,
            "the plugin passed op 0 (NEG) of subgraph 0 to op_list.push twice",
        ),
        ("ODD_STATUS", Status.UNKNOWN, "4711"),
        (
            "NO_RESULT",
            Status.INVALID_ARGUMENT,
            "LiteRtCompilerPluginCompile returns NULL instead of a result",
        ),
        ("NULL_BYTE_CODE", Status.INVALID_ARGUMENT, "byte code module 0 has"),
        ("ODD_NAME", Status.INVALID_ARGUMENT, "NPU call 0 has the invalid name"),
        (
            "NO_SUCH_MODULE",
            Status.INVALID_ARGUMENT,
            "byte code index 9, but the only byte code module has index 0",
        ),
        ("KEEP_HANDLE", Status.INVALID_ARGUMENT, "LiteRtCompilerPluginCompile failed"),
    ],
)
def test_what_a_plugin_does_wrong_is_an_error_that_names_it(
    apply: Apply, naughty: str, status: Status, says: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        apply(naughty)
    cause: BaseException | None = error.value
    statuses = []
    while isinstance(cause, LiteRtError):
        statuses.append(cause.status)
        cause = cause.__cause__
    assert status in statuses
    assert says in str(error.value)
    assert "Naughty" in str(error.value) or "Scribe" in str(error.value)


def test_an_op_that_the_compiler_refuses_stays_on_the_cpu(apply: Apply) -> None:
    report = apply("REFUSE")
    assert [op.call for op in report.ops] == [""]
    assert "LiteRtCompilerPluginCompile failed" in report.ops[0].reason


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_that_is_missing_is_named(scribe: Path, tmp_path: Path, function: str) -> None:
    # Renames one symbol in the library's string table.
    image = scribe.read_bytes()
    name = b"\0" + function.encode() + b"\0"
    assert name in image
    broken = tmp_path / "libLiteRtCompilerPlugin_Broken.so"
    broken.write_bytes(image.replace(name, b"\0X" + name[2:]))
    with pytest.raises(LiteRtError, match=function) as error:
        PluginLibrary(broken)
    assert error.value.status is Status.DYNAMIC_LOADING


@pytest.mark.parametrize(
    ("content", "says"), [(None, "No such file"), (b"", "too short"), (b"#!/bin/sh\n" * 99, "ELF")]
)
def test_what_does_not_load_says_why(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "libLiteRtCompilerPlugin_None.so"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LiteRtError, match=says) as error:
        PluginLibrary(path)
    assert error.value.status is Status.DYNAMIC_LOADING
    assert "ctypes" not in str(error.value)
    assert error.value.hint.startswith(
        "Build the library" if content is None else "The file exists, but is damaged or"
    )


def test_a_library_for_another_processor_says_why(tmp_path: Path, scribe: Path) -> None:
    path = tmp_path / "libLiteRtCompilerPlugin_Foreign.so"
    content = bytearray(scribe.read_bytes())
    content[18:20] = (247).to_bytes(2, "little")  # e_machine BPF: no host machine runs it
    path.write_bytes(content)
    with pytest.raises(LiteRtError, match="is not a library for this machine") as error:
        PluginLibrary(path)
    assert error.value.status is Status.DYNAMIC_LOADING


def test_a_factory_says_who_the_vendor_is(scribe: Path) -> None:
    factory = NativePluginFactory(scribe)
    assert factory.soc_manufacturer == "Scribe"
    assert factory.soc_models == ("quill", "pencil")
    assert factory.sdk_version == "1.2 of a kind"
    assert factory.api_version == COMPILER_PLUGIN_API_VERSION
    factory.check_compiler_compatibility(COMPILER_PLUGIN_API_VERSION, "quill", CompilerOptions())
    with pytest.raises(LiteRtError) as error:
        factory.check_compiler_compatibility(
            COMPILER_PLUGIN_API_VERSION, "pencil", CompilerOptions()
        )
    assert error.value.status is Status.UNSUPPORTED


def test_custom_op_infos_are_found_by_name(
    scribe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "options.txt"
    monkeypatch.setenv("SCRIBE_OPTIONS", str(written))
    infos = [CustomOpInfo("Sinh", "/a/sinh.cl"), CustomOpInfo("My Op", "/ä b/c,d.xml")]
    plugin = NativePluginFactory(scribe).create(EnvironmentOptions(), CompilerOptions(infos))
    plugin.close()
    assert written.read_text() == "asset Sinh /a/sinh.cl\nasset My Op /ä b/c,d.xml\n"
