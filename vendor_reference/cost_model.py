"""The rates from which the compiler estimates times.

Of ops on the NPU of a SoC model, and on the CPU beside it.

A compilation measures nothing: an expected time depends only on the model and on these numbers, so
that a choice based on them is the same on every machine.

The emulated NPU runs on the cores of the host, however many shaves a SoC model has. So all SoC
models have the rates of the emulation with two threads on two cores of an AMD EPYC with AVX-512. A
least-squares fit over MediaPipe's fourteen networks found the rates:

- Whole networks have the most weight, because their layers share one launch. Each network was
  compiled with `none` and with `all`, the two files ran in turn, and only the faster quarter of the
  runs counts.
- Single layers, and single operators of XNNPACK, have less weight; `litert-npu profile --threads=2`
  measured them. On the CPU, the three networks with custom ops count by these operators alone.
- Where the networks say little about a rate, a small weight keeps the rate near 0.75 of its value
  on a CPU with AVX2.

Some rates were set by hand, near the rates of single ops: all rates of EXPONENTIAL and MOVE,
`start_ns` of the NPU, `byte_ns` of ELEMENTWISE, and all rates of WINDOW on the NPU except `row_ns`.
Calls and transfers were measured with single element-wise ops of 4 KB to 4 MB between ops of the
CPU, and `switch_ns` with some layers on the NPU in the middle of a network. The benchmark
`selection` compares expected with measured times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto


class Work(Enum):
    """Kinds of ops with similar rates."""

    PRODUCT = auto()
    DEPTHWISE = auto()
    WINDOW = auto()
    ELEMENTWISE = auto()
    EXPONENTIAL = auto()
    MOVE = auto()


_WORKS: Mapping[Work, str] = {
    Work.PRODUCT: "BATCH_MATMUL CONV_2D FULLY_CONNECTED TRANSPOSE_CONV",
    Work.DEPTHWISE: "DEPTHWISE_CONV_2D",
    Work.WINDOW: """ARG_MAX ARG_MIN AVERAGE_POOL_2D L2_NORMALIZATION MAX_POOL_2D MEAN REDUCE_MAX REDUCE_MIN
        REDUCE_PROD RESIZE_BILINEAR SUM""",
    Work.EXPONENTIAL: "COS ELU EXP GELU LOG LOGISTIC LOG_SOFTMAX POW SIN SOFTMAX TANH",
    Work.MOVE: """BROADCAST_TO CONCATENATION DEPTH_TO_SPACE EXPAND_DIMS GATHER MIRROR_PAD PACK PAD PADV2 RESHAPE
        RESIZE_NEAREST_NEIGHBOR SLICE SPACE_TO_DEPTH SPLIT SPLIT_V SQUEEZE STRIDED_SLICE TILE TRANSPOSE UNPACK""",
}
_WORK_OF = {name: work for work, names in _WORKS.items() for name in names.split()}


def work_of(op_name: str) -> Work:
    """Returns the kind of a builtin op; element-wise for ops of no known kind."""
    return _WORK_OF.get(op_name, Work.ELEMENTWISE)


@dataclass(frozen=True, slots=True)
class Rate:
    """The times of ops of one kind, in nanoseconds.

    Attributes:
      start_ns: Time of each op.
      row_ns: Time of each row of the innermost dimension of the result: few channels leave vectors
        half empty.
      operation_ns: Time of each arithmetic operation, as `litert/model/op_cost.py` counts them.
      byte_ns: Time of each byte of operands, constants and results.
    """

    start_ns: float
    row_ns: float
    operation_ns: float
    byte_ns: float

    def inner_ns(self, operations: int, num_bytes: int) -> float:
        """Returns the time of an op's inner loops, which is its time as a part of another op."""
        return self.operation_ns * operations + self.byte_ns * num_bytes

    def op_ns(self, num_rows: int, operations: int, num_bytes: int) -> float:
        """Returns the time of a whole op."""
        return self.start_ns + self.row_ns * num_rows + self.inner_ns(operations, num_bytes)


@dataclass(frozen=True, slots=True)
class CostModel:
    """The rates of a SoC model.

    Attributes:
      npu, cpu: Rates of each kind of op on the NPU and on the CPU.
      call_ns: Time of an NPU call, whatever it contains.
      switch_ns: Additional time of a call if the CPU computes in the same run: threads of one side
        have gone to sleep, or wait actively on the cores of the other side. A single op on the CPU
        is enough for this.
      transfer_ns: Time of each byte that goes to the NPU or comes back.
      caution: Fraction of the time that ops must gain to go to the NPU, since the rates are not
        more precise than that.
    """

    npu: Mapping[Work, Rate]
    cpu: Mapping[Work, Rate]
    call_ns: int
    switch_ns: int
    transfer_ns: float
    caution: float

    def start_ns(self, cpu_ns: int) -> int:
        """Returns the start time of a call, for a run in which the CPU's part takes `cpu_ns`."""
        return self.call_ns + (self.switch_ns if cpu_ns else 0)


EMULATED = CostModel(
    npu={
        Work.PRODUCT: Rate(300, 0.5, 0.005, 0),
        Work.DEPTHWISE: Rate(300, 2.1, 0.0035, 0.0086),
        Work.WINDOW: Rate(300, 1.8, 0.003, 0.001),
        Work.ELEMENTWISE: Rate(300, 2.9, 0, 0.003),
        Work.EXPONENTIAL: Rate(300, 0.9, 0.003, 0),
        Work.MOVE: Rate(300, 0.6, 0, 0.002),
    },
    cpu={
        Work.PRODUCT: Rate(700, 1.4, 0.0049, 0),
        Work.DEPTHWISE: Rate(700, 3.4, 0.0117, 0),
        Work.WINDOW: Rate(700, 2.4, 0.0022, 0.0154),
        Work.ELEMENTWISE: Rate(700, 0.85, 0, 0.003),
        Work.EXPONENTIAL: Rate(700, 0, 0.003, 0),
        Work.MOVE: Rate(700, 0.2, 0, 0.0023),
    },
    call_ns=13_000,
    switch_ns=200_000,
    transfer_ns=0.01,
    caution=0.05,
)
