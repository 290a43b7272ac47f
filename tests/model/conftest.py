"""Fixtures: random models of all shapes that the schema allows, built and compared by stock's schema code."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import flatbuffers  # type: ignore[import-untyped]
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as stock

from litert.model import schema
from litert.model.schema_types import Field, FieldKind, table_schema

_DTYPES = {
    "?": np.bool_, "b": np.int8, "B": np.uint8, "h": np.int16, "H": np.uint16, "i": np.int32,
    "I": np.uint32, "q": np.int64, "Q": np.uint64, "f": np.float32,
}  # fmt: skip


@pytest.fixture(scope="session")
def random_model() -> Callable[[int], bytes]:
    """A function that builds a model from a seed: fields are filled, absent or empty; indices are in range."""
    return lambda seed: pack(_Random(seed).model())


@pytest.fixture(scope="session")
def differences() -> Callable[[bytes, bytes], list[str]]:
    """A function that lists how two models differ in stock's schema code, with the data after the flatbuffer."""

    def compare(left: bytes, right: bytes) -> list[str]:
        return list(_differences(unpack(left), unpack(right), "model", left, right))

    return compare


@pytest.fixture(scope="session")
def change_model() -> Callable[[bytes, Callable[[Any], object]], bytes]:
    """A function that changes a model in stock's object API, which accepts any index."""

    def change(data: bytes, how: Callable[[Any], object]) -> bytes:
        model = unpack(data)
        how(model)
        return pack(model)

    return change


def unpack(data: bytes) -> Any:
    """Parses a model into stock's object API."""
    return stock.ModelT.InitFromPackedBuf(bytearray(data), 0)


