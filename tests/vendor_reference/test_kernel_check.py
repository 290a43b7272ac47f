"""Tests kernel builds at compile time: their messages, and compiler processes that crash or hang."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.progress import listening
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Subgraph
from tests.vendor_reference.executables import undeclared
from tests.vendor_reference.open_sandbox import open_sandbox
from vendor_reference.compiler.built_kernels import BuiltProgram
from vendor_reference.compiler.kernel_check import build_programs
from vendor_reference.compiler.plugin import PLUGIN
from vendor_reference.drivers.driver import CRASH_HINT
from vendor_reference.executable.byte_code import read_executable
from vendor_reference.executable.executable import Executable, KernelTask, Program, Source
from vendor_reference.programs import compiler_process
from vendor_reference.programs.program_cache import ProgramCache

FAKE = "tests.vendor_reference.fake_checks"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(folder))
    return folder


def pretend(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    open_sandbox(monkeypatch, Path(__file__).parents[2])
    monkeypatch.setattr(compiler_process, "_CHILD", f"{FAKE}:{function}")


def executable(*texts: str) -> tuple[Executable, dict[str, bytes]]:
    """Returns an executable with one program per text, and the assets."""
    assets = {f"Op{i}": text.encode() for i, text in enumerate(texts)}
    programs = [
        Program("", (Source(name, f"k{i}.cl", hashlib.sha256(data).hexdigest()),))
        for i, (name, data) in enumerate(assets.items())
    ]
    return Executable("EMU8", (), programs, ()), assets


def test_each_program_is_answered_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "answer")
    built = build_programs(*executable("kernel_a kernel_b", "kernel_c warn"))
    assert built == [
        BuiltProgram({"kernel_a": undeclared(2), "kernel_b": undeclared(2)}),
        BuiltProgram({"kernel_c": undeclared(2)}, "a warning"),
    ]


def test_what_was_built_before_is_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "answer")
    first = build_programs(*executable("kernel_a", "kernel_c warn"))
    pretend(monkeypatch, "refuse")
    assert build_programs(*executable("kernel_a", "kernel_c warn")) == first
    with pytest.raises(LiteRtError, match="does not build"):  # another text
        build_programs(*executable("kernel_a", "kernel_d"))


def test_ctrl_c_keeps_what_was_built_until_then(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    def interrupt(*now: object) -> None:
        if now == ("build", 2, 3):
            raise KeyboardInterrupt

    pretend(monkeypatch, "answer")
    with pytest.raises(KeyboardInterrupt) as error, listening(interrupt):
        build_programs(*executable("kernel_a", "kernel_b", "kernel_c"))
    assert error.value.args == ("2 of 3 kernels are built, and kept in the cache",)
    pretend(monkeypatch, "refuse")
    assert len(build_programs(*executable("kernel_a", "kernel_b"))) == 2


def test_another_driver_builds_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "answer")
    build_programs(*executable("kernel_a"))
    pretend(monkeypatch, "refuse")
    monkeypatch.setenv("POCL_DEVICES", "basic")
    monkeypatch.setattr(ProgramCache, "find", lambda *_: None)  # its key has the device only
    with pytest.raises(LiteRtError, match="does not build"):
        build_programs(*executable("kernel_a"))


def test_a_failed_build_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "refuse")
    with pytest.raises(LiteRtError) as error:
        build_programs(*executable("kernel_a"))
    assert error.value.status is Status.COMPILATION and "k.cl:3:1" in error.value.what
    pretend(monkeypatch, "answer")
    assert build_programs(*executable("kernel_a")) == [BuiltProgram({"kernel_a": undeclared(2)})]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"kernels": {"kernel_a": 2}, "log": ""}',
        b'{"kernels": {"kernel_a": {"arguments": [["a", "b"]], "max_group_size": 1}}, "log": ""}',
    ],
)
def test_a_damaged_memory_is_no_harm(
    monkeypatch: pytest.MonkeyPatch, cache: Path, damage: bytes
) -> None:
    pretend(monkeypatch, "answer")
    build_programs(*executable("kernel_a"))
    (remembered,) = (cache / "litert-npu-cache" / "built").iterdir()
    remembered.write_bytes(damage)
    assert build_programs(*executable("kernel_a")) == [BuiltProgram({"kernel_a": undeclared(2)})]


def test_a_cache_that_cannot_be_written_is_no_harm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path / "file" / "below"))
    pretend(monkeypatch, "answer")
    assert build_programs(*executable("kernel_a")) == [BuiltProgram({"kernel_a": undeclared(2)})]


def test_a_compiler_that_crashes_is_an_error_with_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend(monkeypatch, "crash")
    with pytest.raises(LiteRtError) as error:
        build_programs(*executable("kernel_a", "kernel_b"))
    assert error.value.status is Status.COMPILATION and error.value.where == "k1.cl"
    assert "the OpenCL compiler crashed (SIGSEGV" in error.value.what
    assert error.value.hint.startswith(CRASH_HINT)


def test_a_compiler_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "hang")
    with pytest.raises(LiteRtError) as error:
        build_programs(*executable("kernel_a"), timeout_s=0.5)
    assert error.value.status is Status.COMPILATION and error.value.where == "k0.cl"
    assert "did not finish within 0.5 s, and was stopped" in error.value.what


def test_an_answer_that_makes_no_sense_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "babble")
    with pytest.raises(LiteRtError):
        build_programs(*executable("kernel_a"))


def model(options: dict[str, object] | None = None) -> Subgraph:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    b.output(b.custom("Mine", [x], [("y", "float32", (4,))], options=options))  # type: ignore[arg-type]
    return b.build().subgraphs[0]


def compiled(path: Path, check: bool = True) -> tuple[KernelTask, list[str]]:
    """Compiles the op and returns its task and the notes."""
    infos = [CustomOpInfo("Mine", str(path))]
    plugin = PLUGIN.create(EnvironmentOptions(), CompilerOptions(infos, check_kernels=check))
    result = plugin.compile("EMU8", [model()])
    (task,) = read_executable(result.byte_code[0].view).functions[0].kernel_tasks
    return task, list(result.notes)


@pytest.mark.parametrize(
    ("text", "check", "entry"),
    [
        ("kernel_a", True, "kernel_a"),  # the text shows no kernel, so the build gives the name
        ("kernel_a", False, "kernel_a"),  # built although checks are off: the text shows no kernel
        ("__kernel void b(int x, int y) {}", False, "b"),  # the text shows the kernel
    ],
)
def test_the_kernel_is_the_one_that_the_program_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, check: bool, entry: str
) -> None:
    pretend(monkeypatch, "answer")
    (tmp_path / "k.cl").write_text(text)
    task, notes = compiled(tmp_path / "k.cl", check)
    assert task.entry == entry and not notes


def test_what_the_compiler_warns_of_is_noted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, "answer")
    (tmp_path / "k.cl").write_text("kernel_a warn")
    assert compiled(tmp_path / "k.cl")[1] == ["a warning"]


def test_a_missing_entry_point_is_refused_with_the_kernels_there_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, "answer")
    (tmp_path / "k.cl").write_text("kernel_b kernel_a")
    with pytest.raises(LiteRtError) as error:
        compiled(tmp_path / "k.cl")
    assert error.value.status is Status.NOT_FOUND
    assert error.value.what == "the asset has no kernel 'Mine', only kernel_a, kernel_b"
    assert error.value.where == "k.cl, op 'Mine'" and "entry" in error.value.hint
    (tmp_path / "l.json").write_text('{"version": 1, "sources": ["k.cl"], "entry": "kernel_c"}')
    with pytest.raises(LiteRtError, match=r"the asset has no kernel 'kernel_c'"):
        compiled(tmp_path / "l.json")


def test_a_wrong_argument_count_is_refused_with_both_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, "answer")
    (tmp_path / "k.cl").write_text("kernel_a")
    (tmp_path / "l.json").write_text(
        '{"version": 1, "sources": ["k.cl"], "arguments": [{"output": 0}]}'
    )
    with pytest.raises(LiteRtError) as error:
        compiled(tmp_path / "l.json")
    assert (
        error.value.what
        == "the code declares kernel 'kernel_a' with 2 arguments, but the layer binds 1 argument"
    )
    assert error.value.where == "l.json, op 'Mine'"


def test_a_kernel_that_does_not_build_shows_the_users_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "h.h").write_text("// fine\nfloat half_of(float x) { return x / 2 }\n")
    (tmp_path / "k.cl").write_text(
        '#include "inc/h.h"\n__kernel void Mine(__global float* x, __global float* y) {}\n'
    )
    with pytest.raises(LiteRtError) as error:
        compiled(tmp_path / "k.cl")
    assert error.value.status is Status.COMPILATION
    assert "inc/h.h:2:" in error.value.what


def test_opencl_itself_says_what_a_program_has(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text(
        "#define OTHER(name) __kernel void name ## _f32\n"
        "#ifdef PARAM_never\nOTHER(b)(__global float* x) {}\n#endif\n"
        "OTHER(a)(__global INPUT0_TYPE* x, __global OUTPUT0_TYPE* y) { y[0] = x[0]; }\n"
    )
    assert compiled(tmp_path / "k.cl")[0].entry == "a_f32"
