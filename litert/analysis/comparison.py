"""The report of a comparison of a model with its reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorErrors:
    """The errors of a tensor compared with its reference; each error is the worst of all samples.

    Attributes:
      name: Name of the tensor.
      subgraph: Index of the tensor's subgraph in the source model.
      op: Index of the op that computes the tensor, in its subgraph.
      op_name: Name of the builtin op, or custom code of the custom op.
      where: `npu` or `cpu`.
      call: Name of the NPU call that computes the tensor; "" if the CPU computes it.
      greatest: Greatest absolute error of the dequantized values; null if the tensor has no reference or an error
        is infinite.
      mean: Mean absolute error of the tensor's elements.
      cosine: Cosine of the angle between the tensor and its reference, as vectors.
      snr_db: Signal-to-noise ratio, in decibels; null if there is no error.
      local_greatest: The op's own error, in `unit`: the difference of its result from the right result for the
        same inputs; null if the op was not checked separately.
      limit: Largest accepted value of `local_greatest`.
      unit: Unit of the op's own error: quantization `steps`, a fraction `of the magnitude` that the op adds up, or
        "" if results must be equal.
      is_within: Whether all errors of the tensor are within their limits.
      problem: A further fault of the tensor: elements that are not finite, a wrong shape, or values that differ
        from run to run.
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
      name: the name of the builtin op, or the custom code.
    """

    subgraph: int
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Blamed:
    """The first op, in execution order, whose own error is beyond its limit.

    Attributes:
      op: The op with the error; if several ops were checked together, the last of these ops.
      call: Name of the NPU call that contains the op; "" if the op is on the CPU.
      tensor: Name of the tensor that the op computes.
      why: Description of the fault.
      ops: The ops that were checked together, in execution order; only `op` if it was checked separately.
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
      origin: Description of the source of the sample's inputs.
      num_beyond: Number of tensors with errors beyond their limits.
      first: Name of the first tensor with an error beyond its limit; "" if there is none.
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
      kernels: Kind of stock LiteRT's kernels that computed the reference.
      num_samples: Number of samples.
      samples: Result of each input sample.
      tensors: Result of each compared tensor, in execution order.
      first: Name of the first tensor with an error beyond its limit; "" if there is none.
      blamed: The op that causes wrong results; null if no op was found.
      unchecked: Ops in NPU calls for which no tensor could be compared.
      not_compared: Tensors that were not compared.
      notes: Further notes.
      not_runnable: Names of ops that neither the NPU nor stock LiteRT can run, and whose results were replaced by
        random numbers.
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