def pack(model: Any) -> bytes:
    """Serializes a model of stock's object API."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


class _Random:
    """Builds random tables; most offset fields can be absent, empty or filled."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def model(self) -> Any:
        rng = self._rng
        model = self.table("Model", skip={"subgraphs", "signature_defs", "metadata"})
        model.version = 3
        model.buffers = [stock.BufferT()] + [self.buffer() for _ in range(rng.randrange(6))]
        model.operatorCodes = [self.table("OperatorCode") for _ in range(rng.randrange(1, 4))]
        model.subgraphs = [self.subgraph(model) for _ in range(rng.randrange(1, 4))]
        model.metadata = self.maybe([self.table("Metadata") for _ in range(rng.randrange(3))])
        for entry in model.metadata or ():
            entry.buffer = rng.randrange(len(model.buffers))
        model.signatureDefs = self.maybe([self.signature(model) for _ in range(rng.randrange(3))])
        return model

    def buffer(self) -> Any:
        buffer = stock.BufferT()
        buffer.data = self.maybe(self.numbers("B", self._rng.choice([0, 1, 15, 16, 17, 100])))
        return buffer

    def subgraph(self, model: Any) -> Any:
        rng = self._rng
        subgraph = self.table("SubGraph", skip={"tensors", "operators"})
        tensors = [self.table("Tensor") for _ in range(rng.randrange(1, 6))]
        for tensor in tensors:
            tensor.buffer = rng.randrange(len(model.buffers))
            details = tensor.quantization.details if tensor.quantization else None
            if details is not None and hasattr(details, "scales"):
                details.scales = rng.randrange(-1, len(tensors))
                details.zeroPoints = rng.randrange(-1, len(tensors))
        ops = [self.op(model, len(tensors)) for _ in range(rng.randrange(5))]
        subgraph.tensors, subgraph.operators = tensors, self.maybe(ops)
        subgraph.inputs = self.maybe(self.indices(len(tensors), 0))
        subgraph.outputs = self.maybe(self.indices(len(tensors), 0))
        return subgraph

    def op(self, model: Any, tensors: int) -> Any:
        op = self.table("Operator")
        op.opcodeIndex = self._rng.randrange(len(model.operatorCodes))
        op.inputs = self.maybe(self.indices(tensors, -1))
        op.outputs = self.maybe(self.indices(tensors, 0))
        op.intermediates = self.maybe(self.indices(tensors, -1))
        op.largeCustomOptionsOffset = op.largeCustomOptionsSize = 0
        return op

    def signature(self, model: Any) -> Any:
        rng = self._rng
        signature = self.table("SignatureDef")
        signature.subgraphIndex = rng.randrange(len(model.subgraphs))
        tensors = len(model.subgraphs[signature.subgraphIndex].tensors)
        for entry in (*(signature.inputs or ()), *(signature.outputs or ())):
            entry.tensorIndex = rng.randrange(tensors)
        return signature

    def table(self, type_name: str, skip: set[str] | None = None) -> Any:
        table = getattr(stock, f"{type_name}T")()
        for field in table_schema(type_name).fields.values():
            if field.name in (skip or ()):
                continue
            if field.kind is FieldKind.UNION:
                self.union(table, field)
            elif field.kind is FieldKind.SCALAR:
                if not field.name.endswith("_type") and self._rng.random() < 0.7:
                    setattr(table, _camel(field.name), self.scalar(field))
            elif self._rng.random() < 0.7:
                setattr(table, _camel(field.name), self.value(field))
        return table

    def union(self, table: Any, field: Field) -> None:
        number, type_name = self._rng.choice(sorted(schema.UNIONS[field.type_name].items()))
        if number and self._rng.random() < 0.8:
            setattr(table, _camel(field.name), self.table(type_name))
            setattr(table, _camel(field.name) + "Type", number)

    def scalar(self, field: Field) -> Any:
        if field.type_name in schema.ENUMS:
            return self._rng.choice(sorted(schema.ENUMS[field.type_name]))
        return self.numbers(field.code, 1)[0].item()

    def value(self, field: Field) -> Any:
        rng = self._rng
        if field.kind is FieldKind.STRING:
            return rng.choice([b"", b"name", "näme".encode(), b"\xff\xfe not UTF-8", b"a\0b"])
        if field.kind is FieldKind.VECTOR:
            return self.numbers(field.code, rng.choice([0, 1, 2, 5, 12]))
        if field.kind is FieldKind.TABLES:
            return [self.table(field.type_name) for _ in range(rng.randrange(3))]
        return self.table(field.type_name)

    def numbers(self, code: str, count: int) -> Any:
        data = self._rng.randbytes(count * np.dtype(_DTYPES[code]).itemsize)
        if code == "f":
            return np.frombuffer(data, np.uint8)[:count].astype(np.float32) / 8
        if code == "?":
            return np.frombuffer(data, np.uint8) > 127
        return np.frombuffer(data, _DTYPES[code])

    def indices(self, end: int, start: int) -> Any:
        count = self._rng.choice([0, 1, 2, 3, 12])
        return np.array([self._rng.randrange(start, end) for _ in range(count)], np.int32)

    def maybe(self, value: Any) -> Any:
        return value if self._rng.random() < 0.8 else None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _differences(left: Any, right: Any, path: str, a: bytes, b: bytes) -> Iterator[str]:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        if left.dtype != right.dtype or left.tobytes() != right.tobytes():
            yield f"{path}: {left} and {right}"
    elif type(left) is not type(right):
        yield f"{path}: {left!r} and {right!r}"
    elif isinstance(left, list):
        if len(left) != len(right):
            yield f"{path}: {len(left)} and {len(right)} entries"
        for index, (one, other) in enumerate(zip(left, right, strict=False)):
            yield from _differences(one, other, f"{path}[{index}]", a, b)
    elif hasattr(left, "__dict__"):
        fields, others = dict(vars(left)), dict(vars(right))
        for offset, size in (("offset", "size"), ("largeCustomOptionsOffset",) * 2):
            if isinstance(left, stock.BufferT | stock.OperatorT) and offset in fields:
                size = size if offset == "offset" else "largeCustomOptionsSize"
                at, other = fields.pop(offset), others.pop(offset)
                if (at > 1) != (other > 1):
                    yield f"{path}.{offset}: {at} and {other}"
                if a[at : at + fields[size]] != b[other : other + others[size]]:
                    yield f"{path}: the data behind the flatbuffer"
        for name, value in fields.items():
            yield from _differences(value, others[name], f"{path}.{name}", a, b)
    elif left != right:
        yield f"{path}: {left!r} and {right!r}"
