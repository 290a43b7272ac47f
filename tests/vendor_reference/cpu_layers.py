"""Builds libraries of CPU layers from C code, parts of which a test can replace."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from vendor_reference.cpu_layer.__main__ import include_folder

PRELU = Path(__file__).parents[2] / "examples" / "04_cpu_layer" / "prelu.c"

_DEFAULTS = {
    "version": "LITERT_NPU_CPU_LAYER_VERSION",
    "size": "sizeof(library)",
    "top": "",
    "log": "NULL",
    "types": '"Double"',
    "get_output_shapes": "Shapes",
    "shapes": "shapes[0] = op->inputs[0].type; return kLiteRtNpuOk;",
    "implementations": '"plain"',
    "num_configurations": "1",
    "configuration": "return kLiteRtNpuOk;",
    "init": "return kLiteRtNpuOk;",
    "execute": """
        const float* x = inputs[0].data; float* y = outputs[0].data; int64_t n = 1;
        for (int i = 0; i < inputs[0].memory_rank; ++i) n *= inputs[0].memory_dims[i];
        for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];
        return kLiteRtNpuOk;""",
    "entry": "litert_npu_get_cpu_layer_library",
    "destroy": "",
    "release": "NULL",
}

_TEXT = """
#include <litert_npu/cpu_layer.h>
#include <stdio.h>
#include <stdlib.h>
#define UNUSED __attribute__((unused))
static LiteRtNpuLogCallback log_callback UNUSED;
static void* log_data UNUSED;
static UNUSED void SetLog(LiteRtNpuLogCallback callback, void* data) {{
  log_callback = callback;
  log_data = data; }}
static const char* const types[] = {{{types}}};
static const char* const implementations[] = {{{implementations}}};
{top}
static size_t NumTypes(void) {{ return sizeof(types) / sizeof(types[0]); }}
static const char* Type(size_t i) {{ return types[i]; }}
static UNUSED LiteRtNpuStatus Shapes(const LiteRtNpuOp* op UNUSED, LiteRtNpuTensorType* shapes UNUSED,
                                     LiteRtNpuMessage* message UNUSED) {{ {shapes} }}
static size_t Count(const LiteRtNpuOp* op UNUSED, LiteRtNpuMessage* message UNUSED) {{
  return sizeof(implementations) / sizeof(implementations[0]); }}
static const char* Name(const LiteRtNpuOp* op UNUSED, size_t i) {{ return implementations[i]; }}
static size_t CountConfigurations(const LiteRtNpuOp* op UNUSED, size_t implementation UNUSED) {{
  return {num_configurations}; }}
static LiteRtNpuStatus Configuration(const LiteRtNpuOp* op UNUSED, size_t implementation UNUSED,
                                     size_t index UNUSED, LiteRtNpuConfig* config UNUSED,
                                     LiteRtNpuMessage* message UNUSED) {{
  {configuration} }}
static LiteRtNpuStatus Init(const LiteRtNpuOp* op UNUSED, size_t implementation UNUSED,
                            LiteRtNpuConfig* config UNUSED, const LiteRtNpuTensor* inputs UNUSED,
                            const LiteRtNpuTensor* outputs UNUSED, void** kernel UNUSED,
                            LiteRtNpuMessage* message UNUSED) {{ {init} }}
static LiteRtNpuStatus Execute(void* kernel UNUSED, const LiteRtNpuTensor* inputs UNUSED,
                               const LiteRtNpuTensor* outputs UNUSED,
                               LiteRtNpuMessage* message UNUSED) {{ {execute} }}
static void Destroy(void* kernel UNUSED) {{ {destroy} }}
static const LiteRtNpuCpuLayerLibrary library = {{
    {version}, {size}, "test layers", "0.5", {log}, NumTypes, Type, {get_output_shapes}, Count, Name,
    CountConfigurations, Configuration, Init, Execute, Destroy, {release}}};
LITERT_NPU_EXPORT const LiteRtNpuCpuLayerLibrary* {entry}(uint32_t host_version UNUSED);
const LiteRtNpuCpuLayerLibrary* {entry}(uint32_t host_version UNUSED) {{ return &library; }}
"""


def compiler() -> str:
    """Returns the C compiler; skips the test if there is none."""
    found = shutil.which("cc") or shutil.which("gcc")
    if found is None:
        pytest.skip("no C compiler to build libraries with")
    return found


def build(source: Path, target: Path, *flags: str) -> Path:
    """Builds a shared object, with all warnings as errors."""
    strict = ("-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{include_folder()}")
    command = [compiler(), *strict, "-shared", "-fPIC", *flags, str(source), "-o", str(target)]
    subprocess.run(command, check=True)
    return target


def library(folder: Path, **parts: str) -> Path:
    """Builds a library that doubles floats; `parts` replaces parts of its C code, such as function bodies."""
    text = _TEXT.format(**{**_DEFAULTS, **parts})
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    source, target = folder / f"{digest}.c", folder / f"{digest}.so"
    if not target.exists():
        source.write_text(text)
        build(source, target)
    return target


def prelu(folder: Path, flags: Sequence[str] = ("-O2", "-pedantic")) -> Path:
    """Builds the library of the PReLU example."""
    target = folder / "prelu.so"
    return target if target.exists() else build(PRELU, target, *flags)
