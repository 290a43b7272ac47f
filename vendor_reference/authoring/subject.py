"""Finds the ops with which to test a layer: a model's different ops for the layer, or one op of given shapes.

Each op is put into a small model of its own, without the rest of the network.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from compiler_plugin.outline import extract, make_partition
from litert.core.counts import names_text, out_of_range
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.input_file import read_input
from litert.core.quantization import Quantization
from litert.core.quoting import shell_word
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.builder import ModelBuilder
from litert.model.dispatch_op import DISPATCH_OP
from litert.model.flexbuffer import FlexValue
from litert.model.graph import Buffer, Model, Op, Subgraph, Tensor
from vendor_reference.custom_layers.value_sources import stored_constant

_TYPES = {t.mlir: t for t in ElementType} | {t.name.lower(): t for t in ElementType}
_TYPE = re.compile(r"((?:(?:\d+|\?)x)*)([a-z]\w*)")
_SHOWN_TYPES = "f32, f16, i8, ui8, i16, i32, i64, i1"


@dataclass(frozen=True, slots=True)
class OpChoice:
    """The ops that the user has chosen for a test.

    Attributes:
      model: Path of the model that contains the ops; "" for an op of given shapes.
      op: Name of an op, or its position: `12` in the main subgraph, or `1:12` in subgraph 1; "" stands for the
        layer name in the asset, or for the name of the asset's file.
      inputs, outputs: Input and output tensors of an op of given shapes, in the notation of `parse_tensors`.
      options: Options of an op of given shapes: a FlexBuffer map written as JSON, `@file` for a file with the
        bytes of a C struct, or "" for no options.
    """

    model: str = ""
    op: str = ""
    inputs: str = ""
    outputs: str = ""
    options: str = ""

    @property
    def place(self) -> tuple[int, int] | None:
        """Returns the index of the subgraph and the index of the op in it; None if `op` is not a position."""
        subgraph, colon, index = self.op.rpartition(":")
        if not index.isdecimal() or (colon and not subgraph.isdecimal()):
            return None
        return int(subgraph or 0), int(index)


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """An op to test, in a model that contains only this op.

    Attributes:
      title: Description of the op's origin for people, such as `op 12 of selfie.tflite, and 3 like it`.
      model: Model that contains only this op; the model's inputs are in the op's order.
      place: Position of the op, in the notation of `OpChoice.op`; "" for an op of given shapes.
    """

    title: str
    model: Model
    place: str = ""

    @property
    def op(self) -> Op:
        """Returns the op to test, which is the model's last op; DEQUANTIZE ops for its constants precede it."""
        return self.model.subgraphs[0].ops[-1]

    @property
    def inputs(self) -> Sequence[tuple[int, Tensor]]:
        """Returns the inputs of the op's model.

        Each non-constant input of the op occurs only once, with the first index that it has in the op.
        """
        return [(self.op.inputs.index(t), t) for t in self.model.subgraphs[0].inputs]


def choose_op_name(
    choice: OpChoice, asset_path: str, model: Model | None, described: Sequence[str] = ()
) -> str:
    """Returns the name of the op that an asset is for.

    If the user has chosen an op, its name is returned. Otherwise, the name of the asset's file is returned if the
    model has ops of this name. If not, but exactly one layer name in the asset is also the name of ops in the
    model, this layer name is returned. If neither name can be used, and the model has only one custom op, the name
    of that op is returned.

    Args:
      choice: Choice of ops by the user.
      asset_path: Path of the asset; "" if there is no asset yet.
      model: Model whose path is in `choice`.
      described: Names of the layers in the asset.

    Raises:
      LiteRtError: NOT_FOUND, with the names of the model's custom ops, if no op matches.
    """
    stem = os.path.splitext(os.path.basename(asset_path))[0]
    if model is None:
        return choice.op or (described[0] if len(described) == 1 else stem)
    if choice.place:
        return _op_at(model, *choice.place, choice.model).name
    names = dict.fromkeys(op.name for op in model.ops())
    custom = dict.fromkeys(op.name for op in model.ops() if op.is_custom)
    if (wanted_name := choice.op or stem) in names:
        return wanted_name
    common = [name for name in described if name in names]
    if not choice.op and len(common) == 1:
        return common[0]
    if not choice.op and len(custom) == 1:
        return next(iter(custom))
    if choice.op:
        what = f"the model contains no op '{choice.op}'"
    elif len(common) > 1:
        what = f"the op is unknown: --op is not set, and {asset_path} contains layers for several ops of the model"
    elif stem:
        inside = ", ".join(f"'{name}'" for name in described if name != stem)
        what = "the op is unknown: --op is not set, and no op of the model has the name of the layer's file, "
        what += f"'{stem}', or of a layer in it, {inside}" if inside else f"'{stem}'"
    else:
        has = f"{len(custom)} different custom ops" if custom else "no custom op"
        what = f"the op is unknown: --op is not set, and the model contains {has}"
    listed = names_text("custom op" if custom else "op", list(custom or names))
    hint = f"Set --op to an op of the model. {listed}." if names else ""
    if DISPATCH_OP in custom:
        hint = "The model is already compiled. Give the original model, from which apply_plugin made it."
    raise LiteRtError(Status.NOT_FOUND, what, choice.model, hint)


