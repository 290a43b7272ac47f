"""A TFLite file as a graph: model, subgraphs, ops, tensors, buffers, signatures, metadata.

The graph is the schema's (`schema.fbs` of TFLite), with objects where the file has indices. It alone
mutates, by methods that keep each tensor's producer and uses true. What is not changed is written as it was
read: tables without a field of their own here (builtin options, sparsity, ...) are kept as `Table`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from litert.core.element_type import ElementType
from litert.core.quantization import Quantization
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob, MappedFile
from litert.model.table import Table


class Buffer:
    """Constant data; tensors may share one.

    Attributes:
      blob: the data; None is no data (not a constant).
      is_external: whether the data lie behind the flatbuffer (`Buffer.offset`) in the file.
    """

    __slots__ = ("blob", "is_external")

    def __init__(self, blob: Blob | None = None, is_external: bool = False) -> None:
        self.blob = blob
        self.is_external = is_external


class OperatorCode:
    """What an op is: a builtin operator's number and version, or a custom code."""

    __slots__ = ("builtin_code", "custom_code", "version")

    def __init__(self, builtin_code: int, custom_code: str | None = None, version: int = 1) -> None:
        self.builtin_code = builtin_code
        self.custom_code = custom_code
        self.version = version


class Tensor:
    """A value of a subgraph.

    Attributes:
      name: "" where the file has none.
      shape: as the interpreter starts with it; -1 never occurs in well-formed files.
      shape_signature: with -1 for unknown dimensions; None is the same as `shape`.
      buffer: its constant data; one without a blob for all other tensors.
      is_variable: keeps its value between runs.
      quantization: None where there is none.
      sparsity, variant_tensors, external_buffer: as in the schema, untouched.
      producer: the op that it is an output of.
      uses: ops that read it, once for each input that it is.
    """

    __slots__ = (
        "buffer", "element_type", "external_buffer", "has_rank", "is_variable", "name",
        "producer", "quantization", "shape", "shape_signature", "sparsity", "uses",
        "variant_tensors",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        element_type: ElementType,
        shape: tuple[int, ...],
        buffer: Buffer,
        quantization: Quantization | None = None,
    ) -> None:
        self.name = name
        self.element_type = element_type
        self.shape = shape
        self.shape_signature: tuple[int, ...] | None = None
        self.buffer = buffer
        self.quantization = quantization
        self.is_variable = False
        self.has_rank = False
        self.sparsity: Table | None = None
        self.variant_tensors: Sequence[Table] = ()
        self.external_buffer = 0
        self.producer: Op | None = None
        self.uses: list[Op] = []

    @property
    def is_constant(self) -> bool:
        return self.buffer.blob is not None

    @property
    def data(self) -> memoryview:
        """Constant data; empty where the tensor is not constant."""
        return self.buffer.blob.view if self.buffer.blob else memoryview(b"")

    @property
    def type(self) -> RankedTensorType:
        """Element type and shape, with -1 for unknown dimensions."""
        return RankedTensorType.of(self.element_type, self.shape_signature or self.shape)

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, {self.type})"


class Op:
    """An operation.

    Attributes:
      code: operator code, shared between ops.
      options, options_2: builtin options, from the schema's two unions; None where there are none.
      custom_options: a custom op's, as its bytes: FlexBuffer or a raw C struct.
      custom_options_format: the schema's `CustomOptionsFormat`.
      has_large_custom_options: whether they lie behind the flatbuffer in the file.
      intermediates, mutating_variable_inputs, debug_metadata_index: as in the schema.
    """

    __slots__ = (
        "_inputs", "_outputs", "code", "custom_options", "custom_options_format",
        "debug_metadata_index", "has_large_custom_options", "intermediates",
        "mutating_variable_inputs", "options", "options_2",
    )  # fmt: skip

    def __init__(
        self,
        code: OperatorCode,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        options: Table | None = None,
        custom_options: Blob | None = None,
    ) -> None:
        self.code = code
        self.options = options
        self.options_2: Table | None = None
        self.custom_options = custom_options
        self.custom_options_format = 0
        self.has_large_custom_options = False
        self.intermediates: Sequence[Tensor] = ()
        self.mutating_variable_inputs: Sequence[bool] = ()
        self.debug_metadata_index = -1
        self._inputs: list[Tensor | None] = []
        self._outputs: list[Tensor] = []
        for tensor in inputs:
            self.append_input(tensor)
        for tensor in outputs:
            self.append_output(tensor)

    @property
    def inputs(self) -> Sequence[Tensor | None]:
        """Inputs in order; None is an optional input that is left out."""
        return self._inputs

    @property
    def outputs(self) -> Sequence[Tensor]:
        return self._outputs

    @property
    def is_custom(self) -> bool:
        return self.code.builtin_code == CUSTOM

    @property
    def name(self) -> str:
        """The custom code of a custom op, else the builtin operator's name: `CONV_2D`."""
        if self.is_custom:
            return self.code.custom_code or ""
        return builtin_name(self.code.builtin_code)

    def append_input(self, tensor: Tensor | None) -> None:
        self._inputs.append(tensor)
        if tensor is not None:
            tensor.uses.append(self)

    def append_output(self, tensor: Tensor) -> None:
        self._outputs.append(tensor)
        tensor.producer = self

    def set_input(self, index: int, tensor: Tensor | None) -> None:
        """Reads `tensor` as input `index` from now on."""
        old = self._inputs[index]
        if old is not None:
            old.uses.remove(self)
        self._inputs[index] = tensor
        if tensor is not None:
            tensor.uses.append(self)

    def release(self) -> None:
        """Takes the op off its tensors: they no longer have it as producer or use."""
        for tensor in self._inputs:
            if tensor is not None:
                tensor.uses.remove(self)
        for tensor in self._outputs:
            if tensor.producer is self:
                tensor.producer = None

    def __repr__(self) -> str:
        return f"Op({self.name})"


