"""Assigns shape bounds to models: a model gets each bound that has the name of one of its dynamic tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from litert.core.counts import names_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.reader import read_model

Bounds = Mapping[str, Sequence[int]]


def choose_bounds(paths: Sequence[str], bounds: Bounds) -> list[Bounds]:
    """Selects the shape bounds for each model.

    If there is only one model, it gets all bounds, as in a compilation.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if no model has a dynamic tensor with the name of a bound.
    """
    if not bounds or len(paths) == 1:
        return [bounds] * len(paths)
    named = [_dynamic_tensors(path) for path in paths]
    for name in bounds:
        if not any(name in names for names in named):
            inputs = sorted({n for names in named for n, is_input in names.items() if is_input})
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"no model has a tensor '{name}' with a dynamic shape",
                "--shape_bounds",
                f"{names_text('dynamic input', inputs)}."
                if inputs
                else "Omit --shape_bounds: no model has an input with a dynamic shape.",
            )
    return [{n: bound for n, bound in bounds.items() if n in names} for names in named]


def _dynamic_tensors(path: str) -> dict[str, bool]:
    """Finds the names of tensors of dynamic shape, and whether each is an input; empty for an unreadable file."""
    names: dict[str, bool] = {}
    with (
        suppress(LiteRtError),
        read_model(path) as model,
    ):  # the analysis of the model reports the error
        for subgraph in model.subgraphs:
            inputs = {*subgraph.inputs}
            for tensor in subgraph.tensors:
                if not tensor.type.layout.is_static:
                    names[tensor.name] = names.get(tensor.name, False) or tensor in inputs
    return names
