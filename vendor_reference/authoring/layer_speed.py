"""Measures a layer's speed, and for comparison the device's limits: the speed of copies and of multiply-adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from litert.core.element_type import ElementType
from litert.core.formula import Formula
from litert.core.kernel_dims import kernel_dims
from litert.core.tensor_type import RankedTensorType
from vendor_reference.authoring.device_call import load_kernel, quiet
from vendor_reference.authoring.layer_run import RunningLayer, load_compiled

_LARGE_BYTES = 64 << 20
"""Size of a copy that is too large for any cache, in bytes."""

_COPY = """
__kernel void copy(__global const float4* from, __global float4* to) {
  const size_t i = get_global_id(0);
  to[i] = from[i];
}
"""
_MAD_STEPS = 512
_MAD_FLOPS = _MAD_STEPS * 4 * 8 * 2
"""Number of operations of one work item, which computes 4 chains of float8; each step multiplies and adds."""

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


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of a layer; the rates refer to the median time of the layer's kernel.

    Attributes:
      runs: Number of runs that were measured.
      kernel_us: Median, minimum and maximum time of the kernel, in microseconds.
      others_us: Median time of the kernels that reorder and convert tensors for the layer's kernel,
        in microseconds.
      call_us: Median time of a whole NPU call, measured on the host, in microseconds.
      moved_bytes: Number of bytes of the op's inputs and outputs; each tensor counts once.
      gb_per_s: Rate at which the layer's kernel reads and writes `moved_bytes`, in GB/s.
      gflop_per_s: Rate of the layer's operations, in GFLOP/s; None if the caller gave no number of operations.
      copy_gb_per_s: Rates of two copies, in GB/s: a copy of `moved_bytes`, and a copy that is too large for any
        cache.
      peak_gflop_per_s: Rate of multiply-adds that the device reaches without memory accesses, in GFLOP/s.
    """

    runs: int
    kernel_us: tuple[float, float, float]
    others_us: float
    call_us: float
    moved_bytes: int
    gb_per_s: float
    gflop_per_s: float | None
    copy_gb_per_s: tuple[float, float]
    peak_gflop_per_s: float

    def lines(self) -> Iterator[str]:
        """Yields the speed as lines of text for people."""
        middle, least, most = self.kernel_us
        others = f"; reorders and conversions {self.others_us:.1f} us" if self.others_us else ""
        yield (
            f"time     {middle:.1f} us, the median of {self.runs} runs ({least:.1f} to {most:.1f})"
            f"{others}; the whole NPU call {self.call_us:.1f} us"
        )
        same, large = self.copy_gb_per_s
        yield (
            f"memory   {self.gb_per_s:.2f} GB/s; a copy of the same size {same:.2f} GB/s, a copy of "
            f"{_LARGE_BYTES >> 20} MiB {large:.1f} GB/s"
        )
        rate = "set --flops" if self.gflop_per_s is None else f"{self.gflop_per_s:.2f} GFLOP/s"
        yield f"compute  {rate}; the device's maximum {self.peak_gflop_per_s:.1f} GFLOP/s"


def measure_speed(running: RunningLayer, repeat: int, flops: Formula | None) -> Speed:
    """Measures a layer whose inputs have been set, and then measures the device's limits.

    The formula `flops` computes the number of the layer's operations from B, F, Y and X of output 0.
    """
    with quiet(), load_compiled(running.compiled) as call:
        given_inputs = running.call.inputs[: len(call.inputs)]  # constants follow the op's inputs
        for memory, given in zip(call.inputs, given_inputs, strict=True):
            memory.array[...] = given.array
        timing = call.measure(repeat)
        results = [call.result(index) for index in range(len(running.compiled.subject.op.outputs))]
    op = running.compiled.subject.op
    times = [seconds * 1e6 for seconds in timing.kernels[running.entry]]
    kernel_s = max(median(times) / 1e6, 1e-9)
    others = [times for kernel, times in timing.kernels.items() if kernel != running.entry]
    others_s = median(map(sum, zip(*others, strict=True))) if others else 0.0
    rate = None
    if flops:
        inputs = [tensor.shape if tensor else () for tensor in op.inputs]
        outputs = [result.shape for result in results]
        operations = flops.evaluate(kernel_dims(outputs[0]), inputs, outputs, most=2**62)
        rate = operations / kernel_s / 1e9
    moved = sum(t.type.size_bytes for t in {*op.inputs} if t) + sum(r.nbytes for r in results)
    return Speed(
        repeat,
        (median(times), min(times), max(times)),
        others_s * 1e6,
        median(timing.calls) * 1e6,
        moved,
        moved / kernel_s / 1e9,
        rate,
        (_measure_copy(moved) / 1e9, _measure_copy(_LARGE_BYTES) / 1e9),
        _measure_multiply_add() / 1e9,
    )


def _measure_copy(num_bytes: int) -> float:
    """Returns how many bytes a second a copy moves: half of the bytes are read, and half are written."""
    items = max(1, num_bytes // 32)
    return items * 32 / _best_s("copy", _COPY, items, items * 4, has_input=True)


def _measure_multiply_add() -> float:
    """Returns how many float32 operations a second the device does in multiply-adds that need no memory."""
    items = 1 << 12
    while (seconds := _best_s("mad_chains", _MAD, items, items)) < _LEAST_S and items < _MOST_ITEMS:
        items *= 8
    return items * _MAD_FLOPS / seconds


def _best_s(entry: str, text: str, items: int, floats: int, has_input: bool = False) -> float:
    tensor_type = RankedTensorType.of(ElementType.FLOAT32, (floats,))
    inputs = [tensor_type] if has_input else []
    with load_kernel(text, entry, inputs, [tensor_type], [items]) as call:
        return min(call.measure(_REPEAT).kernels[entry])
