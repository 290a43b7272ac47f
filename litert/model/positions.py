"""Updates the indices of subgraphs and ops in a model after a subgraph or op was removed or replaced.

The options of an op may contain indices of other subgraphs. The metadata `model_control_dependencies` contain
pairs of op indices: the first op of a pair must run before the second, although no tensor requires this order. The
converter writes these metadata for ops with side effects, and the interpreter reads them when it passes ops to
delegates. The metadata are varints: a version, then a list of pairs for each subgraph (LiteRT:
`tflite/converter/experimental/remat/metadata_util.cc`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache

from litert.model.blob import Blob
from litert.model.graph import Model, Op
from litert.model.schema_types import FieldKind, table_schema
from litert.model.table import Table

CONTROL_DEPENDENCIES_KEY = "model_control_dependencies"
Edge = tuple[int, int]
"""Index of an op, and index of another op that must run later."""
_VERSION = 1
_MAX_BITS = 32


def referenced_subgraphs(op: Op) -> Iterator[int]:
    """Returns the subgraph indices in an op's options.

    If an op refers to no subgraph, the index may be -1, or may exceed the number of subgraphs.
    """
    for options in filter(None, (op.options, op.options_2)):
        for field in _fields(options.type_name):
            value = options.get(field)
            if isinstance(value, int):
                yield value
            else:
                yield from value or ()


def reachable_subgraphs(model: Model, op: Op) -> set[int]:
    """Returns the indices of the subgraphs that an op calls, directly or through ops in these subgraphs."""
    found: set[int] = set()
    waiting = list(referenced_subgraphs(op))
    while waiting:
        index = waiting.pop()
        if index not in found and 0 <= index < len(model.subgraphs):
            found.add(index)
            waiting += [i for op in model.subgraphs[index].ops for i in referenced_subgraphs(op)]
    return found


def remove_subgraphs(model: Model, gone: Collection[int]) -> None:
    """Removes subgraphs, and updates subgraph indices in the remaining ops.

    No remaining op or signature may refer to a removed subgraph. The operator codes and buffers of removed
    subgraphs stay in the model.
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
            op.options = _renumbered(op.options, places)
            op.options_2 = _renumbered(op.options_2, places)


def _renumbered(options: Table | None, places: Mapping[int, int]) -> Table | None:
    """Replaces subgraph indices in options by the new indices; keeps indices without a subgraph, such as -1."""
    if options is None:
        return None
    changes: dict[str, object] = {}
    for field in _fields(options.type_name):
        value = options.get(field)
        if isinstance(value, int):
            changes[field] = places.get(value, value)
        elif value is not None:
            changes[field] = [places.get(index, index) for index in value]
    return options.with_fields(**changes) if changes else options


@cache
def _fields(type_name: str) -> tuple[str, ...]:
    """Returns the names of the fields that contain subgraph indices; the schema has no type for such indices."""
    return tuple(
        name
        for name, field in table_schema(type_name).fields.items()
        if field.kind in (FieldKind.SCALAR, FieldKind.VECTOR)
        and ("subgraph" in name or name == "called_computations")
    )


def read_control_dependencies(model: Model) -> list[list[Edge]]:
    """Returns the edges of each subgraph, or no edges if the metadata are missing or invalid."""
    blob = model.find_metadata(CONTROL_DEPENDENCIES_KEY)
    none: list[list[Edge]] = [[] for _ in model.subgraphs]
    if blob is None:
        return none
    try:
        found = _read_edges(bytes(blob))
    except (StopIteration, ValueError):
        return none
    return found if len(found) == len(model.subgraphs) else none


def set_control_dependencies(model: Model, edges: Sequence[Iterable[Edge]]) -> None:
    """Replaces the edges in a model's metadata, if these exist; subgraphs that `edges` lacks get no edges."""
    every = [*edges, *([()] * (len(model.subgraphs) - len(edges)))]
    data = bytearray()
    _put(data, _VERSION)
    _put(data, len(every))
    for some in every:
        ordered = sorted(set(some))
        _put(data, len(ordered))
        for edge in ordered:
            for position in edge:
                _put(data, position * 2)  # zigzag
    for entry in model.metadata:
        if entry.name == CONTROL_DEPENDENCIES_KEY:
            entry.buffer.blob = Blob(bytes(data))
            return


def _read_edges(data: bytes) -> list[list[Edge]]:
    """Parses edges; raises StopIteration if numbers are missing, and ValueError if numbers are invalid."""
    numbers = _varints(data)

    def position() -> int:
        value, is_negative = divmod(next(numbers), 2)  # zigzag
        if is_negative:
            raise ValueError("a negative position")
        return value

    if next(numbers) != _VERSION:
        raise ValueError("of another version")
    found = [[(position(), position()) for _ in range(next(numbers))] for _ in range(next(numbers))]
    if next(numbers, None) is not None:
        raise ValueError("unexpected bytes at the end")
    return found


def _varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            yield value
            value = shift = 0
        elif shift > _MAX_BITS:
            raise ValueError("a number has more than 32 bits")
    if shift:
        raise ValueError("a number is incomplete")


def _put(data: bytearray, value: int) -> None:
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
