"""Compares outputs with golden outputs, or with the outputs of another model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.status import Status

from .pictures import Array


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of an output with its golden output.

    Attributes:
      name: Name of the output.
      greatest_difference: Greatest difference over all elements; infinite if one of two compared values is NaN and
        the other is a number.
      index: Index of the element with the greatest difference; empty for a scalar.
      value: Value of the element with the greatest difference.
      expected: Golden value of the element with the greatest difference.
      passed: Whether the greatest difference is within the tolerance.
      problem: Reason why the output could not be compared; "" if the output was compared.
    """

    name: str
    greatest_difference: float
    index: tuple[int, ...]
    value: float
    expected: float
    passed: bool
    problem: str = ""

    def __str__(self) -> str:
        verdict = "ok" if self.passed else "FAILED"
        if self.problem:
            return f"{verdict}: {self.problem}"
        place = f" at index {list(self.index)}" if self.index else ""
        values = f" ({self.value:.9g}, expected {self.expected:.9g}{place})"
        return f"{verdict}: greatest difference {self.greatest_difference:.3g}" + (
            values if self.greatest_difference else ""
        )


def compare(
    outputs: Mapping[str, Array], golden: Mapping[str, Array], tolerance: float
) -> list[Comparison]:
    """Compares outputs with their golden outputs. The tolerance is the maximum difference that passes.

    Two NaN values count as equal.
    """
    return [_compare(name, outputs[name], expected, tolerance) for name, expected in golden.items()]


def match_outputs(ours: Mapping[str, Array], others: Mapping[str, Array]) -> dict[str, str]:
    """Pairs the outputs of two models by name, or by position if the other model has no output with the same name.

    Returns:
      The names of the other model's outputs, by the names of this model's outputs.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if an output has no corresponding output in the other model, or if the
        corresponding output has a different shape or type.
    """
    left = [name for name in ours if name not in others]
    right = [name for name in others if name not in ours]
    if len(left) != len(right):
        raise _incomparable(
            f"the measured model has {_outputs(ours)}, but the model of --stock_model has {_outputs(others)}"
        )
    pairs = {
        **{name: name for name in ours if name in others},
        **dict(zip(left, right, strict=True)),
    }
    for name, other in pairs.items():
        mine, its = _type_text(ours[name]), _type_text(others[other])
        if mine != its:
            raise _incomparable(
                f"output '{name}' of the measured model is {mine}, but output '{other}' of the model of "
                f"--stock_model is {its}"
            )
    return pairs


def _outputs(arrays: Mapping[str, Array]) -> str:
    return f"{count_text(len(arrays), 'output')} ({', '.join(arrays)})"


def _type_text(array: Array) -> str:
    """Returns a type as text, such as `float32 [1, 4]`; types that are not numbers are `text` in both runtimes."""
    kind = str(array.dtype) if array.dtype.kind in "biuf" else "text"
    return f"{kind} {list(array.shape)}"


def _incomparable(what: str) -> LiteRtError:
    hint = "With --stock_model, give the model from which the file was compiled."
    return LiteRtError(Status.INVALID_ARGUMENT, f"outputs cannot be compared: {what}", hint=hint)


def _compare(name: str, actual: Array, expected: Array, tolerance: float) -> Comparison:
    import numpy as np

    if actual.shape != expected.shape:
        problem = f"the output's shape is {list(actual.shape)}, but the expected shape is {list(expected.shape)}"
        return Comparison(name, np.inf, (), np.nan, np.nan, False, problem)
    if actual.dtype.kind not in "biuf" or expected.dtype.kind not in "biuf":
        same = bool(np.array_equal(actual, expected))
        problem = (
            "" if same else f"elements of type {actual.dtype} differ from the expected elements"
        )
        return Comparison(name, 0.0 if same else np.inf, (), np.nan, np.nan, same, problem)
    if not actual.size:
        return Comparison(name, 0.0, (), np.nan, np.nan, True)
    left, right = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(left - right)
    difference[(left == right) | (np.isnan(left) & np.isnan(right))] = 0
    difference[np.isnan(difference)] = np.inf
    place = np.unravel_index(int(np.argmax(difference)), difference.shape)
    greatest = float(difference[place])
    return Comparison(
        name,
        greatest,
        tuple(int(i) for i in place),
        float(left[place]),
        float(right[place]),
        greatest <= tolerance,
    )
