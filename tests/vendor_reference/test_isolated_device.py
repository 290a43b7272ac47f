"""Tests kernels that crash, hang or open files in a separate process: the host survives and names the kernel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel, HardwareAccelerator, Options
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.host.sandbox import why_missing
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from vendor_reference.programs.host_side import PROGRAMS, answer

pytestmark = pytest.mark.each_driver

COUNT = 4096
X = np.arange(COUNT, dtype=np.float32)
BOTH = HardwareAccelerator.NPU | HardwareAccelerator.CPU
GOOD = "y[i] = 2 * x[i];"

CRASHES = {
    "64 bytes past the end": "for (int k = 0; k < 16; k++) y[4096 + k] = 1;",
    "16 KiB past the end": "for (int k = 0; k < 4096; k++) y[4096 + k] = 1;",
    "4 GiB past the end": "y[(1ul << 30) + i] = 1;",
    "before the start": "for (int k = 1; k < 64; k++) y[-(long)k] = 1;",
    "null": "*(volatile __global float*)0 = x[i];",
    "trap": "__builtin_trap();",
}
SURVIVABLE = {
    "a large stack array": "volatile float a[1 << 20]; for (int k = 0; k < 1 << 20; k += 512) a[k] = x[i];",
    "a divergent barrier": "if (i % 2) barrier(CLK_LOCAL_MEM_FENCE);",
    "256 MiB local": "__local char big[256 << 20]; big[i] = 1;",
    "endless recursion": "y[i] = f(i, x[i]);",
    "division by zero": "volatile int zero = 0; y[i] = 3 / zero;",
    "half of an output": "if (i > 2000) return;",
    "a read past the end": "y[i] = x[i + (1 << 28)];",
}
"""Statements whose effect depends on the driver."""

OPEN = (
    "lea -256(%%rsp), %%rsp; push %%rax; push %%rcx; push %%rdx; push %%rsi; push %%rdi; push %%r11; "
    "push %1; push %0; pop %%rdi; mov $2, %%eax; xor %%esi, %%esi; xor %%edx, %%edx; syscall; "
    "pop %%rdi; mov %%rax, (%%rdi); pop %%r11; pop %%rdi; pop %%rsi; pop %%rdx; pop %%rcx; pop %%rax; "
    "lea 256(%%rsp), %%rsp"
)
"""x86-64 assembly of `*(long*)%1 = open(%0, O_RDONLY)`."""

Make = Callable[..., CompiledModel]


def kernel(name: str, bad: str, only: str = "x[0] < 0") -> str:
    """Returns a kernel that doubles its input; where `only` holds, it also executes `bad`."""
    recursive = (
        "float f(int n, float x) { return n < -1 ? x : f(n + 1, x) + 1; }\n" if "f(" in bad else ""
    )
    local = bad.startswith("__local")  # OpenCL C requires it at the start of the kernel
    done = f"if ({only}) {{ {bad} }}" if not local else bad
    return (
        f"{recursive}__kernel void {name}(__global const float* x, __global float* y) {{\n"
        f"  size_t i = get_global_id(0);\n  {done}\n  {GOOD if 'i]' not in bad[:4] else ''}\n}}\n"
    )


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Returns a function that builds a model with a chain of custom ops from kernels, and loads it isolated."""
    models: list[CompiledModel] = []

    def load(kernels: dict[str, str], **options: Any) -> CompiledModel:
        builder = ModelBuilder()
        now = builder.input("x", "float32", (COUNT,))
        infos = []
        for name, text in kernels.items():
            (tmp_path / f"{name}.cl").write_text(text)
            infos.append(CustomOpInfo(name, str(tmp_path / f"{name}.cl")))
            result = builder.tensor(f"{name}_y", "float32", (COUNT,))
            builder.custom(name, [now], [result])
            now = result
        builder.output(now)
        path = tmp_path / "model.tflite"
        write_model(builder.build(), path)
        chosen = Options(BOTH, isolated=True, custom_op_infos=infos, **options)
        model = CompiledModel.from_file(str(path), options=chosen)
        models.append(model)
        return model

    yield load
    for model in models:
        model.close()


def run(model: CompiledModel, value: Any = X) -> Any:
    (found,) = model.run({"x": value}).values()
    return found


@pytest.mark.parametrize("bad", CRASHES.values(), ids=CRASHES)
def test_a_kernel_that_crashes_is_named_and_the_next_run_is_good(make: Make, bad: str) -> None:
    text = kernel("Bad", bad)
    model = make({"Good": kernel("Good", ""), "Bad": text})
    np.testing.assert_array_equal(run(model), 4 * X)
    with pytest.raises(LiteRtError, match=r"crashed in invoke of '\w+', kernel 'Bad' of op 'Bad'"):
        run(model, X - 1)
    np.testing.assert_array_equal(run(model), 4 * X)


