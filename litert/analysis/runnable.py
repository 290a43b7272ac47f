"""A model without the ops that nothing runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from litert.analysis.compare_options import Sample
from litert.analysis.source_graph import SourceGraph


def leave_out(
    whole: SourceGraph, samples: Sequence[Sample], names: Sequence[str], target: str
) -> tuple[SourceGraph, Sequence[Sample]]:
    """A copy without the ops of some names, whose results are inputs; and samples, with random numbers for these.

    Args:
      whole: the model.
      samples: of its inputs.
      names: of ops.
      target: where the copy is written.
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
