"""Kernels in OpenCL C, `.cl`: their own text, and the files that they include."""

from __future__ import annotations

from random import Random

from tests.fuzz.mutation import damage_text
from tests.fuzz.target import Target, write_input
from vendor_reference.custom_layers.asset_reader import read_layer

_SOURCE = b"""#include "h.h"
#if defined(N) && N > 1 // a comment
#define ENTRY(name) __kernel void name
#endif
/* another */ __attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void Full(__global const float* x, __global float* y, float a) {
    y[get_global_id(0)] = a * x[get_global_id(0)];
}
"""
_BESIDE = {"h.h": b'#include "h.h"\n#define N 2\n', "other.h": b"\xff\0"}
_WORDS = (
    "#include", "#define", "#if", "#else", "#endif", "\\\n", "/*", "*/", "//", '"', "'", "(", ")", "{", "}",
    '#include "h.h"\n', "#include <other.h>\n", "??=", "%:", "\0", "Full", "__attribute__((", "void", "*",
    "__kernel", "\xff",
)  # fmt: skip


def _damage(data: bytes, random: Random) -> bytes:
    return damage_text(data, random, _WORDS)


def _run(data: bytes) -> None:
    read_layer("Full", write_input("Full.cl", data, _BESIDE), memoryview(data))


TARGET = Target(lambda: [_SOURCE], _run, _damage, test_runs=500)
