"""Rates (times per op, row, operation and byte) from which the compiler estimates how long ops take.

There are rates for ops on the NPU of a SoC model, and for ops on the CPU of the same SoC.

The compiler does not measure times while it compiles: an expected time depends only on the model and on these
rates. A choice that is based on expected times is therefore the same on every machine.

The emulated NPU runs on the cores of the host, however many shaves a SoC model has. Therefore all SoC models have
the same rates. They are the rates of an emulation with two threads on two cores of an AMD EPYC with AVX-512. The
rates are the result of a least-squares fit over MediaPipe's fourteen networks:

- Measurements of whole networks have the most weight, because a network's layers share one launch. Each network
  was compiled with `--reference_ops=none` and with `--reference_ops=all`. The two compiled files ran in turn, and
  only the fastest quarter of the runs was used.
- Measurements of single layers on the NPU, and of single XNNPACK operators on the CPU, have less weight;
  `litert-npu profile --threads=2` measured these times. In the three networks with custom ops, the CPU rates are
  fitted only to single operators.
- If the measured networks hardly depend on a rate, a term of small weight keeps the rate near 0.75 times its value
  on a CPU with AVX2.

Some rates were set by hand, close to the measured rates of single ops: all rates of EXPONENTIAL and MOVE,
`start_ns` of the NPU, `byte_ns` of ELEMENTWISE, and all rates of WINDOW on the NPU except `row_ns`. The times of
NPU calls and transfers were measured with single element-wise ops of 4 KB to 4 MB between CPU ops. `switch_ns` was
measured with networks in which some of the middle layers run on the NPU. The benchmark `selection` compares
expected times with measured times.
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
    """Returns the kind of a builtin op; an op of unknown kind counts as element-wise."""
    return _WORK_OF.get(op_name, Work.ELEMENTWISE)


@dataclass(frozen=True, slots=True)
class Rate:
    """The times of ops of one kind, in nanoseconds.

    Attributes:
      start_ns: Fixed time of each op, independent of its size.
      row_ns: Additional time of each row (innermost dimension) of an op's result, since short rows leave vectors
        partly unused.
      operation_ns: Time of each arithmetic operation; `litert/model/op_cost.py` counts the operations.
      byte_ns: Time of each byte of an op's operands, constants and results.
    """

    start_ns: float
    row_ns: float
    operation_ns: float
    byte_ns: float

    def inner_ns(self, operations: int, num_bytes: int) -> float:
        """Returns the time of an op's inner loops; an op that is fused into another op takes only this time."""
        return self.operation_ns * operations + self.byte_ns * num_bytes

    def op_ns(self, num_rows: int, operations: int, num_bytes: int) -> float:
        """Returns the expected time of an op, including its start time."""
        return self.start_ns + self.row_ns * num_rows + self.inner_ns(operations, num_bytes)


@dataclass(frozen=True, slots=True)
class CostModel:
    """The rates of a SoC model.

    Attributes:
      npu, cpu: Rates of each kind of op on the NPU and on the CPU.
      call_ns: Fixed time of an NPU call, independent of its ops.
      switch_ns: Additional time of an NPU call if the CPU computes ops in the same run. In such a run, the threads
        of the NPU or of the CPU have gone to sleep, or they busy-wait on cores that the other threads need. A
        single CPU op is enough to cause this additional time.
      transfer_ns: Time to transfer one byte to or from the NPU.
      caution: Fraction of their CPU time that ops must save on the NPU; otherwise they stay on the CPU, because
        the rates are not precise enough for smaller savings.
    """

    npu: Mapping[Work, Rate]
    cpu: Mapping[Work, Rate]
    call_ns: int
    switch_ns: int
    transfer_ns: float
    caution: float

    def start_ns(self, cpu_ns: int) -> int:
        """Returns the fixed time of an NPU call in a run in which the CPU's ops take `cpu_ns`."""
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
