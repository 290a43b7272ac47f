"""Probes: small models of one op each, in which one thing that is easily done wrong changes the outputs."""

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
    """A model that a vendor's outputs are compared on.

    Attributes:
      op: the operator's name.
      types: element types of its inputs, as the report has them.
      variant: what distinguishes it from other probes of the op and types, in a few words.
      build: makes the model.
      rule: that is broken where the outputs are others.
      needs: probes by name; where one of them is wrong, this one would say nothing of its own.
      is_ordered: whether inputs of one type cannot change places.
      lowest, highest: of random float inputs.
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
        """Its name; no other probe has it."""
        return probe_name(self.op, self.types, self.variant)


def probe_name(op: str, types: str, variant: str = "") -> str:
    """How messages call a probe: `CONV_2D of int8, SAME padding`."""
    name = op if types == "float32" else f"{op} of {types}"
    return f"{name}, {variant}" if variant else name


@cache
def find_probes() -> Sequence[Probe]:
    """What the modules of `PROBES` have as their `PROBES`, in the modules' order."""
    modules = load_package(PROBES, "PROBES", lambda probes: probes[0].name)
    return [probe for probes in modules.values() for probe in probes]


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor of a probe's op.

    Attributes:
      shape: all dimensions known.
      data: of a constant, an array of its type; None for what is an input or computed.
      scales: of quantized elements, one or one for each index of `axis`; none for others.
    """

    shape: Sequence[int]
    element_type: str = "float32"
    data: Any = None
    scales: Sequence[float] = ()
    zero_point: int = 0
    axis: int = 0

    @property
    def quantization(self) -> Quantization | None:
        """As the model has it."""
        if not self.scales:
            return None
        zero_points = (self.zero_point,) * len(self.scales)
        return Quantization(tuple(self.scales), zero_points, quantized_dimension=self.axis)


def one_op(op: str, inputs: Sequence[Operand], output: Operand, **options: Any) -> Model:
    """A model of one op; its inputs are those without data, in the op's order."""
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
    """Values of all signs up to a largest one, float32."""
    import numpy as np

    return np.random.default_rng(seed).uniform(-largest, largest, shape).astype(np.float32)


def random_integers(seed: int, largest: int, shape: Sequence[int], element_type: str) -> Any:
    """Values of all signs up to a largest one."""
    import numpy as np

    values = np.random.default_rng(seed).integers(-largest, largest + 1, shape)
    return values.astype(element_type)
