"""Tests that each program is built once, even if its compiler crashes, hangs, or leaves a broken cache entry."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.vendor_reference.executables import undeclared
from tests.vendor_reference.open_sandbox import open_sandbox
from vendor_reference.drivers.driver import CRASH_HINT
from vendor_reference.programs.program_text import ProgramText

KERNEL = "__kernel void f(__global float* x) { x[get_global_id(0)] = %d; }\n"


def text(number: int, name: str = "k.cl") -> ProgramText:
    return ProgramText(name, f'#line 1 "{name}"\n{KERNEL % number}', "")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all programs that are compiled after this fixture is set up."""
    from vendor_reference.device.program_builder import ProgramBuilder

    names: list[str] = []
    real = ProgramBuilder._compile

    def compile_and_note(builder: ProgramBuilder, texts: Sequence[ProgramText]) -> Iterator[Any]:
        names.extend(text.name for text in texts)
        return real(builder, texts)

    monkeypatch.setattr(ProgramBuilder, "_compile", compile_and_note)
    return names


@pytest.fixture
def builder(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A builder with its own cache folder."""
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path / "cache"))
    return new_builder(device)


def new_builder(device: Any) -> Any:
    from vendor_reference.device.program_builder import ProgramBuilder

    return ProgramBuilder(device, device.library)


def entry(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "cache" / "litert-npu-cache" / "programs").iterdir()
    return path


def test_a_program_is_compiled_once_for_all(builder: Any, device: Any, compiled: list[str]) -> None:
    first, other, same = builder.build([text(1, "a"), text(2, "b"), text(1, "a")])
    assert first is same and first is not other
    assert compiled == ["a", "b"]
    assert builder.build([text(2, "b")]) == [other]
    assert compiled == ["a", "b"]
    (found,) = new_builder(device).build([text(2, "b")])
    assert compiled == ["a", "b"] and found is not other
    assert found.create_kernel("f").num_args == 1


def test_a_binary_that_the_driver_refuses_is_compiled_again(
    builder: Any, device: Any, compiled: list[str]
) -> None:
    from vendor_reference.programs.program_cache import CompiledProgram, ProgramCache

    junk = CompiledProgram({"f": undeclared(1)}, b"not a binary of any driver")
    ProgramCache(device.info.identity).store(text(1), junk)
    assert builder.build([text(1)])[0].create_kernel("f")
    assert compiled == ["k.cl"]


def test_a_cache_folder_that_cannot_be_written_is_no_error(
    device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path / "file"))
    assert new_builder(device).build([text(1)])[0].create_kernel("f")


def test_an_error_has_the_users_file_and_line(builder: Any) -> None:
    bad = ProgramText("my op.cl", '#line 1 "defines"\n#line 1 "my op.cl"\n\n\nnonsense here;\n', "")
    with pytest.raises(LiteRtError) as error:
        builder.build([bad])
    assert error.value.status is Status.COMPILATION
    assert error.value.where == "my op.cl, line 3"
    assert "nonsense" in error.value.what and error.value.hint


def test_a_driver_that_builds_nothing_is_at_fault_and_not_the_kernel(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks a driver like PoCL's wheel on a CPU that its LLVM does not know."""
    import pyopencl as cl

    from vendor_reference.device import compiler

    monkeypatch.setattr(compiler, "PROBE", ProgramText("probe.cl", "no kernel", ""))
    context = cl.Context([device.cl_device])
    with pytest.raises(LiteRtError) as error:
        compiler.compile_text(context, device.cl_device, ProgramText("k.cl", "nonsense", ""))
    assert error.value.status is Status.COMPILATION
    assert "cannot build any kernel" in error.value.what and device.info.name in error.value.where
    assert "The kernel is not the cause" in error.value.hint


def test_an_error_inside_a_macro_of_the_driver_has_the_users_place_alone(builder: Any) -> None:
    bad = ProgramText(
        "k.cl", '#line 1 "k.cl"\n__kernel void f(__global float* y) { y[0] = sin(1.0f, 2); }', ""
    )
    with pytest.raises(LiteRtError) as error:
        builder.build([bad])
    assert error.value.where == "k.cl, line 1" and "Spelling" not in error.value.what


@pytest.mark.parametrize(
    ("defines", "hint"),
    [
        ("#define PARAM_slope 1\n#define PARAM_n 2\n", "PARAM_slope, PARAM_n in this op."),
        (
            "",
            "none in this op. If the op's options are a C struct, describe the layer in a .json "
            "file: litert-npu layer new writes such a file.",
        ),
        ("#define PARAM_a 1\n", "PARAM_a in this op."),
    ],
)
def test_a_define_of_an_option_that_the_op_lacks_is_told_of(
    builder: Any, defines: str, hint: str
) -> None:
    text = f"{defines}__kernel void f(__global float* y) {{ y[0] = PARAM_alpha; }}"
    with pytest.raises(LiteRtError) as error:
        builder.build([ProgramText("k.cl", text, "")])
    assert error.value.hint == (
        f"A .cl layer has a PARAM_ define for each option of its op: {hint} "
        "If the layer has a description, only the defines of the description exist."
    )


def test_a_define_of_a_tensor_that_the_op_lacks_is_told_of(builder: Any) -> None:
    text = "#define INPUT0_DIMS 1\n__kernel void f(__global float* y) { y[0] = INPUT1_DIMS; }"
    with pytest.raises(LiteRtError) as error:
        builder.build([ProgramText("k.cl", text, "")])
    assert error.value.hint.startswith("The op has 1 input, so INPUT1_DIMS is not defined.")


@pytest.mark.parametrize("options", ["-not-an-option", "-DX=1 -D"])
def test_options_that_the_compiler_does_not_take_are_named(builder: Any, options: str) -> None:
    with pytest.raises(LiteRtError) as error:
        builder.build([ProgramText("k.cl", KERNEL % 1, options)])
    assert error.value.status is Status.COMPILATION and error.value.where == "k.cl"
    assert (
        "build_options (.json)" in error.value.hint and "CompilerOptions (.xml)" in error.value.hint
    )
    assert error.value.hint.endswith(options)


@pytest.mark.parametrize(
    "statement",
    [
        "half a = x[0];",
        "x[0] = x[1] + x[2];",
        "x[0] = 1.0f;",
        "half4 v;",
        "x[0] = convert_half(1.0f);",
    ],
)
def test_arithmetic_with_half_builds_or_gets_a_hint(
    builder: Any, device: Any, statement: str
) -> None:
    kernel = ProgramText("k.cl", f"__kernel void f(__global half* x) {{ {statement} }}", "")
    if device.info.has_fp16:
        (program,) = builder.build([kernel])
        assert program.create_kernel("f")
        return
    with pytest.raises(LiteRtError) as error:
        builder.build([kernel])
    assert "vload_half" in error.value.hint and "vstore_half" in error.value.hint


def test_what_was_compiled_before_an_error_is_not_lost(
    builder: Any, device: Any, compiled: list[str]
) -> None:
    with pytest.raises(LiteRtError):
        builder.build([text(1, "good"), ProgramText("bad", "nonsense", "")])
    new_builder(device).build([text(1, "good")])
    assert compiled == ["good", "bad"]


def test_a_kernel_that_is_not_there_is_an_error_with_those_that_are(builder: Any) -> None:
    (program,) = builder.build([text(1)])
    with pytest.raises(LiteRtError) as error:
        program.create_kernel("g")
    assert error.value.status is Status.NOT_FOUND
    assert error.value.what == "the source code has no kernel 'g', only 'f'"


@pytest.mark.parametrize(
    ("function", "says"),
    [("crash", "crashed (SIGSEGV"), ("hang", "did not finish within 0.5 s"), ("leave", "status 3")],
)
def test_a_compiler_that_fails_is_an_error_that_names_the_program(
    builder: Any,
    device: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    function: str,
    says: str,
) -> None:
    from vendor_reference.device import program_builder
    from vendor_reference.programs import compiler_process

    monkeypatch.syspath_prepend(str(tmp_path))
    open_sandbox(monkeypatch, tmp_path)
    (tmp_path / "compilers_of_test_device_builds.py").write_text(
        "import os, time\n"
        "def crash(_):\n    yield {'kernels': {}, 'log': '', 'binary': ''}\n    os.kill(os.getpid(), 11)\n"
        "def hang(_):\n    yield {'kernels': {}, 'log': '', 'binary': ''}\n    time.sleep(60)\n"
        "def leave(_):\n    yield {'kernels': {}, 'log': '', 'binary': ''}\n    os._exit(3)\n"
    )
    monkeypatch.setattr(compiler_process, "_CHILD", f"compilers_of_test_device_builds:{function}")
    monkeypatch.setattr(compiler_process, "TIMEOUT_S", 0.5 if function == "hang" else 60)
    monkeypatch.setattr(program_builder.ProgramBuilder, "load", lambda *_: None)
    with pytest.raises(LiteRtError) as error:
        builder.build([text(1, "first"), text(2, "second")])
    assert error.value.status is Status.COMPILATION
    assert says in error.value.what and error.value.where == "second"
    assert error.value.hint == CRASH_HINT


def test_nothing_is_compiled_where_no_process_can_be_started(
    builder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(LiteRtError, match="the OpenCL compiler cannot start") as error:
        builder.build([text(77)])
    assert error.value.status is Status.DYNAMIC_LOADING


VECTORS = """
__kernel void wide(__global const float* a, __global const float* w, __global float* b) {
    const int i = get_global_id(0);
    float16 s = 0;
    for (int k = 0; k < 64; k++) s += vload16(k, a + i * 16) * vload16(0, w + k * 16);
    float8 t = s.lo + s.hi; float4 u = t.lo + t.hi;
    b[i] = u.x + u.y + u.z + u.w + (convert_int16(s)).s0;
}
"""


def test_a_kernel_that_breaks_compilers_is_an_error_and_no_crash(
    builder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks a kernel that crashes PoCL 3.0's compiler, or makes it hang."""
    from vendor_reference.programs import compiler_process

    with monkeypatch.context() as impatient:
        impatient.setattr(compiler_process, "TIMEOUT_S", 3)
        try:
            builder.build([ProgramText("wide.cl", VECTORS, "")])
        except LiteRtError as error:
            assert error.status is Status.COMPILATION and error.where == "wide.cl"
    assert builder.build([text(5)])[0].create_kernel("f")


RUN = """
import os, sys
from vendor_reference.dispatch import open_device
from vendor_reference.programs.program_text import ProgramText
from tests.vendor_reference.executables import DOUBLE, doubling
from tests.vendor_reference.test_device_functions import Runner

if len(sys.argv) > 2:  # as a program does that uses OpenCL itself
    import pyopencl
    [platform.get_devices() for platform in pyopencl.get_platforms()]
device = open_device(sys.argv[1])
print(Runner(device, doubling(), DOUBLE)([1, 2, 3, 4]).tolist())
print(os.environ.get("POCL_CACHE_DIR"))
"""


def run_in_new_process(
    device: Any, cache: Path, pocl_cache: Path | None = None, *, opencl_first: bool = False
) -> None:
    wanted = f"{device.info.platform_version}:{device.info.name}"
    environment = {name: v for name, v in os.environ.items() if name != "POCL_CACHE_DIR"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    environment["LITERT_NPU_CACHE_DIR"] = str(cache)
    if pocl_cache is not None:
        environment["POCL_CACHE_DIR"] = str(pocl_cache)
    done = subprocess.run(
        [sys.executable, "-c", RUN, wanted, *(["first"] if opencl_first else [])],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"[2.0, 4.0, 6.0, 8.0]\n{pocl_cache}\n", done.stderr


@pytest.mark.driver("pocl")
def test_a_process_leaves_programs_with_their_variants_and_nothing_else(
    device: Any, tmp_path: Path
) -> None:
    run_in_new_process(device, tmp_path / "cache")
    assert entry(tmp_path).suffix == ".clb"
    assert not list((tmp_path / "cache" / "litert-npu-cache" / "scratch").iterdir())
    first = entry(tmp_path).read_bytes()
    assert re.search(rb'"variants": \["MyOp \[4\] None"\]', first)
    run_in_new_process(device, tmp_path / "cache")
    assert entry(tmp_path).read_bytes() == first


@pytest.mark.driver("pocl")
def test_a_broken_entry_in_pocls_cache_is_never_met(device: Any, tmp_path: Path) -> None:
    """Checks cache files such as a crash during a build leaves behind."""
    pocl_cache = tmp_path / "pocl"
    pocl_cache.mkdir()
    run_in_new_process(device, tmp_path / "cache", pocl_cache, opencl_first=True)
    broken = [path for path in pocl_cache.rglob("*") if path.is_file()]
    assert {"program.bc", "MyOp.so"} <= {path.name for path in broken}
    for path in broken:
        path.write_bytes(b"")
    run_in_new_process(device, tmp_path / "cache", pocl_cache)
    entry(tmp_path).unlink()
    run_in_new_process(device, tmp_path / "cache", pocl_cache)