@dataclass(slots=True, eq=False)
class Subgraph:
    """A function of the model: its tensors, and its ops in execution order."""

    name: str = ""
    tensors: list[Tensor] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    debug_metadata_index: int = -1

    def replace_ops(self, old: Iterable[Op], new: Op, index: int) -> None:
        """Takes `old` out and puts `new` where op `index` stood, `index` counted before the change."""
        gone = set(map(id, old))
        place = index - sum(1 for op in self.ops[:index] if id(op) in gone)
        for op in self.ops:
            if id(op) in gone:
                op.release()
        self.ops = [op for op in self.ops if id(op) not in gone]
        self.ops.insert(place, new)
        for tensor in new.outputs:  # releasing the old ops has cleared it
            tensor.producer = new

    def remove_tensors(self, tensors: Iterable[Tensor]) -> None:
        """Takes tensors out that no op, input or output has."""
        gone = set(map(id, tensors))
        self.tensors = [t for t in self.tensors if id(t) not in gone]


@dataclass(slots=True, eq=False)
class Signature:
    """A named entry into the model: argument names for a subgraph's inputs and outputs."""

    key: str
    subgraph: Subgraph
    inputs: list[tuple[str, Tensor]]
    outputs: list[tuple[str, Tensor]]


@dataclass(slots=True, eq=False)
class Metadata:
    """A named buffer of the model; names are not always unique in real files."""

    name: str
    buffer: Buffer


@dataclass(slots=True, eq=False)
class Model:
    """A TFLite model.

    Attributes:
      version: of the schema, 3.
      operator_codes: also those that no op has.
      buffers: also those that nothing has; the first is empty, by the schema's rule.
      trailing: bytes behind the flatbuffer that nothing in it points at (a ZIP of associated files).
      source: the file that it was read from; None for a model in memory.
      warnings: what the reader could not keep, in sentences.
    """

    subgraphs: list[Subgraph] = field(default_factory=list)
    signatures: list[Signature] = field(default_factory=list)
    metadata: list[Metadata] = field(default_factory=list)
    operator_codes: list[OperatorCode] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    description: str | None = None
    version: int = 3
    trailing: Blob | None = None
    source: MappedFile | None = None
    warnings: list[str] = field(default_factory=list)

    def ops(self) -> Iterator[Op]:
        """All ops, subgraph by subgraph, in execution order."""
        for subgraph in self.subgraphs:
            yield from subgraph.ops

    def find_metadata(self, name: str) -> Blob | None:
        """The data of the first metadata entry of that name; None if there is no such entry."""
        for entry in self.metadata:
            if entry.name == name:
                return entry.buffer.blob or Blob(b"")
        return None

    def set_metadata(self, name: str, blob: Blob) -> None:
        """Puts data under a name: in place of the first entry of that name, else at the end."""
        buffer = Buffer(blob)
        self.buffers.append(buffer)
        for entry in self.metadata:
            if entry.name == name:
                entry.buffer = buffer
                return
        self.metadata.append(Metadata(name, buffer))

    def close(self) -> None:
        """Closes the file that the model was read from; views of it stay valid."""
        if self.source:
            self.source.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


CUSTOM = 32
"""BuiltinOperator.CUSTOM."""


def builtin_name(builtin_code: int) -> str:
    """A builtin operator's name in the schema; `BUILTIN_<number>` if the schema has none."""
    from litert.model.schema import BUILTIN_OPERATORS

    return BUILTIN_OPERATORS.get(builtin_code, f"BUILTIN_{builtin_code}")
