"""Which ops name other subgraphs of a model, by their indices; and how subgraphs are taken out of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache

from litert.model.control_dependencies import (
    read_control_dependencies,
    set_control_dependencies,
)
from litert.model.graph import Model, Op
from litert.model.schema_types import Kind, table_schema
from litert.model.table import Table


def referenced_subgraphs(op: Op) -> Iterator[int]:
    """Indices of the subgraphs that an op names; where it names none, -1 or what the model does not have."""
    for options in (op.options, op.options_2):
        for field in () if options is None else _fields(options.type_name):
            assert options is not None
            value = options.get(field)
            if isinstance(value, int):
                yield value
            else:
                yield from value or ()


def remove_subgraphs(model: Model, gone: Collection[int]) -> None:
    """Takes subgraphs out, which no op that stays and no signature may name; ops name the others anew.

    Their operator codes and buffers stay.
    """
    if not gone:
        return
    edges = read_control_dependencies(model)
    kept = [index for index in range(len(model.subgraphs)) if index not in gone]
    places = {old: new for new, old in enumerate(kept)}
    model.subgraphs = [model.subgraphs[index] for index in kept]
    set_control_dependencies(model, [edges[index] for index in kept])
    for op in model.ops():
        if any(places.get(index, index) != index for index in referenced_subgraphs(op)):
            op.options = _renumbered(op.options, lambda index: places.get(index, index))
            op.options_2 = _renumbered(op.options_2, lambda index: places.get(index, index))


def _renumbered(options: Table | None, place: Callable[[int], int]) -> Table | None:
    if options is None:
        return None
    changes: dict[str, object] = {}
    for field in _fields(options.type_name):
        value = options.get(field)
        if value is not None:
            is_one = isinstance(value, int)
            changes[field] = place(value) if is_one else [place(index) for index in value]
    return options.with_fields(**changes) if changes else options


@cache
def _fields(type_name: str) -> tuple[str, ...]:
    """The fields of an options table that hold indices of subgraphs: the schema has no type for these."""
    return tuple(
        name
        for name, field in table_schema(type_name).fields.items()
        if field.kind in (Kind.SCALAR, Kind.VECTOR)
        and ("subgraph" in name or name == "called_computations")
    )
