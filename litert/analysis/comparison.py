"""What a comparison of a model with its reference came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorErrors:
    """A tensor beside its reference; the worst of all samples.

    Attributes:
      name: of the tensor.
      subgraph: index of its subgraph in the source model.
      op: index there of the op that computes it.
      op_name: the builtin operator's name, or the custom code.
      where: `npu` or `cpu`.
      call: the NPU call that computes it; "" on the CPU.
      greatest: absolute error, in real numbers; null where the tensor has no reference, or an error is infinite.
      mean: of the absolute errors.
      cosine: of the angle between tensor and reference.
      snr_db: signal to noise, in decibels; null where there is no error.
      local_greatest: the op's own error: of its result, given the inputs that it had; in `unit`; null where the op
        was not checked by itself.
      limit: of `local_greatest`.
      unit: `steps` of quantization, `of the magnitude` that is accumulated, or "" for what must be equal.
      is_within: whether no error is beyond its limit.
      problem: what else is wrong: elements that are no finite numbers, another shape, another value in each run.
    """

    name: str
    subgraph: int
    op: int
    op_name: str
    where: str
    call: str
    greatest: float
    mean: float
    cosine: float
    snr_db: float
    local_greatest: float | None
    limit: float | None
    unit: str
    is_within: bool
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SourceOp:
    """An op of the source model.

    Attributes:
      subgraph: index of its subgraph.
      index: of the op there.
      name: the builtin operator's name, or the custom code.
    """

    subgraph: int
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Blamed:
    """The first op, in execution order, whose own error is beyond its limit.

    Attributes:
      op: the op; the last one of several that could only be checked as one.
      call: the NPU call that it is in; "" on the CPU.
      tensor: that the op computes.
      why: what was found.
      ops: that were checked as one, in execution order; the op alone, where it was checked by itself.
      sample: index of the first sample on which it was found.
      runs_differ: whether results differ from run to run on the same inputs.
    """

    op: SourceOp
    call: str
    tensor: str
    why: str
    ops: Sequence[SourceOp]
    sample: int
    runs_differ: bool


@dataclass(frozen=True, slots=True)
class SampleErrors:
    """One sample.

    Attributes:
      origin: where its inputs come from.
      num_beyond: how many tensors are beyond their limits.
      first: name of the first of them; "" for none.
    """

    origin: str
    num_beyond: int
    first: str


@dataclass(frozen=True, slots=True)
class NotCompared:
    """What was left out.

    Attributes:
      name: of a tensor, or an array of a golden file.
      reason: why.
    """

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """What a comparison came to.

    Attributes:
      kernels: that computed the reference.
      num_samples: that were run.
      samples: what was found of each.
      tensors: in execution order.
      first: name of the first tensor beyond its limit; "" where there is none.
      blamed: the op to blame; null for none.
      unchecked: ops of NPU calls of which nothing could be compared.
      not_compared: what was left out.
      notes: what else there is to know.
      not_runnable: names of ops that neither the NPU nor stock LiteRT runs; their results were random numbers.
    """

    kernels: str
    num_samples: int
    samples: Sequence[SampleErrors]
    tensors: Sequence[TensorErrors]
    first: str
    blamed: Blamed | None
    unchecked: Sequence[SourceOp]
    not_compared: Sequence[NotCompared]
    notes: Sequence[str]
    not_runnable: Sequence[str]
