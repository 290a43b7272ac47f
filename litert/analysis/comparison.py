"""The report of a comparison of a model with its reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorErrors:
    """The errors of a tensor against its reference; the worst of all samples.

    Attributes:
      name: Name of the tensor.
      subgraph: Index of the tensor's subgraph in the source model.
      op: Index in that subgraph of the op that computes the tensor.
      op_name: Name of the builtin operator, or the custom code.
      where: `npu` or `cpu`.
      call: Name of the NPU call that computes the tensor; "" on the CPU.
      greatest: Greatest absolute error, in real numbers; null if the tensor has no reference or an error is
        infinite.
      mean: Mean of the absolute errors.
      cosine: Cosine of the angle between tensor and reference.
      snr_db: Signal-to-noise ratio, in decibels; null if there is no error.
      local_greatest: The op's own error, in `unit`: the error of its result, given its actual inputs; null if the
        op was not checked by itself.
      limit: Largest accepted value of `local_greatest`.
      unit: `steps` of quantization, `of the magnitude` that is accumulated, or "" for what must be equal.
      is_within: Whether no error exceeds its limit.
      problem: Any other fault: elements that are not finite, a wrong shape, values that change from run to run.
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
    """The place of an op in the source model.

    Attributes:
      subgraph: Index of the op's subgraph.
      index: Index of the op in its subgraph.
      name: the builtin operator's name, or the custom code.
    """

    subgraph: int
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Blamed:
    """The first op, in execution order, whose own error exceeds its limit.

    Attributes:
      op: The op; of several ops that were checked together, the last one.
      call: Name of the op's NPU call; "" on the CPU.
      tensor: Name of the tensor that the op computes.
      why: Description of the fault.
      ops: The ops that were checked together, in execution order; only the op if it was checked by itself.
      sample: Index of the first sample that shows the fault.
      runs_differ: Whether results differ from run to run on the same inputs.
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
      origin: Where the sample's inputs come from.
      num_beyond: Number of tensors beyond their limits.
      first: Name of the first tensor beyond its limit; "" for none.
    """

    origin: str
    num_beyond: int
    first: str


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A tensor that was not compared.

    Attributes:
      name: Name of a tensor, or of an array in a golden file.
      reason: why.
    """

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ModelComparison:
    """The report of a comparison.

    Attributes:
      kernels: Kernels that computed the reference.
      num_samples: Number of samples.
      samples: Results of each sample.
      tensors: Results of each tensor, in execution order.
      first: Name of the first tensor beyond its limit; "" for none.
      blamed: The op at fault; null for none.
      unchecked: Ops of NPU calls for which no tensor could be compared.
      not_compared: Tensors that were not compared.
      notes: Further notes.
      not_runnable: Names of ops that neither the NPU nor stock LiteRT runs; random numbers replaced their results.
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
