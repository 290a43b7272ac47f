"""Damages models so that the model reader may accept them: changes one to three places in the graph.

Ops, tensors and options are exchanged, and get values of other kinds, so that the damage reaches the code after
the reader: stock LiteRT's interpreter, the vendor's loader, and kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.model.blob import Blob
from litert.model.graph import Model, Op, Subgraph, Tensor
from litert.model.manifest import Digest, read_manifest, set_manifest
from litert.model.reader import read_model
from litert.model.schema import BUILTIN_OPERATORS
from litert.model.table import Table
from litert.model.writer import to_bytes
from tests.fuzz.mutation import damage_bytes, damage_json, random_number

_SIZES = (0, 1, 2, 3, 4, 7, 64, 1000, 65536, 2**20, 2**31 - 1)
_TYPES = tuple(ElementType)
_SCALES = (0.0, 1.0, 0.5, -1.0, 1e-30, 1e30, float("nan"), float("inf"))


def damage_graph(
    data: bytes, random: Random, damage_byte_code: Callable[[bytes, Random], bytes] = damage_bytes
) -> bytes:
    """Changes a model's graph; if the model cannot be read or written, changes its bytes instead."""
    try:
        model = read_model(data)
        for _ in range(random.choice((1, 1, 2, 3))):
            _damage_once(model, random, damage_byte_code)
        if random.random() < 0.9:
            _tell_of_byte_code(model)
        return bytes(to_bytes(model))
    except LiteRtError:
        return damage_bytes(data, random)


def _damage_once(
    model: Model, random: Random, damage_byte_code: Callable[[bytes, Random], bytes]
) -> None:
    subgraph = random.choice(model.subgraphs or [Subgraph()])
    kind = random.random()
    if kind < 0.35 and subgraph.ops:
        _damage_op(random.choice(subgraph.ops), subgraph, model, random)
    elif kind < 0.65 and subgraph.tensors:
        _damage_tensor(random.choice(subgraph.tensors), subgraph, random)
    elif kind < 0.75:
        _damage_lists(model, subgraph, random)
    elif kind < 0.85 and model.metadata:
        buffer = random.choice(model.metadata).buffer
        buffer.blob = Blob(damage_json(bytes(buffer.blob or b""), random))
    elif model.byte_code:
        module = random.choice(model.byte_code)
        module.blob = Blob(damage_byte_code(bytes(module.blob), random))
        if random.random() < 0.2:
            module.users = [(op, random.choice(("", "x", name))) for op, name in module.users]


def _tell_of_byte_code(model: Model) -> None:
    """Updates the digests of the byte code in the manifest, as a hostile compiler does."""
    with suppress(LiteRtError):
        if manifest := read_manifest(model):
            modules = [Digest.of(module.blob) for module in model.byte_code]
            set_manifest(model, replace(manifest, modules=modules))


def _damage_op(op: Op, subgraph: Subgraph, model: Model, random: Random) -> None:
    others = list(model.ops())
    match random.randrange(7):
        case 0:
            op.code = random.choice(others).code
        case 1:
            op.code = model.operator_code(random.choice(list(BUILTIN_OPERATORS)), None, 1)
        case 2:
            op.options = random.choice((None, random.choice(others).options, op.options))
            op.options = _damaged_table(op.options, random)
        case 3 | 4 if op.inputs:
            tensors = [*subgraph.tensors, None]
            op.set_input(random.randrange(len(op.inputs)), random.choice(tensors))
        case 5:
            op.append_input(random.choice([*subgraph.tensors, None]))
        case _ if op.inputs and random.random() < 0.5:
            op.remove_input(random.randrange(len(op.inputs)))
        case _ if op.outputs:
            op.set_output(random.randrange(len(op.outputs)), random.choice(subgraph.tensors))


def _damaged_table(table: Table | None, random: Random) -> Table | None:
    """Returns options with another number in one field, if the schema allows this number."""
    fields = dict(table.fields()) if table else {}
    numbers = [name for name, value in fields.items() if isinstance(value, int | float)]
    if table is None or not numbers:
        return table
    try:
        return table.with_fields(**{random.choice(numbers): random_number(random)})
    except LiteRtError:
        return table


def _damage_tensor(tensor: Tensor, subgraph: Subgraph, random: Random) -> None:
    other = random.choice(subgraph.tensors)
    match random.randrange(7):
        case 0:
            tensor.element_type = random.choice((*_TYPES, other.element_type))
        case 1 | 2:
            tensor.shape = _damaged_shape(random.choice((tensor.shape, other.shape)), random)
        case 3:
            known = tensor.shape_signature or tensor.shape
            tensor.shape_signature = _damaged_shape(known, random, (-1, -1, -2))
        case 4:
            tensor.buffer = other.buffer
        case 5:
            data = bytes(tensor.data) or random.randbytes(random.choice(_SIZES[:6]))
            tensor.buffer.blob = random.choice((None, Blob(damage_bytes(data, random))))
        case _ if random.random() < 0.3:
            tensor.is_variable = not tensor.is_variable
        case _:
            scales = [random.choice(_SCALES) for _ in range(random.choice((0, 1, 1, 2, 3)))]
            points = [random.choice((0, 0, 3, -129, 2**40)) for _ in scales]
            axis = random.choice((0, 0, 1, 3, -1, 100))
            tensor.quantization = random.choice((None, Quantization(scales, points, axis)))


def _damaged_shape(
    shape: tuple[int, ...], random: Random, more: Sequence[int] = ()
) -> tuple[int, ...]:
    dims = list(shape)
    place = random.randrange(len(dims) + 1)
    size = random.choice((*_SIZES, *more))
    if place == len(dims) or random.random() < 0.2:
        dims.insert(place, size)
    elif random.random() < 0.2:
        del dims[place]
    else:
        dims[place] = size
    return tuple(dims)


def _damage_lists(model: Model, subgraph: Subgraph, random: Random) -> None:
    """Removes, duplicates or swaps elements of a list, or replaces an input or output of the subgraph."""
    rows: list[list[Any]] = [subgraph.inputs, subgraph.outputs, subgraph.ops, model.metadata]
    rows += [model.subgraphs, model.signatures]
    rows += [arguments for s in model.signatures for arguments in (s.inputs, s.outputs)]
    row = random.choice([row for row in rows if row] or [[None]])
    place, other = random.randrange(len(row)), random.randrange(len(row))
    match random.randrange(4):
        case 0:
            del row[place]
        case 1:
            row.insert(place, row[other])
        case 2:
            row[place], row[other] = row[other], row[place]
        case _ if row in (subgraph.inputs, subgraph.outputs):
            row[place] = random.choice(subgraph.tensors)
