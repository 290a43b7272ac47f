"""Builds models in a few lines of Python, for programs, examples and tests.

    b = ModelBuilder()
    x = b.input("x", "float32", (1, 8, 8, 4))
    y = b.custom("MyOp", [x], [("y", "float32", (1, 8, 8, 8))], options={"alpha": 0.5})
    b.output(y)
    model = b.build()

A `ModelBuilder` builds the main subgraph of a model. The method `ModelBuilder.subgraph` returns builders for
further subgraphs, which control flow and signatures need.
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
    """Builds one subgraph. The ops run in the order in which they are added.

    Attributes:
      graph: The subgraph with all tensors and ops added so far.
      index: Index of the subgraph in the model.
    """

    def __init__(self, model: Model, name: str) -> None:
        self._model = model
        self._own: set[int] = set()  # Python ids of the subgraph's tensors
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
        """Adds a tensor without data; an op may write this tensor.

        Args:
          name: Name of the tensor.
          element_type: An `ElementType`, its name, or a NumPy type.
          shape: Shape of the tensor before the first run; use 1 for a dimension that is unknown until run time.
          quantization: Quantization of the tensor's elements.
          shape_signature: Shape of the tensor with -1 for each dimension that is unknown until run time.
          is_variable: Whether the tensor keeps its value between runs.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the shape has a negative dimension.
        """
        if any(dimension < 0 for dimension in shape):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the shape {list(shape)} has a negative dimension",
                f"tensor '{name}'",
                "For a dimension that is unknown until run time, give 1 in shape and -1 in "
                "shape_signature.",
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
        """Adds a tensor that is the subgraph's next input.

        The arguments are the same as for the method `tensor`.
        """
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
        """Adds a tensor with constant data.

        Args:
          name: Name of the tensor.
          data: An array, a number, a list, strings, or bytes. Bytes must contain the elements as a model file
            stores them, and need the arguments `element_type` and `shape`. If `data` is the buffer of another
            constant, both tensors share this buffer.
          element_type: Type of the tensor's elements; by default, the type of the data.
          shape: Shape of the tensor; by default, the shape of the data.
          quantization: Quantization of the tensor's elements.
          sparsity: The `SparsityParameters` table of a sparse tensor; `data` then contains only the stored values.
          is_external: Whether the file stores the tensor's data after the flatbuffer.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the data do not have the given element type or shape.
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
                    Status.INVALID_ARGUMENT,
                    "a sparse constant needs its data as bytes, an element type and a shape",
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
        /,  # a composite has an option `name`, too
        *,
        version: int = 1,
        **options: Any,
    ) -> Any:  # the tensor for one output, a tuple otherwise
        """Adds a builtin op.

        Args:
          name: Name of the operator in the schema, such as `CONV_2D`.
          inputs: Input tensors; None for an optional input that the op does not use.
          outputs: For each output, a tuple `(name, element type, shape)`, or a tensor that the method `tensor` has
            returned.
          version: Version of the operator.
          options: Options of the op. An option has the name of its field in the operator's table in the schema.
            For an enum, you can pass the name of the value (`padding="SAME"`). For the index of a subgraph, you
            can pass the subgraph's builder.

        Returns:
          The output tensor of an op with one output; otherwise a tuple of all output tensors.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the schema lacks the operator or one of the options, or if a tensor
            belongs to another subgraph.
        """
        code = BUILTIN_NUMBERS.get(name)
        if code is None:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the schema has no operator '{name}'",
                hint="Use the name of an operator in the schema's enum BuiltinOperator, or add a "
                "custom op with the method `custom`.",
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
    ) -> Any:  # same as `op`
        """Adds a custom op.

        Args:
          custom_code: Custom code of the op, which is the op's name.
          inputs: Same as for the method `op`.
          outputs: Same as for the method `op`.
          options: Either a map of options, which is encoded as a FlexBuffer, or the bytes of a C struct.
          version: Version of the op.
          has_large_options: Whether the file stores the options after the flatbuffer.

        Returns:
          The output tensor or tensors, in the form that the method `op` returns.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if a FlexBuffer cannot hold one of the options, or if a tensor belongs to
            another subgraph.
        """
        data = write_flexbuffer_options(options) if isinstance(options, Mapping) else options
        op = self._add(self._model.operator_code(CUSTOM, custom_code, version), inputs, outputs)
        if data is not None:
            op.custom_options = Blob(data)
            op.has_large_custom_options = has_large_options
        return _result(op)

    def output(self, *tensors: Tensor) -> None:
        """Appends tensors to the subgraph's outputs."""
        self._check_own(tensors)
        self.graph.outputs.extend(tensors)

    def signature(
        self,
        key: str,
        inputs: Mapping[str, Tensor] | None = None,
        outputs: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Adds a signature that runs the subgraph.

        By default, the inputs and outputs of the signature have the same names as their tensors.
        """
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
        if isinstance(inputs, Tensor):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the inputs are the tensor '{inputs.name}', but must be a list of tensors",
                hint="Write [x] for one input x.",
            )
        made = [out if isinstance(out, Tensor) else self._make_output(out) for out in outputs]
        self._check_own([*(tensor for tensor in inputs if tensor is not None), *made])
        for tensor in made:
            if tensor.producer or tensor.is_constant or tensor in self.graph.inputs:
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"tensor '{tensor.name}' cannot be an output of this op: it is already an "
                    "input, a constant or another op's output",
                )
        op = Op(code, inputs, made)
        self.graph.ops.append(op)
        return op

    def _make_output(self, described: object) -> Tensor:
        """Adds the tensor that a tuple `(name, element type, shape)` describes."""
        if not isinstance(described, Sequence) or isinstance(described, str) or len(described) != 3:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"an output is {described!r:.100}, but must be a tensor or (name, element type, shape)",
                hint='Write a list of outputs, such as [("y", "float32", (1, 4))].',
            )
        return self.tensor(*described)

    def _check_own(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            if id(tensor) not in self._own:
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"tensor '{tensor.name}' does not belong to subgraph '{self.graph.name}'",
                    hint="To pass a tensor between subgraphs, make it an input or output of the "
                    "op that calls the subgraph.",
                )


class ModelBuilder(SubgraphBuilder):
    """Builds a model.

    The methods of `SubgraphBuilder` (`input`, `op`, `output` and so on) build the model's main subgraph. The
    method `subgraph` adds further subgraphs, which ops such as IF and WHILE call. Example of a model with one
    custom op:

    ```python
    from litert.model.builder import ModelBuilder
    from litert.model.writer import write_model

    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    y = builder.custom("MyOp", [x], [("y", "float32", (1, 4))], options={"scale": 2.0})
    builder.output(y)
    write_model(builder.build(), "build/my_model.tflite")
    ```
    """

    def __init__(self, description: str | None = None, name: str = "main") -> None:
        model = Model(description=description)
        model.buffers.append(Buffer())  # the schema says that the first buffer is empty
        super().__init__(model, name)

    def subgraph(self, name: str) -> SubgraphBuilder:
        """Adds a subgraph to the model, and returns a builder for the new subgraph."""
        return SubgraphBuilder(self._model, name)

    def metadata(self, name: str, data: bytes) -> None:
        """Stores data in the model's metadata under a name."""
        self._model.set_metadata(name, Blob(data))

    def build(self) -> Model:
        """Returns the model. Do not use the builder after this call."""
        return self._model


def _result(op: Op) -> Tensor | tuple[Tensor, ...]:
    return op.outputs[0] if len(op.outputs) == 1 else tuple(op.outputs)