def find_subjects(choice: OpChoice, op_name: str, model: Model) -> list[Subject]:
    """Returns the different ops named `op_name`; ops with equal types, options and constants count as one op.

    The model must stay open while the returned subjects are in use.
    """
    alike: dict[object, list[tuple[int, int]]] = {}
    name = os.path.basename(choice.model)
    for index, subgraph in enumerate(model.subgraphs):
        for position, op in enumerate(subgraph.ops):
            if op.name == op_name and choice.place in (None, (index, position)):
                alike.setdefault(_kind(op), []).append((index, position))
    return [
        _subject(model, index, position, f"{name}, and {len(more)} like it" if more else name)
        for (index, position), *more in alike.values()
    ]


def _subject(model: Model, index: int, position: int, name: str) -> Subject:
    """Returns the op at a position of a subgraph; `name` is the model's name for people."""
    subgraph = model.subgraphs[index]
    place, of_subgraph = str(position), ""
    if index:
        place, of_subgraph = f"{index}:{position}", f" of subgraph {index}"
    title = f"op {position}{of_subgraph} of {name}"
    return Subject(title, _isolate(subgraph.ops[position], subgraph), place)


def given_subject(choice: OpChoice, op_name: str) -> Subject:
    """Creates an op of the given shapes, with inputs `input0`, `input1`, ... and outputs `output0`, ..."""
    inputs = parse_tensors(choice.inputs, "--inputs")
    outputs = parse_tensors(choice.outputs, "--outputs")
    if not outputs:
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            "the op's shapes are unknown, because neither --model nor --outputs is set",
            hint="Set --model=FILE, or set --inputs and --outputs to tensors, as in --outputs=1x8x8x4xf32.",
        )
    builder = ModelBuilder()
    tensors = [_add(builder.input, f"input{i}", *given) for i, given in enumerate(inputs)]
    made = [_add(builder.tensor, f"output{i}", *given) for i, given in enumerate(outputs)]
    builder.custom(op_name, tensors, made, options=_read_options(choice.options))
    builder.output(*made)
    return Subject("an op of the given shapes", builder.build())


def parse_tensors(text: str, flag: str) -> list[tuple[RankedTensorType, Quantization | None]]:
    """Parses the value of a flag that describes tensors.

    A tensor is written as its sizes and its element type, separated by `x`, such as `1x?x4xf32`; `?` is an unknown
    size, and `f32` alone is a scalar. An integer type may be followed by a scale, or by a scale and a zero point,
    as in `1x8xi8:0.05:3`. Tensors are separated by commas.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, with the faulty text, if the flag's value does not describe tensors.
    """
    found = []
    for part in map(str.strip, text.split(",") if text.strip() else ()):
        type_text, *numbers = part.removeprefix("tensor<").removesuffix(">").split(":")
        match = _TYPE.fullmatch(type_text)
        element_type = _TYPES.get(match[2]) if match else None
        if match is None or element_type is None:
            hint = (
                "Write each tensor's sizes and element type, as in 1x8x8x4xf32, and one comma between two "
                f"tensors. The element types are {_SHOWN_TYPES}."
            )
            what = f"{flag} contains '{part}', which does not describe a tensor"
            raise LiteRtError(Status.INVALID_TOOL_CONFIG, what, hint=hint)
        shape = tuple(-1 if size == "?" else int(size) for size in match[1].split("x") if size)
        quantization = _read_quantization(numbers, element_type) if numbers else None
        if numbers and quantization is None:
            hint = (
                "After an integer type, write a positive scale and, optionally, a zero point that the type can "
                "hold, as in 1x8xi8:0.05:3."
            )
            what = f"{flag} contains '{part}', which does not describe a quantized tensor"
            raise LiteRtError(Status.INVALID_TOOL_CONFIG, what, hint=hint)
        found.append((RankedTensorType.of(element_type, shape), quantization))
    return found


