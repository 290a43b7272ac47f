"""Probes are small models with one op each, whose outputs are wrong if a vendor makes a common mistake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from litert.core.quantization import Quantization
from litert.host.extensions import load_package
from litert.model.builder import ModelBuilder
from litert.model.graph import Model

PROBES = "litert.conformance.probes"
VALUES = "invoke.values"
OTHERS = "other models"


@dataclass(frozen=True, slots=True)
class Probe:
    """A small model; the vendor's outputs of this model are compared with expected outputs.

    Attributes:
      op: Name of the model's op, such as CONV_2D.
      types: Element types of the inputs, in the form that the report shows.
      variant: A few words that distinguish this probe from other probes with the same op and types.
      build: Function that builds the model.
      rule: Name of the rule that the vendor breaks if the outputs are wrong.
      needs: Names of other probes that this probe needs; if one of these fails, this probe is skipped.
      is_ordered: Whether the outputs would change if two inputs of the same type were swapped.
      lowest, highest: Smallest and largest value of the random float inputs.
    """

    op: str
    types: str
    variant: str
    build: Callable[[], Model] = field(compare=False)
    rule: str = VALUES
    needs: Sequence[str] = ()
    is_ordered: bool = False
    lowest: float = -1
    highest: float = 1

    @property
    def name(self) -> str:
        """The probe's unique name."""
        return probe_name(self.op, self.types, self.variant)


def probe_name(op: str, types: str, variant: str = "") -> str:
    """Makes a probe's name for messages, such as `CONV_2D of int8, SAME padding`."""
    name = op if types == "float32" else f"{op} of {types}"
    return f"{name}, {variant}" if variant else name


@cache
def find_probes() -> Sequence[Probe]:
    """Returns the `PROBES` of all modules in the package `probes`, in the order of the modules' names."""
    modules = load_package(PROBES, "PROBES", lambda probes: probes[0].name)
    return [probe for probes in modules.values() for probe in probes]


@dataclass(frozen=True, slots=True)
class Operand:
    """Describes a tensor of a probe's op, for the function that builds the model.

    Attributes:
      shape: The tensor's shape; all dimensions are known.
      data: Data of a constant, as an array of the tensor's type; None for inputs and computed tensors.
      scales: Quantization scales: one for the whole tensor, or one for each index along `axis`; empty for tensors
        that are not quantized.
    """

    shape: Sequence[int]
    element_type: str = "float32"
    data: Any = None
    scales: Sequence[float] = ()
    zero_point: int = 0
    axis: int = 0

    @property
    def quantization(self) -> Quantization | None:
        """The tensor's quantization in the model."""
        if not self.scales:
            return None
        zero_points = (self.zero_point,) * len(self.scales)
        return Quantization(tuple(self.scales), zero_points, quantized_dimension=self.axis)


def one_op(op: str, inputs: Sequence[Operand], output: Operand, **options: Any) -> Model:
    """Makes a model with one op; those inputs of the op that have no data are the model's inputs, in order."""
    builder = ModelBuilder()
    tensors = []
    for index, operand in enumerate(inputs):
        name, quantization = f"input_{index}", operand.quantization
        if operand.data is None:
            made = builder.input(
                name, operand.element_type, operand.shape, quantization=quantization
            )
        else:
            made = builder.constant(name, operand.data, quantization=quantization)
        tensors.append(made)
    y = builder.tensor("y", output.element_type, output.shape, quantization=output.quantization)
    builder.output(builder.op(op, tensors, [y], **options))
    return builder.build()


def random_floats(seed: int, largest: float, shape: Sequence[int]) -> Any:
    """Makes random positive and negative float32 values up to a largest magnitude."""
    import numpy as np

    return np.random.default_rng(seed).uniform(-largest, largest, shape).astype(np.float32)


def random_integers(seed: int, largest: int, shape: Sequence[int], element_type: str) -> Any:
    """Makes random positive and negative integers up to a largest magnitude."""
    import numpy as np

    values = np.random.default_rng(seed).integers(-largest, largest + 1, shape)
    return values.astype(element_type)
