"""Probes: small models of one op each, whose outputs change with one easily made mistake."""

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
    """A small model on which the vendor's outputs are compared.

    Attributes:
      op: Name of the operator.
      types: Element types of the inputs, as the report shows them.
      variant: A few words that distinguish this probe from others of the same op and types.
      build: Function that makes the model.
      rule: Name of the rule that wrong outputs break.
      needs: Names of other probes; if one of these fails, this probe is skipped.
      is_ordered: Whether swapped inputs of the same type would change the outputs.
      lowest, highest: Range of the random float inputs.
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
    """Makes the probe's name for messages: `CONV_2D of int8, SAME padding`."""
    name = op if types == "float32" else f"{op} of {types}"
    return f"{name}, {variant}" if variant else name


@cache
def find_probes() -> Sequence[Probe]:
    """Returns the `PROBES` of all modules, in the order of the modules' names."""
    modules = load_package(PROBES, "PROBES", lambda probes: probes[0].name)
    return [probe for probes in modules.values() for probe in probes]


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of a probe's op, for its builder.

    Attributes:
      shape: The shape; all dimensions are known.
      data: A constant's array, of the tensor's type; None for inputs and computed tensors.
      scales: Quantization scales: one, or one per index of `axis`; empty for tensors that are not quantized.
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
    """Makes a model of one op; the model's inputs are the op's tensors without data, in order."""
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
    """Makes positive and negative float32 values up to a largest magnitude."""
    import numpy as np

    return np.random.default_rng(seed).uniform(-largest, largest, shape).astype(np.float32)


def random_integers(seed: int, largest: int, shape: Sequence[int], element_type: str) -> Any:
    """Makes positive and negative integers up to a largest magnitude."""
    import numpy as np

    values = np.random.default_rng(seed).integers(-largest, largest + 1, shape)
    return values.astype(element_type)
