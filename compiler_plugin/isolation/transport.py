"""Converts models, partitions, results and options to JSON for another process; the JSON refers to bytes.

A graph is sent as a flatbuffer without its constants, and the constants are sent as references to bytes. Therefore
the receiver reads and checks the graph like a model file, and the order of subgraphs, ops and tensors stays the
same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any

from compiler_plugin.isolation.exchange import Exchange
from compiler_plugin.plugin import CallInfo, CompiledResult
from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.model.expected_time import pack_time, unpack_time
from litert.model.graph import Buffer, Model, Op, Subgraph
from litert.model.memory_plan import pack_plan, unpack_plan
from litert.model.model_tables import all_buffers
from litert.model.reader import read_model
from litert.model.writer import to_bytes

_LARGE_OPTIONS = 4096  # larger custom options are sent as references


def pack_model(model: Model, exchange: Exchange) -> object:
    """Packs a model for another process; the byte code and trailing bytes of the model's file are omitted.

    Raises:
      LiteRtError: INVALID_GRAPH_INVARIANT, if the graph is inconsistent; FILE_IO, if the disk is full.
    """
    buffers = all_buffers(model)
    data = [
        [index, buffer.is_external, *exchange.refer(buffer.blob)]
        for index, buffer in enumerate(buffers)
        if buffer.blob is not None
    ]
    large: list[Op] = []
    options: list[list[int]] = []
    for number, subgraph in enumerate(model.subgraphs):
        for position, op in enumerate(subgraph.ops):
            blob, is_large = op.custom_options, op.has_large_custom_options
            if blob is not None and (is_large or blob.size >= _LARGE_OPTIONS):
                large.append(op)
                options.append([number, position, is_large, *exchange.refer(blob)])
    tables = replace(model, buffers=buffers, byte_code=[], trailing=None)
    with _without_data(buffers, large):
        flatbuffer = to_bytes(tables)
    return {
        "tables": exchange.put(flatbuffer),
        "data": data,
        "options": options,
        "sources": exchange.announce(),
    }


def unpack_model(packed: Mapping[str, Any], exchange: Exchange) -> Model:
    """Returns the model that `pack_model` packed, without a copy of the constants.

    Raises:
      LiteRtError: Any error of `read_model`; NOT_FOUND or FILE_IO, if a referenced file no longer exists.
    """
    exchange.learn(packed["sources"])
    model = read_model(exchange.read(packed["tables"]).view)
    for index, is_external, *reference in packed["data"]:
        buffer = model.buffers[index]
        buffer.blob, buffer.is_external = exchange.take(reference), is_external
    for subgraph, position, is_large, *reference in packed["options"]:
        op = model.subgraphs[subgraph].ops[position]
        op.custom_options, op.has_large_custom_options = exchange.take(reference), is_large
    return model


def pack_subgraphs(subgraphs: Sequence[Subgraph], exchange: Exchange) -> object:
    """Packs subgraphs of a model for another process; raises the same errors as `pack_model`."""
    return pack_model(Model(list(subgraphs), buffers=[Buffer()]), exchange)


def replace_model(model: Model, new: Model) -> None:
    """Replaces a model's graph and metadata by those of `new`; the file, byte code and trailing bytes stay."""
    for name in (
        "subgraphs", "signatures", "metadata", "operator_codes", "buffers", "description",
        "metadata_buffers", "external_buffer_groups", "external_buffers",
    ):  # fmt: skip
        setattr(model, name, getattr(new, name))


def pack_result(result: CompiledResult, exchange: Exchange) -> object:
    """Packs the result of a plugin's compilation."""
    return {
        "byte_code": [exchange.put(module.view) for module in result.byte_code],
        "calls": [
            [
                c.name,
                c.byte_code_index,
                list(c.shape_outputs),
                pack_plan(c.memory),
                pack_time(c.expected),
            ]
            for c in result.calls
        ],
        "notes": list(result.notes),
        "native_assets": list(result.native_assets),
    }


def unpack_result(packed: Mapping[str, Any], exchange: Exchange) -> CompiledResult:
    """Returns the result that `pack_result` packed."""
    return CompiledResult(
        [exchange.read(reference) for reference in packed["byte_code"]],
        [
            CallInfo(name, index, shapes, unpack_plan(memory), unpack_time(expected))
            for name, index, shapes, memory, expected in packed["calls"]
        ],
        packed["notes"],
        packed["native_assets"],
    )


@contextmanager
def _without_data(buffers: Sequence[Buffer], ops: Sequence[Op]) -> Iterator[None]:
    """Removes constants and large options from a graph within the block; copying the graph would be slower."""
    blobs = [buffer.blob for buffer in buffers]
    options = [(op.custom_options, op.has_large_custom_options) for op in ops]
    try:
        for buffer in buffers:
            buffer.blob = None
        for op in ops:
            op.custom_options, op.has_large_custom_options = None, False
        yield
    finally:
        for buffer, blob in zip(buffers, blobs, strict=True):
            buffer.blob = blob
        for op, (blob, is_large) in zip(ops, options, strict=True):
            op.custom_options, op.has_large_custom_options = blob, is_large


def pack_options(options: object) -> object:
    """Converts options to JSON values: a dataclass becomes a JSON object with one entry for each field."""
    if is_dataclass(options):
        return {field.name: pack_options(getattr(options, field.name)) for field in fields(options)}
    if isinstance(options, Mapping):
        return {name: pack_options(value) for name, value in options.items()}
    if isinstance(options, Sequence) and not isinstance(options, str):
        return [pack_options(value) for value in options]
    return options


def unpack_options(packed: Mapping[str, Any]) -> CompilerOptions:
    """Returns the options that `pack_options` packed."""
    infos, dump = unpack_infos(packed["custom_op_infos"]), DumpOptions(**packed["dump"])
    return CompilerOptions(**{**packed, "custom_op_infos": infos, "dump": dump})


def unpack_infos(packed: Sequence[Any]) -> list[CustomOpInfo]:
    """Returns the custom ops and their asset paths that `pack_options` packed."""
    return [CustomOpInfo(**info) for info in packed]
