"""Start-up time is a feature: what most commands load imports nothing heavy."""

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
