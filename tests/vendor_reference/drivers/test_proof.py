"""Tests that a driver is used only after a kernel ran correctly on it, in a process that may crash or hang."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from litert.core.errors import LiteRtError
from litert.host.sandbox import Sandbox, SandboxMode
from tests.vendor_reference.open_sandbox import open_sandbox
from vendor_reference.drivers import device_choice, installation, proof
from vendor_reference.drivers.device_choice import choose_device
from vendor_reference.drivers.driver import driver_of_library
from vendor_reference.drivers.installation import Installation
from vendor_reference.drivers.proof import Proof, call_compiler, prove
from vendor_reference.programs.program_text import ProgramText


@pytest.fixture(autouse=True)
def nothing_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()  # later, it would change the library's folder
    monkeypatch.setattr(proof, "_proofs", {})


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[Installation]:
    """The drivers that were tried in a process, not recalled from the cache."""
    tried = []

    def count(found: Installation) -> Any:
        tried.append(found)
        return real(found)

    real = proof._try
    monkeypatch.setattr(proof, "_try", count)
    return tried


def library(folder: Path, text: str, *, links: str = "") -> Installation:
    """Compiles a driver's library from C."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    path = folder / "libdriver.so"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path), *links.split()]
    subprocess.run(command, input=text, text=True, check=True)
    return of(path)


def of(path: Path) -> Installation:
    return Installation(driver_of_library(str(path)), str(path), str(path))


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clears the proofs in memory, as in a new process."""
    monkeypatch.setattr(proof, "_proofs", {})


CRASHES = "#include <stdlib.h>\n__attribute__((constructor)) void f(void) { abort(); }"
HANGS = "#include <unistd.h>\n__attribute__((constructor)) void f(void) { for (;;) pause(); }"


def test_a_driver_that_works_has_its_devices_and_is_tried_once(
    device: Any, tmp_path: Path, tries: list[Installation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", str(tmp_path / "cache"))
    driver = of(Path(device.library))
    first = prove(driver)
    assert device.info.identity in [info.identity for info in first.devices]
    forget(monkeypatch)
    assert prove(driver) == first and tries == [driver]


@pytest.mark.parametrize("variable", ["CL_X", "POCL_X", "LD_X", "CUDA_VISIBLE_DEVICES", "PATH"])
def test_another_environment_is_another_answer(
    variable: str, tmp_path: Path, tries: list[Installation], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = of(tmp_path / "libdriver.so")
    prove(driver)
    monkeypatch.setenv(variable, "x")
    prove(driver)
    assert len(tries) == 2


def test_another_cpu_is_another_answer(
    tmp_path: Path, tries: list[Installation], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = of(tmp_path / "libdriver.so")
    prove(driver)
    monkeypatch.setattr(proof, "describe_processor", lambda: "another")
    prove(driver)
    assert len(tries) == 2


def test_a_library_that_crashes_as_it_loads_is_a_no(tmp_path: Path) -> None:
    found = prove(library(tmp_path, CRASHES))
    assert "SIGABRT" in found.problem and not found.devices


def test_a_library_that_hangs_is_a_no_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "TIMEOUT_S", 2.0)
    assert "did not finish" in prove(library(tmp_path, HANGS)).problem


def test_a_half_installed_driver_names_what_it_lacks(tmp_path: Path) -> None:
    library(tmp_path, "int needed;")
    (tmp_path / "libdriver.so").rename(tmp_path / "libneeded.so")
    links = f"-Wl,--no-as-needed -L{tmp_path} -lneeded"
    driver = library(tmp_path, "int x;", links=links)
    (tmp_path / "libneeded.so").unlink()
    assert "libneeded.so" in prove(driver).problem


@pytest.mark.parametrize("data", [b"", b"no library"])
def test_what_is_no_library_is_a_no(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "libdriver.so").write_bytes(data)
    assert "cannot be loaded" in prove(of(tmp_path / "libdriver.so")).problem


def test_a_library_that_is_no_driver_is_a_no(tmp_path: Path) -> None:
    assert "the OpenCL driver does not start" in prove(library(tmp_path, "int x;")).problem


def test_a_no_is_remembered_for_a_while_and_yields_to_a_repair(
    tmp_path: Path, tries: list[Installation], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libdriver.so").write_text("")
    driver = of(tmp_path / "libdriver.so")
    assert prove(driver).problem
    forget(monkeypatch)
    assert prove(driver).problem and len(tries) == 1
    assert prove(driver, again=True).problem and len(tries) == 2
    forget(monkeypatch)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 4000)
    assert prove(driver).problem and len(tries) == 3
    (tmp_path / "libneeded.so").write_text("")  # a new file in the library's folder
    assert prove(driver).problem and len(tries) == 4


@pytest.mark.parametrize("data", [b"", b"{}", b'{"devices": [{}], "problem": ""}', b"\xff"])
def test_a_damaged_memory_is_no_harm(
    data: bytes, tmp_path: Path, tries: list[Installation], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libdriver.so").write_text("")
    driver = of(tmp_path / "libdriver.so")
    prove(driver)
    (remembered,) = (tmp_path / "cache" / "litert-npu-cache" / "drivers").iterdir()
    remembered.write_bytes(data)
    forget(monkeypatch)
    assert prove(driver).problem and len(tries) == 2


def test_a_driver_that_computes_wrong_is_a_no(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from vendor_reference.device import proof_worker

    assert proof_worker._find_problem(device.cl_device) == ""
    monkeypatch.setattr(proof_worker, "_run", lambda _: [0.0])
    assert "wrong" in proof_worker._find_problem(device.cl_device)


def test_the_next_driver_is_used(
    device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks this beside drivers that are broken in different ways."""
    good = of(Path(device.library))
    (tmp_path / "bad.icd").write_text("/nowhere/lib.so")
    bad = [library(tmp_path, CRASHES), installation._read_registration(f"{tmp_path}/bad.icd")]
    monkeypatch.setattr(device_choice, "find_installations", lambda: [*bad, good])
    assert choose_device().info.identity == device.info.identity
    monkeypatch.setattr(device_choice, "find_installations", lambda: bad)
    with pytest.raises(LiteRtError, match=r"SIGABRT[\s\S]*library /nowhere/lib.so does not exist"):
        choose_device()


