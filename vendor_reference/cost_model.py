"""The rates by which the compiler expects times: of ops on the NPU of a SoC model, and on the CPU beside it.

No compilation measures anything: an expected time depends on the model and on these numbers alone, so that a
choice that is made by them is the same on every machine.

The emulated NPU runs on the cores of the host, however many shaves a SoC model has, so all SoC models have the
rates of the emulation, with two threads on two cores of an AMD EPYC with AVX2. They are least squares over
MediaPipe's fourteen networks: each layer and each operator of XNNPACK as `litert-npu profile --threads=2` has
them, and, with a hundred times the weight, the whole networks as `python -m benchmarks networks` has them, where
layers share one launch. Calls and transfers were measured with single element-wise ops of 4 KB to 4 MB between ops
of the CPU, and `switch_ns` with some layers on the NPU in the middle of a network. The benchmark `selection` says
how near all of this is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto


class Work(Enum):
    """Kinds of ops that take alike."""

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
    """The kind of a builtin op; element-wise where nothing else is known of it."""
    return _WORK_OF.get(op_name, Work.ELEMENTWISE)


@dataclass(frozen=True, slots=True)
class Rate:
    """What ops of a kind take.

    Attributes:
      start_ns: of each op.
      row_ns: of each row of the innermost dimension of the result: few channels leave vectors half empty.
      operation_ns: of each arithmetic operation, as `litert/model/op_cost.py` counts them.
      byte_ns: of each byte of operands, constants and results.
    """

    start_ns: float
    row_ns: float
    operation_ns: float
    byte_ns: float

    def inner_ns(self, operations: int, num_bytes: int) -> float:
        """The inner loops of an op: what it takes as a part of another op, which has its start and its rows."""
        return self.operation_ns * operations + self.byte_ns * num_bytes

    def op_ns(self, num_rows: int, operations: int, num_bytes: int) -> float:
        """A whole op."""
        return self.start_ns + self.row_ns * num_rows + self.inner_ns(operations, num_bytes)


@dataclass(frozen=True, slots=True)
class CostModel:
    """The rates of a SoC model.

    Attributes:
      npu, cpu: of each kind of op on either side.
      call_ns: of an NPU call, whatever is in it.
      switch_ns: of a call more, at most, where the CPU computes in the same run: threads of the one side have gone
        to sleep, or wait awake on the cores of the other. It is no more than the CPU's part takes.
      transfer_ns: of each byte that goes to the NPU or comes back.
      caution: the part that ops on the NPU have to gain before they go: rates are no truer than that.
    """

    npu: Mapping[Work, Rate]
    cpu: Mapping[Work, Rate]
    call_ns: int
    switch_ns: int
    transfer_ns: float
    caution: float

    def start_ns(self, cpu_ns: int) -> int:
        """A call, where the CPU's part of a run takes so long."""
        return self.call_ns + min(self.switch_ns, cpu_ns)


EMULATED = CostModel(
    npu={
        Work.PRODUCT: Rate(1500, 1.0, 0.0072, 0),
        Work.DEPTHWISE: Rate(1500, 0, 0.0044, 0.024),
        Work.WINDOW: Rate(1500, 1.4, 0.009, 0.001),
        Work.ELEMENTWISE: Rate(1500, 1.8, 0, 0.004),
        Work.EXPONENTIAL: Rate(1500, 0.9, 0.003, 0),
        Work.MOVE: Rate(1500, 0.6, 0, 0.011),
    },
    cpu={
        Work.PRODUCT: Rate(690, 1.1, 0.0071, 0),
        Work.DEPTHWISE: Rate(690, 1.3, 0.0167, 0),
        Work.WINDOW: Rate(690, 2.1, 0.0027, 0.028),
        Work.ELEMENTWISE: Rate(690, 0.6, 0, 0.004),
        Work.EXPONENTIAL: Rate(690, 0.2, 0.003, 0),
        Work.MOVE: Rate(690, 0.2, 0, 0.0023),
    },
    call_ns=13_000,
    switch_ns=200_000,
    transfer_ns=0.01,
    caution=0.1,
)
