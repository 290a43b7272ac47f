"""Tests `litert-npu layer` in child processes: a kernel that crashes or hangs only produces an error message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from litert_npu_tools.layer import safe_process

from litert.core.errors import ChildEndedError, LiteRtError
from litert.core.status import Status
from tests.tools.conftest import LitertNpu
from tests.tools.layer.conftest import SHAPES, SOFTSIGN

Capture = pytest.CaptureFixture[str]


def test_what_a_kernel_prints_reaches_the_user_once(
    author: Path, litert_npu: LitertNpu, capfd: pytest.CaptureFixture[str]
) -> None:
    (author / "Softsign.cl").write_text(
        SOFTSIGN.replace("y[i]", 'if (i == 3) printf("here is %d\\n", (int) i);\n y[i]')
    )
    run = ("layer", "run", "Softsign.cl", *SHAPES, '--options={"alpha": 2.0}', "--repeat=3")
    assert litert_npu(*run) == 0
    assert capfd.readouterr().err.count("here is 3") == 1


def test_a_read_of_local_memory_that_nobody_wrote_is_found(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    (author / "k.cl").write_text(
        "__kernel void k(__global const float* x, __global float* y) {\n"
        "  size_t i = get_global_id(0);\n  __local float of_group[8];\n"
        "  if (x[i] > 9) of_group[i] = x[i];\n  y[i] = of_group[7 - i];\n}\n"
    )
    # On a busy machine, a driver's thread may start late and use memory of its own.
    assert any(litert_npu("layer", "run", "k.cl", *SHAPES, "--repeat=0") == 1 for _ in range(5))
    printed = capsys.readouterr().out
    assert "depends on the old content of local or private memory" in printed or "a race" in printed


def test_a_compiler_that_takes_too_long_is_stopped(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("layer", "check", "Softsign.cl", *SHAPES, "--timeout_s=0.1") == 2
    printed = capsys.readouterr().err
    assert "TIMEOUT_EXPIRED: the process did not finish within 0.1 s" in printed
    assert "endless loop" not in printed and "raise --timeout_s" in printed


HOSTILE = {
    "an endless loop": (
        "volatile int go = 1; while (go) y[0] = x[0];",
        "--timeout_s=6",
        "TIMEOUT_EXPIRED: the process did not finish within 6 s, and was stopped while kernel 'k' was running",
    ),
    "a wild write": (
        "y[1L << 36] = x[0];",
        "--timeout_s=60",
        "RUNTIME_FAILURE: the process crashed (SIGSEGV: Segmentation fault) while kernel 'k' was running",
    ),
}


@pytest.mark.parametrize(("body", "limit", "said"), HOSTILE.values(), ids=HOSTILE)
def test_a_kernel_that_crashes_or_hangs_costs_a_message(
    author: Path,
    litert_npu: LitertNpu,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    body: str,
    limit: str,
    said: str,
) -> None:
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(author / "cache"))
    (author / "k.cl").write_text(
        f"__kernel void k(__global const float* x, __global float* y) {{\n  {body}\n}}\n"
    )
    assert litert_npu("layer", "check", "k.cl", *SHAPES) == 0  # the kernel builds
    capsys.readouterr()
    assert litert_npu("layer", "run", "k.cl", *SHAPES, "--repeat=0", limit) == 2
    assert said in capsys.readouterr().err
    # The cache contains only complete programs.
    from vendor_reference.programs.program_cache import _parse

    built = list((author / "cache" / "litert-npu-cache" / "programs").iterdir())
    assert built and all(_parse(path.read_bytes()) for path in built)


def test_a_compiler_that_crashes_is_explained_whichever_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def call(target: str, *_: object, **__: object) -> Iterator[object]:
        yield safe_process.compiling("k.cl")
        raise ChildEndedError(Status.RUNTIME_FAILURE, "the process crashed")

    monkeypatch.setattr(safe_process, "call_in_child", call)
    with pytest.raises(
        LiteRtError, match=r"the process crashed while k\.cl was being compiled"
    ) as error:
        safe_process.run_safely("a:b", {"path": "k.cl", "timeout_s": 1})
    assert (
        "another OpenCL driver with the environment variable LITERT_NPU_OPENCL" in error.value.hint
    )
    assert "--timeout_s" not in error.value.hint
    assert "PoCL" not in error.value.hint and "vectors" not in error.value.hint


@pytest.mark.parametrize("cause", ["", "The kernel has float16."])
def test_a_kernel_that_crashes_is_laid_to_what_is_known_of_it(
    monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    def call(target: str, *_: object, **__: object) -> Iterator[object]:
        yield safe_process.stage("kernel 'k' was running", cause)
        raise ChildEndedError(Status.RUNTIME_FAILURE, "the process crashed (SIGSEGV)")

    monkeypatch.setattr(safe_process, "call_in_child", call)
    with pytest.raises(LiteRtError) as error:
        safe_process.run_safely("a:b", {"path": "k.cl", "timeout_s": 1})
    finds = (
        "If the kernel reads or writes past its tensors, litert-npu layer check FILE --sanitize "
        "finds the line."
    )
    assert error.value.hint == f"{cause} {finds}".lstrip()
