"""Represents a TFLite file as a graph of objects: model, subgraphs, ops, tensors, buffers, signatures, metadata.

The graph has the same structure as TFLite's schema (`schema.fbs`), but refers to objects where the file has
indices. The graph's methods update each tensor's producer and uses when the graph changes. Tables for which the
graph has no class (builtin options, sparsity, ...) stay `Table` objects, and the writer copies unchanged tables
from the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from litert.core.element_type import ElementType
from litert.core.quantization import BlockwiseQuantization, Quantization
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob, MappedFile
from litert.model.quantization_table import read_quantization
from litert.model.table import NO_TEXT, NO_VECTOR, AbsentList, Table

EXTERNAL_SIZE = 1 << 20
"""Least size, in bytes, of new data that are written after the flatbuffer."""


class Buffer:
    """A buffer of constant data; several tensors may share one buffer.

    Attributes:
      blob: The constant data; None if the tensor that uses the buffer is not constant.
      is_external: Whether the file stores the data after the flatbuffer (`Buffer.offset`).
    """

    __slots__ = ("blob", "is_external")

    def __init__(self, blob: Blob | None = None, is_external: bool = False) -> None:
        self.blob = blob
        self.is_external = is_external


class OperatorCode:
    """The kind of an op: a builtin operator's number and version, or a custom code.

    Attributes:
      builtin_code: Number of the builtin operator, which is the larger of the two values in `fields`.
      fields: Values of the schema's two fields for the operator's number: the deprecated byte, and the newer int.
    """

    __slots__ = ("builtin_code", "custom_code", "fields", "version")

    def __init__(self, builtin_code: int, custom_code: str | None = None, version: int = 1) -> None:
        self.builtin_code = builtin_code
        self.custom_code = custom_code
        self.version = version
        self.fields = (min(builtin_code, PLACEHOLDER), builtin_code)


class Tensor:
    """A tensor of a subgraph.

    Attributes:
      name: Name of the tensor; "" if the file has no name. Bytes that are not UTF-8 become lone surrogates, as in
        Python's file names.
      shape: Shape of the tensor before the first run; in a well-formed file, no dimension is -1.
      shape_signature: Shape with -1 for dimensions that are unknown until run time; None if equal to `shape`.
      buffer: Buffer with the tensor's constant data; a buffer without a blob if the tensor is not constant.
      is_variable: Whether the tensor keeps its value between runs.
      quantization_table: Table in the file from which `quantization` is read; None after the program has replaced
        the quantization.
      sparsity, variant_tensors, external_buffer, has_rank: Fields of the schema that this project keeps unchanged.
      producer: Op that writes the tensor.
    """

    __slots__ = (
        "_quantization", "_uses", "buffer", "element_type",
        "external_buffer", "has_rank", "is_variable", "name", "producer",
        "quantization_table", "shape", "shape_signature", "sparsity", "variant_tensors",
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
        self._quantization = quantization
        self.quantization_table: Table | None = None
        self.is_variable = False
        self.has_rank = False
        self.sparsity: Table | None = None
        self.variant_tensors: tuple[Table, ...] = NO_VECTOR
        self.external_buffer = 0
        self.producer: Op | None = None
        self._uses: dict[Op, int] = {}  # number of uses by each op

    @property
    def quantization(self) -> Quantization | None:
        """How the tensor's integers stand for real numbers; None if the file has no quantization."""
        if self._quantization is None and self.quantization_table is not None:
            # The reader has already set block-wise quantization, which names tensors.
            self._quantization = read_quantization(self.quantization_table, lambda index: None)
        return self._quantization

    @quantization.setter
    def quantization(self, quantization: Quantization | None) -> None:
        self._quantization = quantization
        self.quantization_table = None

    @property
    def blockwise(self) -> BlockwiseQuantization | None:
        """The tensor's block-wise quantization, or None; tables with other quantizations are not decoded."""
        return None if self._quantization is None else self._quantization.blockwise

    def keep_quantization(self, table: Table, quantization: Quantization | None = None) -> None:
        """Sets a quantization; the writer copies its table, and changes only the indices of tensors in it."""
        self.quantization_table = table
        self._quantization = quantization

    @property
    def uses(self) -> Sequence[Op]:
        """Ops that read the tensor; if two inputs of an op are this tensor, the op occurs twice."""
        return [op for op, count in self._uses.items() for _ in range(count)]

    @property
    def readers(self) -> Collection[Op]:
        """Ops that read the tensor, each once; the result is a view, so that even a long list is not copied."""
        return self._uses.keys()

    def add_use(self, op: Op) -> None:
        """Adds an op to the tensor's uses; only the methods of `Op` call this method."""
        self._uses[op] = self._uses.get(op, 0) + 1

    def remove_use(self, op: Op) -> None:
        """Removes an op from the tensor's uses; only the methods of `Op` call this method."""
        if self._uses[op] > 1:
            self._uses[op] -= 1
        else:
            del self._uses[op]

    def clone(self) -> Tensor:
        """Returns a copy of the tensor that no op uses yet; the copy shares the tensor's buffer.

        The copy's block-wise quantization refers to the same tensors of scales and zero points as the original.
        """
        copy = Tensor(self.name, self.element_type, self.shape, self.buffer, self._quantization)
        copy.quantization_table = self.quantization_table
        for name in (
            "shape_signature", "is_variable", "has_rank", "sparsity", "variant_tensors",
            "external_buffer",
        ):  # fmt: skip
            setattr(copy, name, getattr(self, name))
        return copy

    @property
    def is_constant(self) -> bool:
        """Whether the tensor has constant data; as in LiteRT's interpreter, an empty buffer has no data."""
        return self.buffer.blob is not None and self.buffer.blob.size > 0

    @property
    def data(self) -> memoryview:
        """Constant data of the tensor; empty if the tensor is not constant."""
        return self.buffer.blob.view if self.buffer.blob else memoryview(b"")

    @property
    def type(self) -> RankedTensorType:
        """The tensor's element type and shape, with -1 for dimensions that are unknown until run time."""
        return RankedTensorType.of(self.element_type, self.shape_signature or self.shape)

    def __repr__(self) -> str:
        return f"Tensor({self.name!r}, {self.type})"


