"""What is compared, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler_plugin.apply_options import ApplyOptions
from litert.analysis.reference_run import ReferenceOptions
from litert.analysis.stock_run import Array
from litert.core.environment_options import EnvironmentOptions
from litert.options import Options

AUTO, CUTS, TAPS = "auto", "cuts", "taps"
"""How `compare` gets tensors inside NPU calls: it makes them outputs of the model (cuts), or the vendor hands them
out while the call runs (taps)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Inputs to compare on.

    Attributes:
      origin: where they come from, for people.
      inputs: by name.
    """

    origin: str
    inputs: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How a model is compared.

    Attributes:
      reference: what computes the reference.
      golden: tensors of the first sample, by their places in the source, which are the reference instead.
      tolerance: of floats: the greatest error of an op, as a part of what it accumulates.
      num_runs: how often each sample is run, since runs may differ.
      inside: `AUTO`, `CUTS` or `TAPS`; `AUTO` is taps where the vendor has them, and cuts for the rest.
      apply: how the model is compiled.
      load: how it is loaded.
      environment: where dispatch tables are.
    """

    reference: ReferenceOptions = field(default_factory=ReferenceOptions)
    golden: Mapping[int, Array] = field(default_factory=dict)
    tolerance: float = 0.01
    num_runs: int = 2
    inside: str = AUTO
    apply: ApplyOptions = field(default_factory=ApplyOptions)
    load: Options = field(default_factory=Options)
    environment: EnvironmentOptions = field(default_factory=EnvironmentOptions)
