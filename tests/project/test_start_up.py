"""Tests that modules and commands that start often import nothing heavy, since this makes them start fast."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "absl.app", "ai_edge_litert", "cffi", "flatbuffers", "numpy", "pyopencl", "tflite", "tqdm", "xdsl",
)  # fmt: skip


@pytest.mark.parametrize(
    "module",
    [
        "litert",
        "litert.model.reader",
        "litert.model.writer",
        "compiler_plugin.pipeline",
        "compiler_plugin.transformations.running",
        "dispatch.api",
        "vendor_reference.compiler.plugin",
        "vendor_reference.dispatch",
        "litert_npu_tools.apply_command_line",
        "litert_npu_tools.litert_npu",
        "litert_npu_tools.transform_command",
    ],
)
def test_a_module_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []


@pytest.mark.parametrize(
    ("module", "command", "unneeded"),
    [
        ("litert_npu", "litert-npu --help", ("_hashlib", "json", "logging")),
        ("litert_npu", "litert-npu run --help", ("_hashlib", "litert.model.reader")),
        ("apply_plugin", "apply_plugin --cmd=info", ("_hashlib",)),
    ],
)
def test_a_command_imports_only_what_it_needs(
    module: str, command: str, unneeded: tuple[str, ...]
) -> None:
    code = f"""
import sys
from litert_npu_tools.{module} import main
try:
    main({command.split()})
finally:
    print(*sorted(set({unneeded}) & set(sys.modules)), file=sys.stderr)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stderr.split() == []
