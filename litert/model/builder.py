"""Models from a few lines of Python, for tests, examples and users.

    b = ModelBuilder()
    x = b.input("x", "float32", (1, 8, 8, 4))
    y = b.custom("MyOp", [x], [("y", "float32", (1, 8, 8, 8))], options={"alpha": 0.5})
    b.output(y)
    model = b.build()

A builder of a model builds its main subgraph; `subgraph` gives builders of others, for control flow and
signatures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from litert.model.builtin_options import BUILTIN_NUMBERS, make_builtin_options
from litert.model.custom_options import write_flexbuffer_options
from litert.model.graph import CUSTOM, Buffer, Model, Op, OperatorCode, Signature, Subgraph, Tensor
from litert.model.table import Table
from litert.model.tensor_data import DataLike, TypeLike, as_element_type, encode_constant

if TYPE_CHECKING:
    from litert.model.flexbuffer import FlexValue

    OutputLike: TypeAlias = Tensor | tuple[str, TypeLike, Sequence[int]]


class SubgraphBuilder:
    """Builds one subgraph; ops are in the order in which they are added.

    Attributes:
      graph: the subgraph as it stands.
      index: of the subgraph in the model.
    """

    def __init__(self, model: Model, name: str) -> None:
        self._model = model
        self._own: set[int] = set()  # ids of its tensors
        self.graph = Subgraph(name)
        self.index = len(model.subgraphs)
        model.subgraphs.append(self.graph)

    def tensor(
        self,
        name: str,
        element_type: TypeLike,
        shape: Sequence[int],
        *,
        quantization: Quantization | None = None,
        shape_signature: Sequence[int] | None = None,
        is_variable: bool = False,
    ) -> Tensor:
        """A tensor without data, to be an op's output.

        Args:
          name: of the tensor.
          element_type: one of ours, its name, or a NumPy type.
          shape: as the interpreter starts with it.
          quantization: of its elements.
          shape_signature: with -1 for dimensions that are unknown until run time.
          is_variable: whether it keeps its value between runs.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a negative dimension in the shape.
        """
        if any(dimension < 0 for dimension in shape):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"a tensor of shape {list(shape)}",
                f"tensor '{name}'",
                "Say with 1 what is not known, and with -1 in shape_signature that it is not.",
            )
        tensor = Tensor(
            name, as_element_type(element_type), tuple(shape), self._model.buffers[0], quantization
        )
        tensor.shape_signature = None if shape_signature is None else tuple(shape_signature)
        tensor.is_variable = is_variable
        self.graph.tensors.append(tensor)
        self._own.add(id(tensor))
        return tensor

    def input(
        self,
        name: str,
        element_type: TypeLike,
        shape: Sequence[int],
        *,
        quantization: Quantization | None = None,
        shape_signature: Sequence[int] | None = None,
    ) -> Tensor:
        """The subgraph's next input; arguments as for `tensor`."""
        tensor = self.tensor(
            name, element_type, shape, quantization=quantization, shape_signature=shape_signature
        )
        self.graph.inputs.append(tensor)
        return tensor

    def constant(
        self,
        name: str,
        data: DataLike | Buffer,
        element_type: TypeLike | None = None,
        shape: Sequence[int] | None = None,
        *,
        quantization: Quantization | None = None,
        sparsity: Table | None = None,
        is_external: bool = False,
    ) -> Tensor:
        """A tensor with data.

        Args:
          name: of the tensor.
          data: an array, number, list or texts; or bytes as they lie in a file, which need type and shape; or
            another constant's buffer, which is then shared.
          element_type: of the elements; from the array where it is not given.
          shape: from the array where it is not given.
          quantization: of its elements.
          sparsity: a `SparsityParameters` table; `data` are then bytes, of the values that are stored.
          is_external: whether the data are to lie behind the flatbuffer.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where data, type and shape do not agree.
        """
        if isinstance(data, Buffer):
            buffer, data = data, data.blob or Blob(b"")
        else:
            buffer = Buffer(is_external=is_external)
            self._model.buffers.append(buffer)
        if sparsity is None:
            tensor_type, buffer.blob = encode_constant(data, element_type, shape)
        else:
            if (
                not isinstance(data, (bytes, memoryview, Blob))
                or element_type is None
                or shape is None
            ):
                raise LiteRtError(
                    Status.INVALID_ARGUMENT, "a sparse constant needs bytes, a type and a shape"
                )
            buffer.blob = data if isinstance(data, Blob) else Blob(data)
            tensor_type = RankedTensorType.of(as_element_type(element_type), tuple(shape))
        tensor = self.tensor(
            name, tensor_type.element_type, tensor_type.shape, quantization=quantization
        )
        tensor.buffer, tensor.sparsity = buffer, sparsity
        return tensor

    def op(
        self,
        name: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[OutputLike],
        /,  # a composite's options have a name too
        *,
        version: int = 1,
        **options: Any,
    ) -> Any:  # for one output the tensor itself, which no type of outputs can tell
        """Adds a builtin op.

        Args:
          name: the operator's name in the schema: `CONV_2D`.
          inputs: None is an optional input that is left out.
          outputs: `(name, element type, shape)`, or what `tensor` made.
          version: of the operator.
          options: fields of the operator's options table, by the schema's names. An enum's value may be its
            name (`padding="SAME"`), a subgraph's index its builder.

        Returns:
          The output tensor; a tuple of them where there are none or several.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for an operator or option that the schema does not have, or a
            tensor of another subgraph.
        """
        code = BUILTIN_NUMBERS.get(name)
        if code is None:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the schema has no operator '{name}'",
                hint="Use the name in BuiltinOperator, or `custom` for a custom op.",
            )
        fields = {
            key: value.index if isinstance(value, SubgraphBuilder) else value
            for key, value in options.items()
        }
        made = make_builtin_options(name, fields)
        op = self._add(self._model.operator_code(code, None, version), inputs, outputs)
        op.options, op.options_2 = made
        return _result(op)

    def custom(
        self,
        custom_code: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[OutputLike],
        *,
        options: Mapping[str, FlexValue] | bytes | None = None,
        version: int = 1,
        has_large_options: bool = False,
    ) -> Any:  # as `op`
        """Adds a custom op.

        Args:
          custom_code: the op's name.
          inputs: as for `op`.
          outputs: as for `op`.
          options: a map, which becomes a FlexBuffer; or the bytes of a C struct.
          version: of the op.
          has_large_options: whether the options are to lie behind the flatbuffer.

        Returns:
          As `op`.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for options that a FlexBuffer cannot hold, or a tensor of another
            subgraph.
        """
        data = write_flexbuffer_options(options) if isinstance(options, Mapping) else options
        op = self._add(self._model.operator_code(CUSTOM, custom_code, version), inputs, outputs)
        if data is not None:
            op.custom_options = Blob(data)
            op.has_large_custom_options = has_large_options
        return _result(op)

    def output(self, *tensors: Tensor) -> None:
        """Makes tensors the subgraph's next outputs."""
        self._check_own(tensors)
        self.graph.outputs.extend(tensors)

    def signature(
        self,
        key: str,
        inputs: Mapping[str, Tensor] | None = None,
        outputs: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Gives the subgraph a named entry; where no names are given, they are those of the tensors."""
        named_inputs = inputs or {tensor.name: tensor for tensor in self.graph.inputs}
        named_outputs = outputs or {tensor.name: tensor for tensor in self.graph.outputs}
        self._check_own([*named_inputs.values(), *named_outputs.values()])
        self._model.signatures.append(
            Signature(key, self.graph, list(named_inputs.items()), list(named_outputs.items()))
        )

    def _add(
        self,
        code: OperatorCode,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[OutputLike],
    ) -> Op:
        made = [out if isinstance(out, Tensor) else self.tensor(*out) for out in outputs]
        self._check_own([*(tensor for tensor in inputs if tensor is not None), *made])
        for tensor in made:
            if tensor.producer or tensor.is_constant or tensor in self.graph.inputs:
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"tensor '{tensor.name}' has a value already: it cannot be an op's output",
                )
        op = Op(code, inputs, made)
        self.graph.ops.append(op)
        return op

    def _check_own(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            if id(tensor) not in self._own:
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"tensor '{tensor.name}' is not one of subgraph '{self.graph.name}'",
                    hint="Pass values between subgraphs as inputs and outputs of a call.",
                )


class ModelBuilder(SubgraphBuilder):
    """Builds a model and its main subgraph."""

    def __init__(self, description: str | None = None, name: str = "main") -> None:
        model = Model(description=description)
        model.buffers.append(Buffer())  # the schema's rule: the first is empty
        super().__init__(model, name)

    def subgraph(self, name: str) -> SubgraphBuilder:
        """Adds a subgraph, and gives its builder."""
        return SubgraphBuilder(self._model, name)

    def metadata(self, name: str, data: bytes) -> None:
        """Puts data under a name."""
        self._model.set_metadata(name, Blob(data))

    def build(self) -> Model:
        """The model; the builder must not be used after it."""
        return self._model


def _result(op: Op) -> Tensor | tuple[Tensor, ...]:
    return op.outputs[0] if len(op.outputs) == 1 else tuple(op.outputs)
