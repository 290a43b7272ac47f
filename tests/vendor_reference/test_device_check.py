"""Tests the kernel check at compile time with a real OpenCL compiler; the device then compiles nothing again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.vendor_reference.executables import DOUBLE, assets, byte_code, doubling, signature
from vendor_reference.compiler.kernel_check import build_programs
from vendor_reference.device.module import Module
from vendor_reference.executable.executable import Executable
from vendor_reference.programs.program_text import ProgramText


@pytest.fixture(autouse=True)
def cache(device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path / "cache"))
    wanted = f"{device.info.platform_version}:{device.info.name}"
    monkeypatch.setenv("LITERT_NPU_OPENCL", wanted)


def no_functions(text: str) -> Executable:
    return Executable("EMU8", (), doubling(text=text).programs, ())


def test_a_program_that_was_checked_is_not_compiled_for_the_device(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vendor_reference.device.opencl_device import OpenClDevice
    from vendor_reference.device.program_builder import ProgramBuilder

    (built,) = build_programs(no_functions(DOUBLE), {"MyOp": DOUBLE.encode()})
    assert built is not None
    arguments = (("__global", "float*", "x", True), ("__global", "float*", "y"))
    most = built.kernels["MyOp"].max_group_size
    assert built.kernels == {"MyOp": signature(*arguments, max_group_size=most)} and most > 0

    def compile_nothing(_: ProgramBuilder, texts: Sequence[ProgramText]) -> Iterator[Any]:
        assert not texts
        return iter(())

    monkeypatch.setattr(ProgramBuilder, "_compile", compile_nothing)
    opened_again = OpenClDevice(device.cl_device, device.library)
    module = Module(opened_again, byte_code(doubling()).view, assets(MyOp=DOUBLE))
    assert module.load(module.find_function("f"))


def test_an_error_in_a_kernel_has_its_file_and_line() -> None:
    text = "\n__kernel void MyOp(__global float* x) { nonsense }\n"
    with pytest.raises(LiteRtError) as error:
        build_programs(no_functions(text), {"MyOp": text.encode()})
    assert error.value.status is Status.COMPILATION
    assert error.value.where == "MyOp.cl, line 2" and "nonsense" in error.value.what


PASTED = {
    "the value": (
        "JOIN(V, f) * 2",
        "Define V is 0.1f, and '##' appends 'f': remove this suffix. Correct",
    ),
    "the value, by a define": ("W", "Define V is 0.1f, and '##' appends 'f'"),
    "the name": ("JOIN_(V, f)", "'##' joins the name V, not its value 0.1f, to the other token."),
    "another value": ("JOIN(1.5f, f)", "Correct the kernel"),
}


@pytest.mark.parametrize(("value", "hint"), PASTED.values(), ids=PASTED)
def test_a_define_that_the_kernel_joins_to_something_is_named(value: str, hint: str) -> None:
    text = (
        "#define JOIN_(a, b) a##b\n#define JOIN(a, b) JOIN_(a, b)\n#define V 0.1f\n#define W (JOIN(V, f))\n"
        f"__kernel void MyOp(__global float* x) {{\n  x[0] = {value};\n}}\n"
    )
    with pytest.raises(LiteRtError) as error:
        build_programs(no_functions(text), {"MyOp": text.encode()})
    assert error.value.where == "MyOp.cl, line 6" and error.value.hint.startswith(hint)
    assert "error: MyOp.cl:6:10: " in error.value.what.replace("6:11", "6:10")
    assert "scratch" not in error.value.what and ">" not in error.value.what


def test_a_device_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITERT_NPU_OPENCL", "no such platform")
    with pytest.raises(LiteRtError) as error:
        build_programs(no_functions(DOUBLE), {"MyOp": DOUBLE.encode()})
    assert error.value.status is Status.NOT_FOUND and "no such platform" in error.value.what
