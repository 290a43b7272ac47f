"""Options for comparing a model with its reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler_plugin.apply_options import ApplyOptions
from litert.analysis.reference_run import ReferenceOptions
from litert.analysis.stock_run import Array
from litert.core.environment_options import EnvironmentOptions
from litert.options import Options

AUTO, CUTS, TAPS = "auto", "cuts", "taps"
"""How a comparison reads tensors inside NPU calls: as outputs of a cut model (cuts), or from the vendor (taps)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """An input sample, which is run and compared.

    Attributes:
      origin: Description of the source of the inputs, for messages.
      inputs: The input arrays by name.
    """

    origin: str
    inputs: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """Options for comparing a model with its reference.

    Attributes:
      reference: Options for computing the reference.
      golden: Golden tensors that replace the computed reference of the first sample, by place in the source model.
      tolerance: Largest accepted float error of one op, divided by the sum of the absolute values of the terms
        that the op adds up.
      num_runs: Number of runs with each sample; all runs must give the same results.
      inside: `AUTO`, `CUTS` or `TAPS`; `AUTO` uses taps if the vendor supports taps, and cuts for all tensors
        without a tap.
      apply: Options for compiling the model.
      load: Options for loading the compiled model.
      environment: Environment; its options name the folders to search for dispatch tables.
    """

    reference: ReferenceOptions = field(default_factory=ReferenceOptions)
    golden: Mapping[int, Array] = field(default_factory=dict)
    tolerance: float = 0.01
    num_runs: int = 2
    inside: str = AUTO
    apply: ApplyOptions = field(default_factory=ApplyOptions)
    load: Options = field(default_factory=Options)
    environment: EnvironmentOptions = field(default_factory=EnvironmentOptions)
