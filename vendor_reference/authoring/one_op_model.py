"""A model of one op: what a layer is tried on, without the network around it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from compiler_plugin.outline import extract, make_partition
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.builder import ModelBuilder
from litert.model.flexbuffer import FlexValue
from litert.model.graph import Buffer, Model, Op, Subgraph

_TYPES = {t.mlir: t for t in ElementType} | {t.name.lower(): t for t in ElementType}
_TYPE = re.compile(r"((?:\d+x)*)([a-z]\w*)")
_SHOWN_TYPES = "f32, f16, i8, ui8, i16, i32, i64, i1"


def isolate(op: Op, subgraph: Subgraph) -> Model:
    """An op of a model as a model of its own, with the constant DEQUANTIZE ops before it.

    Bytes are shared: the model that the op is in must stay open.

    Args:
      op: of the subgraph.
      subgraph: is not changed.
    """
    wanted = {op} | {t.producer for t in op.inputs if t and _is_dequantized_constant(t.producer)}
    positions = [index for index, other in enumerate(subgraph.ops) if other in wanted]
    partition = make_partition(op.name, subgraph, positions, set(op.outputs))
    copy = extract(partition)
    model = Model(subgraphs=[copy])
    buffers = {tensor.buffer: None for tensor in copy.tensors}
    model.buffers = [Buffer(), *buffers]
    model.operator_codes = list({o.code: None for o in copy.ops})
    return model


def make_one_op_model(
    op_name: str,
    inputs: Sequence[RankedTensorType],
    outputs: Sequence[RankedTensorType],
    options: Mapping[str, FlexValue] | bytes | None,
) -> Model:
    """A model of a custom op with inputs `input0`, `input1`, ... and outputs `output0`, ...

    Raises:
      LiteRtError: INVALID_ARGUMENT, for options that a FlexBuffer cannot hold.
    """
    builder = ModelBuilder()
    tensors = [
        builder.input(f"input{index}", kind.element_type, kind.shape)
        for index, kind in enumerate(inputs)
    ]
    made = [
        builder.tensor(f"output{index}", kind.element_type, kind.shape)
        for index, kind in enumerate(outputs)
    ]
    builder.custom(op_name, tensors, made, options=options)
    builder.output(*made)
    return builder.build()


def main_op(model: Model) -> Op:
    """The op that a model of one op is about: its last."""
    return model.subgraphs[0].ops[-1]


def parse_types(text: str, flag: str) -> list[RankedTensorType]:
    """Reads `1x8x8x4xf32,4xi32`: sizes, then the element type; `f32` alone is a scalar.

    Args:
      text: as the user wrote it; "" is none.
      flag: that it was given with, for the error.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG.
    """
    return [_parse_type(part.strip(), flag) for part in text.split(",")] if text.strip() else []


def _parse_type(text: str, flag: str) -> RankedTensorType:
    plain = text.removeprefix("tensor<").removesuffix(">")
    found = _TYPE.fullmatch(plain)
    element_type = _TYPES.get(found[2]) if found else None
    if found is None or element_type is None:
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"{flag}: '{text}' is no tensor",
            hint=f"Write sizes and an element type, as in 1x8x8x4xf32; types are {_SHOWN_TYPES}.",
        )
    shape = tuple(int(size) for size in found[1].split("x") if size)
    return RankedTensorType.of(element_type, shape)


def _is_dequantized_constant(op: Op | None) -> bool:
    return (
        op is not None
        and op.name == "DEQUANTIZE"
        and op.inputs[0] is not None
        and op.inputs[0].is_constant
    )