def test_a_kernel_that_hangs_is_named(make: Make) -> None:
    endless = "volatile int go = 1; while (go) {}"
    model = make({"Bad": kernel("Bad", endless), "Good": kernel("Good", "")}, call_timeout_s=1)
    np.testing.assert_array_equal(run(model), 4 * X)
    what = (
        r"did not finish within 1 s, and was stopped in invoke of '\w+', kernel 'Bad' of op 'Bad'"
    )
    with pytest.raises(LiteRtError, match=what):
        run(model, X - 1)
    np.testing.assert_array_equal(run(model), 4 * X)


@pytest.mark.parametrize("bad", SURVIVABLE.values(), ids=SURVIVABLE)
def test_whatever_a_kernel_does_the_host_lives(make: Make, bad: str) -> None:
    try:
        model = make({"Bad": kernel("Bad", bad, "x[1] > 0")}, build_timeout_s=20, call_timeout_s=5)
        assert run(model).shape == X.shape
    except LiteRtError as error:
        assert "Bad" in str(error)


@pytest.mark.skipif(bool(why_missing()), reason="this system has no sandbox")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the assembly is x86-64's")
@pytest.mark.parametrize("sandbox", ["require", "off"])
def test_a_kernel_in_a_sandbox_opens_no_file(make: Make, tmp_path: Path, sandbox: str) -> None:
    """Checks a system call from a driver's thread: in the sandbox, open() fails with EACCES."""
    (tmp_path / "secret").write_text("secret")
    path = f"{tmp_path / 'secret'}\0"
    letters = " ".join(f"path[{i}] = {ord(letter)};" for i, letter in enumerate(path))
    text = (
        "__kernel void Bad(__global const float* x, __global float* y) {\n"
        f"  char path[512]; {letters} long found[1];\n"
        f'  __asm__ volatile("{OPEN}" :: "r"(path), "r"(found) : "memory");\n'
        "  y[get_global_id(0)] = found[0];\n}\n"
    )
    try:
        found = run(make({"Bad": text}, sandbox=sandbox))
    except LiteRtError as error:  # with PoCL, `__asm__` is a poisoned identifier
        assert "poisoned" in str(error)
        return
    if sandbox == "off":
        assert (found > 0).sum() > 100  # later opens fail: too many open files
    else:
        np.testing.assert_array_equal(found, np.full_like(X, -13))


def test_nothing_that_runs_isolated_is_written_to_the_cache_but_by_the_host(
    make: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path / "cache"))
    for _ in range(2):
        np.testing.assert_array_equal(run(make({"Good": kernel("Good", "")})), 2 * X)
    programs = list((tmp_path / "cache").rglob("*.clb"))
    assert len(programs) == 1
    assert "not cached" not in caplog.text  # the host process has a cache


def test_that_there_is_no_cache_is_said_once(
    make: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path / "file" / "folder"))
    np.testing.assert_array_equal(run(make({"Good": kernel("Good", "")})), 2 * X)
    assert caplog.text.count("Kernels cannot be cached: ") == 1


@pytest.mark.parametrize("name", ["face_detection_short_range", "hand_landmark_lite"])
def test_a_real_network_has_the_same_bits(networks: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "compiled.tflite"
    compiler = CompilerOptions(vendor_options={"reference_ops": "all"})
    apply_plugin(networks / f"{name}.tflite", target, ApplyOptions(compiler=compiler))
    outputs = []
    for isolated in (False, True):
        options = Options(BOTH, isolated=isolated)
        with CompiledModel.from_file(str(target), options=options) as model:
            ((signature, names),) = model.get_signature_list().items()
            (details,) = model.get_input_tensor_details(signature).values()
            picture = np.random.default_rng(0).random(details["shape"], dtype=np.float32)
            found = model.run({names["inputs"][0]: picture})
            outputs.append({key: value.tobytes() for key, value in found.items()})
    assert outputs[0] == outputs[1]


def test_the_host_builds_for_devices_that_it_has_alone() -> None:
    with pytest.raises(LiteRtError, match="the device process sent an unknown request, 'open'"):
        answer({}, "open", "/etc/passwd")
    with pytest.raises(
        LiteRtError,
        match="the device process needs programs for an OpenCL device that does not exist",
    ):
        answer({}, PROGRAMS, {"identity": ["/tmp/evil.so"], "programs": []})
