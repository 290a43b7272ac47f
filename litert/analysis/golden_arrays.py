"""Assigns the arrays of a golden file to tensors of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from litert.analysis.source_graph import SourceGraph
from litert.analysis.stock_run import Array


def match_golden(
    source: SourceGraph, arrays: Mapping[str, Array]
) -> tuple[dict[int, Array], dict[str, str]]:
    """Finds the tensor of each array: by the tensor's name, by an output's name in the signature, or by `out0`.

    Arrays for model inputs are skipped.

    Returns:
      The arrays by the place of their tensor; and reasons why other arrays are not compared, by array name.
    """
    outputs = dict(source.outputs)
    outputs |= {f"out{index}": place for index, place in enumerate(source.outputs.values())}
    names = Counter(source.tensor(place).name for place in source.results)
    places = {source.tensor(p).name: p for p in source.results if names[source.tensor(p).name] == 1}
    found: dict[int, Array] = {}
    left: dict[str, str] = {}
    results = set(source.results)
    inputs = {*source.inputs, *(f"in{index}" for index in range(len(source.inputs)))}
    for name, array in arrays.items():
        if name in inputs:
            continue
        place = outputs.get(name, places.get(name, -1))
        if place not in results:
            several = names[name] > 1
            left[name] = (
                f"{names[name]} tensors of the model have this name"
                if several
                else "no op of the model computes a tensor with this name"
            )
        elif array.dtype.kind not in "biuf":
            left[name] = f"the array's elements are {array.dtype}, not numbers"
        elif array.shape != source.tensor(place).shape:
            left[name] = (
                f"the array has shape {list(array.shape)}, but the tensor has shape "
                f"{list(source.tensor(place).shape)}"
            )
        else:
            found[place] = array
    return found, left
