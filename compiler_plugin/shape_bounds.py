"""The user's bounds for tensors of dynamic shape, compared with the model that they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Model, Tensor


def check_shape_bounds(model: Model, bounds: Mapping[str, Sequence[int]]) -> None:
    """Refuses a bound for a tensor that the model has not, or one of another shape.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, with the tensors that there are.
    """
    for name, bound in bounds.items():
        tensors = [t for s in model.subgraphs for t in s.tensors if t.name == name]
        open_tensors = [t for t in tensors if not t.type.layout.is_static]
        if not open_tensors:
            raise _no_tensor(model, name, tensors)
        for tensor in open_tensors:
            _check_bound(tensor, bound)


def _check_bound(tensor: Tensor, bound: Sequence[int]) -> None:
    where = f"--shape_bounds of '{tensor.name}'"
    shown = "x".join(map(str, bound))
    pattern = tensor.type.shape
    if len(pattern) != len(bound) or any(
        p not in (-1, b) for p, b in zip(pattern, bound, strict=True)
    ):
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"{shown} is no bound of {tensor.type}",
            where,
            "Give each unknown dimension (?) a number, and leave the others as they are.",
        )
    if any(d > b for d, b in zip(tensor.shape, bound, strict=True)):
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"{shown} is below {'x'.join(map(str, tensor.shape))}, which the file has until it is resized",
            where,
            "Give at least that.",
        )


def _no_tensor(model: Model, name: str, tensors: Sequence[Tensor]) -> LiteRtError:
    named = list(dict.fromkeys(_inputs(model)))
    has = f"It has {', '.join(named)}." if named else "All its inputs have fixed shapes."
    what = f"the model has no tensor '{name}'"
    if tensors:
        what = f"'{name}' has a fixed shape, {tensors[0].type}"
    return LiteRtError(Status.INVALID_TOOL_CONFIG, what, "--shape_bounds", has)


def _inputs(model: Model) -> Iterator[str]:
    """Inputs of dynamic shape, as a bound would name them."""
    for subgraph in model.subgraphs:
        for tensor in subgraph.inputs:
            if not tensor.type.layout.is_static:
                yield f"'{tensor.name}' ({tensor.type})"
