"""Options of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler_plugin.apply_options import ApplyOptions
from litert.analysis.reference_run import ReferenceOptions
from litert.analysis.stock_run import Array
from litert.core.environment_options import EnvironmentOptions
from litert.options import Options

AUTO, CUTS, TAPS = "auto", "cuts", "taps"
"""How `compare` gets tensors inside NPU calls: as outputs of a cut model (cuts), or from the vendor (taps)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The inputs of one compared run.

    Attributes:
      origin: Where the inputs come from, for messages.
      inputs: The input arrays by name.
    """

    origin: str
    inputs: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """Options of a comparison.

    Attributes:
      reference: Options of the reference's computation.
      golden: Golden tensors of the first sample, by place in the source; they replace the computed reference.
      tolerance: Largest accepted float error of an op, relative to the magnitudes that the op sums.
      num_runs: Number of runs of each sample, since results may differ from run to run.
      inside: `AUTO`, `CUTS` or `TAPS`; `AUTO` uses taps if the vendor has them, and cuts for the other tensors.
      apply: Options of the compilation.
      load: Options for loading the compiled model.
      environment: Environment that finds dispatch tables.
    """

    reference: ReferenceOptions = field(default_factory=ReferenceOptions)
    golden: Mapping[int, Array] = field(default_factory=dict)
    tolerance: float = 0.01
    num_runs: int = 2
    inside: str = AUTO
    apply: ApplyOptions = field(default_factory=ApplyOptions)
    load: Options = field(default_factory=Options)
    environment: EnvironmentOptions = field(default_factory=EnvironmentOptions)