class Op:
    """An operation.

    Attributes:
      code: Operator code of the op; ops of the same kind share one object.
      options, options_2: Tables of builtin options; the schema has two unions for such tables. None if the file
        has no such table.
      custom_options: Bytes of a custom op's options: a FlexBuffer or a C struct.
      custom_options_format: Value of the schema's `CustomOptionsFormat`.
      has_large_custom_options: Whether the file stores the custom options after the flatbuffer.
      intermediates, mutating_variable_inputs, debug_metadata_index: Values of the schema's fields with these
        names.
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
        self.intermediates: tuple[Tensor | None, ...] = NO_VECTOR
        self.mutating_variable_inputs: tuple[bool, ...] = NO_VECTOR
        self.debug_metadata_index = -1
        self._inputs: list[Tensor | None] = []
        self._outputs: list[Tensor] = []
        for tensor in inputs:
            self.append_input(tensor)
        for tensor in outputs:
            self.append_output(tensor)

    @classmethod
    def from_lists(
        cls, code: OperatorCode, inputs: list[Tensor | None], outputs: list[Tensor]
    ) -> Op:
        """Makes an op for the model reader; the op stores the given lists themselves, not copies."""
        op = cls(code, (), ())
        op._inputs = inputs
        op._outputs = outputs
        for tensor in inputs:
            if tensor is not None:
                uses = tensor._uses
                uses[op] = uses.get(op, 0) + 1
        for output in outputs:
            output.producer = op
        return op

    @property
    def inputs(self) -> Sequence[Tensor | None]:
        """The op's input tensors in order; None for an optional input that is absent."""
        return self._inputs

    @property
    def outputs(self) -> Sequence[Tensor]:
        return self._outputs

    @property
    def is_plain(self) -> bool:
        """Whether the op's operator code, inputs, outputs and `options` are its only fields in the file."""
        return (
            self.custom_options is None
            and self.options_2 is None
            and type(self._inputs) is list
            and type(self._outputs) is list
            and not self.custom_options_format
            and self.debug_metadata_index == -1
            and self.intermediates is NO_VECTOR
            and self.mutating_variable_inputs is NO_VECTOR
        )

    @property
    def is_custom(self) -> bool:
        return self.code.builtin_code == CUSTOM

    @property
    def name(self) -> str:
        """The custom code of a custom op, or a builtin operator's name in the schema, such as `CONV_2D`."""
        if self.is_custom:
            return self.code.custom_code or ""
        return builtin_name(self.code.builtin_code)

    def append_input(self, tensor: Tensor | None) -> None:
        self._inputs.append(tensor)
        if tensor is not None:
            tensor.add_use(self)

    def append_output(self, tensor: Tensor) -> None:
        self._outputs.append(tensor)
        tensor.producer = self

    def set_input(self, index: int, tensor: Tensor | None) -> None:
        """Makes `tensor` the op's input with this index."""
        old = self._inputs[index]
        if old is not None:
            old.remove_use(self)
        self._inputs[index] = tensor
        if tensor is not None:
            tensor.add_use(self)

    def remove_input(self, index: int) -> None:
        """Removes the input with this index; the indices of later inputs decrease by 1."""
        self.set_input(index, None)
        del self._inputs[index]

    def set_output(self, index: int, tensor: Tensor) -> None:
        """Makes `tensor` the op's output with this index; afterwards, the old output tensor has no producer."""
        old = self._outputs[index]
        if old.producer is self:
            old.producer = None
        self._outputs[index] = tensor
        tensor.producer = self

    def remove_output(self, index: int) -> None:
        """Removes the output with this index; its tensor has no producer then, and later indices decrease by 1."""
        self._outputs.pop(index).producer = None

    def release(self) -> None:
        """Detaches the op from its tensors: the op is no longer a producer or a use of these tensors."""
        for tensor in self._inputs:
            if tensor is not None:
                tensor.remove_use(self)
        for tensor in self._outputs:
            if tensor.producer is self:
                tensor.producer = None

    def attach(self) -> None:
        """Attaches the op to its tensors again after `release`."""
        for tensor in self._inputs:
            if tensor is not None:
                tensor.add_use(self)
        for tensor in self._outputs:
            tensor.producer = self

    def __repr__(self) -> str:
        return f"Op({self.name})"


