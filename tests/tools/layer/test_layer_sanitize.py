"""Tests `litert-npu layer check --sanitize`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tools.conftest import LitertNpu
from tests.tools.layer.conftest import IN_BFYX, SHAPES
from vendor_reference.authoring import sanitizer
from vendor_reference.drivers.sandbox import driver_sandbox

Capture = pytest.CaptureFixture[str]
CHECK = ("layer", "check", "k.cl", *SHAPES, "--sanitize", "--report=json")
KERNEL = """#include "k.h"
__kernel void k(__global const float* x, __global float* y) {
  const int i = get_global_id(0);
  __local float shared_[8];
  float unset[2];
  unset[0] = 1;
  BODY
}
"""
HEADER = "// a comment\ninline void store(__global float* y, int i) {\n  y[i] = 1;\n}\n"

needs_oclgrind = pytest.mark.skipif(
    not sanitizer.has_simulator(), reason="no OpenCL driver Oclgrind, the extra `sanitize`"
)


def write(author: Path, body: str) -> None:
    (author / "k.cl").write_text(KERNEL.replace("BODY", body))
    (author / "k.h").write_text(HEADER)


FAULTY = """y[i + 1] = x[i];
  store(y, i - 1);
  y[i] = x[i + 8];
  y[i] = unset[1];
  y[0] = i;"""
FAULTS = [
    ("Invalid write of size 4", "k.cl", 7),
    ("Invalid write of size 4", "k.h", 3),
    ("Invalid read of size 4", "k.cl", 9),
    ("Uninitialized value", "k.cl", 10),
    ("Write-write data race", "k.cl", 11),
]


@needs_oclgrind
def test_each_fault_is_found_in_the_author_s_line(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    write(author, FAULTY)
    assert litert_npu(*CHECK) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    for what, file_name, line in FAULTS:
        assert any(
            finding["what"].startswith(what)
            and finding["kernel"] == "k"
            and finding["work_items"]
            and (file_name, line) in [(p["file_name"], p["line"]) for p in finding["places"]]
            for finding in found
        ), (what, found)


@needs_oclgrind
def test_a_good_kernel_gives_no_finding(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    write(author, "y[i] = x[i] + unset[0];")
    assert litert_npu(*CHECK) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


@needs_oclgrind
def test_what_leaves_a_tensor_in_its_own_layout_is_found_too(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    write(author, "y[i + 1] = x[i];")
    (author / "k.xml").write_text(IN_BFYX)
    shapes = ("--inputs=1x2x2x3xf32", "--outputs=1x2x2x3xf32")
    assert litert_npu("layer", "check", "k.xml", *shapes, "--sanitize") == 1
    printed = capsys.readouterr().out
    assert "Invalid write of size 4" in printed and "      7 |   y[i + 1] = x[i];" in printed
    assert "reorders the outputs of kernel 'k', which has not written all elements" in printed


@needs_oclgrind
def test_a_barrier_for_a_part_of_a_group_is_found_where_no_size_is_named(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    write(author, "if (i & 1)\n    barrier(CLK_LOCAL_MEM_FENCE);\n  y[i] = x[i];")
    assert litert_npu(*CHECK) == 1
    (fault,) = json.loads(capsys.readouterr().out)["findings"]
    assert fault["what"] == "Only 4 of a group's 8 work items reach a barrier"
    assert [(place["file_name"], place["line"]) for place in fault["places"]] == [("k.cl", 8)]


def test_the_compiler_in_its_sandbox_is_told_not_to_optimize(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OCLGRIND_BUILD_OPTIONS", "-cl-opt-disable")
    variables = driver_sandbox("liboclgrind.so").environment()
    assert variables["OCLGRIND_BUILD_OPTIONS"] == "-cl-opt-disable"


def test_where_oclgrind_is_absent_the_message_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sanitizer, "has_simulator", lambda: False)
    with (
        pytest.raises(Exception, match=r"pip install 'litert-npu\[sanitize\]'"),
        sanitizer.simulated_device(),
    ):
        pass