def _read_quantization(numbers: Sequence[str], element_type: ElementType) -> Quantization | None:
    """Returns the quantization of a scale and an optional zero point; None if the type cannot have them."""
    try:
        scale, zero_point = float(numbers[0]), int(*numbers[1:])
    except (TypeError, ValueError):
        return None
    is_signed = element_type.mlir.startswith("i")
    least = -(1 << element_type.bits - 1) if is_signed else 0
    is_integer = element_type.mlir.lstrip("u")[0] == "i" and element_type is not ElementType.BOOL
    if not (is_integer and 0 < scale < inf and 0 <= zero_point - least < 1 << element_type.bits):
        return None
    return Quantization([scale], [zero_point])


def describe_op(op: Op) -> str:
    """Returns the types of an op's inputs and outputs as text, such as `(tensor<4xf32>) -> tensor<4xf32>`."""

    def text(tensors: Sequence[Tensor | None]) -> str:
        return ", ".join("-" if tensor is None else str(tensor.type) for tensor in tensors)

    return f"({text(op.inputs)}) -> {text(op.outputs)}"


def check_alike(kinds: Iterable[object], what: str, where: str) -> None:
    """Raises UNSUPPORTED if ops differ in a way that one layer cannot handle."""
    if len(set(kinds)) > 1:
        hint = (
            "Choose one of the ops with --op=INDEX or --op=SUBGRAPH:INDEX; litert-npu inspect MODEL --dump lists "
            "the ops in order, and the first op of a subgraph has index 0."
        )
        raise LiteRtError(Status.UNSUPPORTED, what, where, hint)


def _add(
    add: Callable[..., Tensor],
    name: str,
    kind: RankedTensorType,
    quantization: Quantization | None,
) -> Tensor:
    """Adds a given tensor to a builder; unknown dimensions have size 1 at first."""
    return add(
        name,
        kind.element_type,
        [abs(d) for d in kind.shape],
        quantization=quantization,
        shape_signature=None if kind.layout.is_static else kind.shape,
    )


def _isolate(op: Op, subgraph: Subgraph) -> Model:
    """Makes a model of one op, with the constant DEQUANTIZE ops before it.

    The new model shares bytes with the op's model, which must stay open.
    """
    wanted = {op} | {t.producer for t in op.inputs if t and stored_constant(t)}
    positions = [index for index, other in enumerate(subgraph.ops) if other in wanted]
    (copy,) = extract([make_partition(op.name, subgraph, positions, set(op.outputs))])
    # The inputs of a partition are in the network's order.
    read = set(copy.inputs)
    copy.inputs = [tensor for tensor in dict.fromkeys(copy.ops[-1].inputs) if tensor in read]
    model = Model(subgraphs=[copy])
    buffers = {tensor.buffer: None for tensor in copy.tensors}
    model.buffers = [Buffer(), *buffers]
    model.operator_codes = list({o.code: None for o in copy.ops})
    return model


def _op_at(model: Model, subgraph: int, index: int, path: str) -> Op:
    hint = f"Correct --op. To list the subgraphs and ops, run litert-npu inspect {shell_word(path)} --dump."
    count = len(model.subgraphs)
    if subgraph >= count:
        what = out_of_range("subgraph", subgraph, count)
        raise LiteRtError(Status.NOT_FOUND, what, path, hint)
    ops = model.subgraphs[subgraph].ops
    if index >= len(ops):
        what = out_of_range("op", index, len(ops))
        raise LiteRtError(Status.NOT_FOUND, what, f"{path}, subgraph {subgraph}", hint)
    return ops[index]


def _kind(op: Op) -> object:
    """Returns a key that is equal for ops that a layer treats alike."""
    tensors = [
        None if t is None else (t.type, t.is_constant, repr(t.quantization))
        for t in (*op.inputs, *op.outputs)
    ]
    stored = [
        (t.producer.inputs[0].type, repr(t.producer.inputs[0].quantization))
        for t in op.inputs
        if t and t.producer and t.producer.name == "DEQUANTIZE" and t.producer.inputs[0]
    ]
    options = bytes(op.custom_options or b"")
    return (tuple(tensors), tuple(stored), options, repr(op.options), repr(op.options_2))


def _read_options(text: str) -> Mapping[str, FlexValue] | bytes | None:
    if not text:
        return None
    if text.startswith("@"):
        return read_input(text[1:])
    try:
        options = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad_options(f"is not valid JSON text (Python's parser: {error})") from None
    if not isinstance(options, dict):
        raise _bad_options("is JSON text, but not an object in braces")
    return options


def _bad_options(what: str) -> LiteRtError:
    hint = (
        """Write the op's options as in --options='{"alpha": 0.5}'. If the options are a C struct, write """
        "--options=@FILE, where FILE contains the bytes of the struct."
    )
    return LiteRtError(Status.INVALID_TOOL_CONFIG, f"--options {what}", hint=hint)
