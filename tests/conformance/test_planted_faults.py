"""Tests that a fault in the C or the Python example is found by the rule that it breaks, and by no other."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from litert_npu_tools.vendor.conformance import check_vendor
from litert_npu_tools.vendor.vendor_libraries import VendorLibraries, find_libraries

from litert.abi.headers import INCLUDE_FOLDER
from litert.conformance.checks import Outcome
from litert.conformance.children import CheckOptions

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
FAULTS = {
    "NONE": ("", ""),
    "IGNORED_INPUT_EVENT": ("async.input_event", "a run reads an input before the input's event"),
    "NO_EVENT": ("async.events", "the event of output 0 was not signaled within 10 s"),
    "LOST_EVENT": ("async.events", "the event of output 0 was not signaled within 10 s"),
    "EARLY_EVENT": ("async.events", "the outputs are wrong after the events were signaled"),
    "FAILING_RUN": ("async.events", "invoke_async returns RUNTIME_FAILURE"),
    "MISSING_BUFFER": ("async.missing", "invoke_async returns OK although input 0 is detached"),
    "LEAK": ("invoke.memory", "memory grows by 10"),
    "THREAD": ("device.threads", "6 threads go on after 6 device contexts were destroyed"),
    "THREAD_OF_RUN": ("device.threads", "threads go on after 6 device contexts were destroyed"),
    "HANG_AT_EXIT": (
        "dispatch.ends",
        "the process did not end within 10 s after its last call, and",
    ),
}
"""The rule that each fault breaks, and a text in the finding."""

Plant = Callable[[str], VendorLibraries]


@pytest.fixture(params=["C", "Python"])
def plant(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """A function that returns an example's libraries with a fault."""
    if request.param == "Python":

        def in_python(fault: str) -> VendorLibraries:
            monkeypatch.setenv("PLANTED_FAULT", fault)
            monkeypatch.syspath_prepend(str(EXAMPLES / "07_python_vendor"))
            origins = {
                "compiler_plugin": "nickel_npu.compiler_plugin:PLUGIN",
                "dispatch": "tests.conformance.planted_faults:DISPATCH",
            }
            return VendorLibraries("Nickel", origins)

        return in_python

    def in_c(fault: str) -> VendorLibraries:
        c_vendor: Path = request.getfixturevalue("c_vendor")
        shutil.copy(c_vendor / "libLiteRtCompilerPlugin_Cobalt.so", tmp_path)
        include = [f"-I{INCLUDE_FOLDER}", f"-I{EXAMPLES}/06_c_vendor"]
        flags = "-std=c11 -Wall -Wextra -Wpedantic -Werror -shared -fPIC -fvisibility=hidden"
        source, library = (
            Path(__file__).with_name("planted_faults.c"),
            "libLiteRtDispatch_Cobalt.so",
        )
        command = [
            "cc",
            *flags.split(),
            *include,
            f"-DFAULT={fault}",
            str(source),
            "-pthread",
            "-ldl",
        ]
        subprocess.run([*command, "-o", str(tmp_path / library)], check=True)
        return find_libraries([str(tmp_path)])

    return in_c


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_by_its_rule(plant: Plant, fault: str) -> None:
    """MISSING_BUFFER breaks no rule in Python, where the host itself refuses a run without all buffers."""
    gain = str(EXAMPLES / "06_c_vendor" / "gain.txt")
    options = CheckOptions(assets=[("Gain", gain)], timeout_s=20, strict=True)
    report = check_vendor(plant(fault), options)
    broken = {(f.rule, f.text) for f in report.findings if f.outcome is Outcome.FAILED}
    rule, text = FAULTS["NONE" if (report.vendor, fault) == ("Nickel", "MISSING_BUFFER") else fault]
    assert {name for name, _ in broken} == ({rule} if rule else set())
    assert all(text in found for _, found in broken)
    assert not report.gaps
    missing = {f.text for f in report.findings if f.outcome is Outcome.UNSEEN if "hung" in f.text}
    assert "needs device.threads" not in {f.rule: f.text for f in report.findings}["device.closes"]
    passed = sum(f.outcome is Outcome.PASSED for f in report.findings)
    assert not missing and passed > 160
