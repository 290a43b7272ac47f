"""What the device can do at the most: bytes copied and multiply-adds made in a second, by kernels of our own."""

from __future__ import annotations

from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType
from vendor_reference.authoring.device_call import load_call
from vendor_reference.executable.byte_code import write_executable
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    Executable,
    Function,
    KernelTask,
    Program,
)
from vendor_reference.soc import SOC_MODELS

LARGE_BYTES = 64 << 20
"""Read and written by a copy that no cache holds."""

_COPY = """
__kernel void copy(__global const float4* from, __global float4* to) {
  const size_t i = get_global_id(0);
  to[i] = from[i];
}
"""
_MAD_STEPS = 512
_MAD_FLOPS = (
    _MAD_STEPS * 4 * 8 * 2
)  # of a work item: 4 chains of float8, a multiplication and an addition
_MAD = f"""
__kernel void mad_chains(__global float* to) {{
  const float8 x = (float8) (0.999f);
  float8 a = (float8) ((float) get_global_id(0)), b = a + 1.0f, c = a + 2.0f, d = a + 3.0f;
  for (int i = 0; i < {_MAD_STEPS}; ++i) {{
    a = a * x + 0.5f;
    b = b * x + 0.5f;
    c = c * x + 0.5f;
    d = d * x + 0.5f;
  }}
  const float8 sum = a + b + c + d;
  to[get_global_id(0)] = sum.s0 + sum.s1 + sum.s2 + sum.s3 + sum.s4 + sum.s5 + sum.s6 + sum.s7;
}}
"""
_LEAST_S = 1e-3
_MOST_ITEMS = 1 << 24
_REPEAT = 5


def measure_copy(num_bytes: int) -> float:
    """Bytes a second that a copy moves: it reads one half of them, and writes the other."""
    items = max(1, num_bytes // 32)
    return items * 32 / _best_s("copy", _COPY, items, items * 4, has_input=True)


def measure_multiply_add() -> float:
    """Floating-point operations a second of float32 multiply-adds that need no memory."""
    items = 1 << 12
    while (seconds := _best_s("mad_chains", _MAD, items, items)) < _LEAST_S and items < _MOST_ITEMS:
        items *= 8
    return items * _MAD_FLOPS / seconds


def _best_s(entry: str, text: str, items: int, floats: int, has_input: bool = False) -> float:
    tensor_type = RankedTensorType.of(ElementType.FLOAT32, (floats,))
    output = Argument(ArgumentKind.OUTPUT, 0)
    arguments = [Argument(ArgumentKind.INPUT, 0), output] if has_input else [output]
    function = Function(
        "limit",
        [tensor_type] if has_input else [],
        [tensor_type],
        [KernelTask("limit", 0, entry, arguments, [items])],
    )
    executable = Executable(SOC_MODELS[0].name, [function], [Program(text, ())], [])
    with load_call(write_executable(executable), function) as call:
        return min(call.measure(_REPEAT).kernels[entry])