@dataclass(slots=True, eq=False)
class Subgraph:
    """A function of the model, which consists of tensors, and of ops in execution order."""

    name: str = NO_TEXT
    tensors: list[Tensor] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    debug_metadata_index: int = -1

    def remove_tensors(self, tensors: Iterable[Tensor]) -> None:
        """Removes tensors that no op, input, output or quantization of the subgraph uses."""
        gone = set(map(id, tensors))
        self.tensors = [t for t in self.tensors if id(t) not in gone]


@dataclass(slots=True, eq=False)
class Signature:
    """A named entry point of the model: a subgraph, with argument names for the subgraph's inputs and outputs."""

    key: str
    subgraph: Subgraph
    inputs: list[tuple[str, Tensor]]
    outputs: list[tuple[str, Tensor]]

    @classmethod
    def of(cls, key: str, subgraph: Subgraph) -> Signature:
        """Makes a signature whose arguments have the names of the subgraph's tensors."""
        inputs, outputs = ([(t.name, t) for t in ts] for ts in (subgraph.inputs, subgraph.outputs))
        return cls(key, subgraph, inputs, outputs)


@dataclass(slots=True, eq=False)
class Metadata:
    """A named buffer of the model; several buffers in a file may have the same name."""

    name: str
    buffer: Buffer


@dataclass(slots=True, eq=False)
class Appended:
    """A byte code module that the file stores after the flatbuffer.

    Attributes:
      blob: Bytes of the byte code module.
      users: Dispatch ops that call functions of the module, each with the name of the called function. The writer
        sets the custom options of these dispatch ops after it has determined the position of the module.
    """

    blob: Blob
    users: list[tuple[Op, str]]


