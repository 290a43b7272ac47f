"""Copies a model, but leaves out the ops that neither the NPU nor stock LiteRT can run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from litert.analysis.compare_options import Sample
from litert.analysis.source_graph import SourceGraph


def leave_out(
    whole: SourceGraph, samples: Sequence[Sample], names: Sequence[str], target: str
) -> tuple[SourceGraph, Sequence[Sample]]:
    """Writes a copy of a model that lacks the ops with the given names.

    The results of these ops become inputs of the copy, and the samples get random numbers for these inputs.

    Args:
      whole: The whole model.
      samples: Inputs of the model.
      names: Names of the ops to leave out.
      target: Path of the copy.
    """
    source = whole.without(names, target)
    random = np.random.default_rng(0)
    added = {
        name: random.uniform(0, 1, source.tensor(place).shape).astype(
            source.tensor(place).element_type.numpy_dtype
        )
        for name, place in source.inputs.items()
        if name not in whole.inputs
    }
    return source, [Sample(s.origin, {**s.inputs, **added}) for s in samples]