def test_no_process_to_be_had_is_no_answer_to_be_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("litert.host.child_process._python", lambda: "/nowhere/python")
    found = prove(of(tmp_path / "libdriver.so"))
    assert isinstance(found, Proof) and "cannot start" in found.problem
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("works", [True, False])
def test_a_compiler_that_crashes_is_the_kernels_fault_where_the_driver_works(
    works: bool, device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    open_sandbox(monkeypatch, tmp_path)
    (tmp_path / "compiler_of_test_proof.py").write_text(
        "import os\ndef crash(_):\n    yield 1\n    os.kill(os.getpid(), 11)\n"
    )
    (tmp_path / "libdriver.so").write_text("")
    library = device.library if works else str(tmp_path / "libdriver.so")
    answers = call_compiler("compiler_of_test_proof:crash", None, timeout_s=30, library=library)
    with pytest.raises(LiteRtError) as error:
        list(answers)
    assert ("SIGSEGV" in error.value.what) is works
    assert ("The kernel is not the cause" in error.value.hint) is not works


def test_a_driver_that_builds_nothing_is_a_no_with_its_log(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests a driver such as PoCL's wheel on a CPU that its LLVM does not know."""
    from vendor_reference.device import compiler, proof_worker

    nothing = replace(compiler.PROBE, text="no kernel")
    monkeypatch.setattr(compiler, "PROBE", nothing)
    monkeypatch.setattr(proof_worker, "_run", lambda d: compile_nothing(d, nothing))
    problem = proof_worker._find_problem(device.cl_device)
    assert problem.startswith("the device cannot build a kernel: error: ")


def compile_nothing(device: Any, text: ProgramText) -> Any:
    import pyopencl as cl

    from vendor_reference.device.compiler import compile_text

    return compile_text(cl.Context([device]), device, text)


def test_a_driver_that_works_only_outside_of_a_sandbox_is_not_used(
    device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def try_in(sandbox: Sandbox, installation: Installation) -> tuple[Proof, bool]:
        if sandbox.mode is SandboxMode.OFF:
            return Proof(installation, (device.info,)), True
        return Proof(installation, (), "it crashed"), True

    monkeypatch.setattr(proof, "_try_in", try_in)
    monkeypatch.setattr(proof, "why_missing", str)
    found = prove(of(tmp_path / "libdriver.so"))
    assert not found.devices
    assert found.problem == (
        "the driver works only without a sandbox (it crashed); to turn the sandbox off, set the environment "
        "variable LITERT_NPU_SANDBOX=off"
    )
    monkeypatch.setenv("LITERT_NPU_SANDBOX", "off")
    assert prove(of(tmp_path / "libdriver.so")).devices