@dataclass(slots=True, eq=False)
class Model:
    """A TFLite model.

    Attributes:
      version: Version of the schema, 3.
      operator_codes: All operator codes, including unused codes.
      buffers: All buffers, including unused buffers; the schema requires that the first buffer is empty.
      metadata_buffers: Buffers to which the schema's deprecated field `metadata_buffer` refers; an index in this
        field for which the file has no buffer stays a number.
      external_buffer_groups, external_buffers: Fields of the schema that this project keeps unchanged.
      byte_code: Byte code modules after the flatbuffer, each with the dispatch ops that call its functions.
      trailing: Bytes after the flatbuffer to which no offset points, such as a ZIP archive of associated files.
      has_digest: Whether the file reserves bytes for a digest of the whole file.
      source: File from which the model was read; None for a model in memory.
      warnings: Warnings about content of the file that the reader does not know, and that the model therefore
        lacks.
    """

    subgraphs: list[Subgraph] = field(default_factory=list)
    signatures: list[Signature] = field(default_factory=AbsentList)
    metadata: list[Metadata] = field(default_factory=AbsentList)
    operator_codes: list[OperatorCode] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    description: str | None = None
    version: int = 3
    metadata_buffers: Sequence[Buffer | int] = NO_VECTOR
    external_buffer_groups: Sequence[Table] = NO_VECTOR
    external_buffers: Sequence[Table] = NO_VECTOR
    byte_code: list[Appended] = field(default_factory=list)
    trailing: Blob | None = None
    has_digest: bool = False
    source: MappedFile | None = None
    warnings: list[str] = field(default_factory=list)

    def ops(self) -> Iterator[Op]:
        """Yields the ops of all subgraphs, subgraph by subgraph, in execution order."""
        for subgraph in self.subgraphs:
            yield from subgraph.ops

    def operator_code(
        self, builtin_code: int, custom_code: str | None = None, version: int = 1
    ) -> OperatorCode:
        """Returns the model's operator code with these values; adds a new operator code if the model has none."""
        wanted = (builtin_code, custom_code, version)
        for code in self.operator_codes:
            if (code.builtin_code, code.custom_code, code.version) == wanted:
                return code
        code = OperatorCode(builtin_code, custom_code, version)
        self.operator_codes.append(code)
        return code

    def entries(self, key: str = "") -> Sequence[Signature]:
        """The model's signatures.

        If the model has no signatures, returns a signature of the main subgraph with the key `key`.
        """
        if self.signatures or not self.subgraphs:
            return self.signatures
        return [Signature.of(key, self.subgraphs[0])]

    def find_metadata(self, name: str) -> Blob | None:
        """Returns the data of the first metadata entry with this name; None if there is no such entry."""
        for entry in self.metadata:
            if entry.name == name:
                return entry.buffer.blob or Blob(b"")
        return None

    def set_metadata(self, name: str, blob: Blob) -> None:
        """Stores metadata under a name; replaces the first entry with this name, or else appends an entry."""
        buffer = Buffer(blob, is_external=blob.size >= EXTERNAL_SIZE)
        self.buffers.append(buffer)
        for entry in self.metadata:
            if entry.name == name:
                entry.buffer = buffer
                return
        self.metadata.append(Metadata(name, buffer))

    def close(self) -> None:
        """Closes the file from which the model was read; views of the file's data stay valid."""
        if self.source:
            self.source.close()

    def release(self) -> None:
        """Breaks the graph's reference cycles, which would keep the file mapped until a garbage collection."""
        for op in self.ops():
            op.release()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


CUSTOM = 32
"""Value of BuiltinOperator.CUSTOM in the schema, the operator number of all custom ops."""

PLACEHOLDER = 127
"""Value of the deprecated byte for larger operator codes (BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES)."""


@cache
def builtin_name(builtin_code: int) -> str:
    """Returns a builtin operator's name in the schema; `BUILTIN_<number>` if the schema lacks the operator."""
    from litert.model.schema import BUILTIN_OPERATORS

    return BUILTIN_OPERATORS.get(builtin_code, f"BUILTIN_{builtin_code}")
