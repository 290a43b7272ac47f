"""What a change of layout adds to a subgraph: ops, tensors under names of their own, constants, operator codes."""

from __future__ import annotations

from collections.abc import Sequence

from compiler_plugin.transformations.layout_change.layout import LayoutChange, Permutation
from compiler_plugin.transformations.op_request import TensorNames
from litert.core.element_type import ElementType
from litert.model.builtin_options import make_builtin_options
from litert.model.graph import Buffer, Model, Op, Subgraph, Tensor
from litert.model.schema import BUILTIN_OPERATORS
from litert.model.tensor_data import encode_constant


class Additions:
    """The ops of a subgraph in the making: each is added behind those that it reads from.

    Attributes:
      ops: so far.
      suffix: of the names of tensors in the other layout.
      back_suffix: of the names of tensors that are brought back.
    """

    def __init__(self, model: Model, subgraph: Subgraph, change: LayoutChange) -> None:
        """Begins without ops."""
        self.ops: list[Op] = []
        self.suffix = f"_{change.to.lower()}"
        self.back_suffix = "_nhwc" if change.to == "NCHW" else "_nchw"
        self._model = model
        self._subgraph = subgraph
        self._codes = {name: code for code, name in BUILTIN_OPERATORS.items()}
        self._names = TensorNames(subgraph)
        self._vectors: dict[tuple[int, ...], Tensor] = {}

    def op(self, name: str, inputs: Sequence[Tensor], output: Tensor, **options: object) -> Op:
        """Adds a builtin op."""
        op = Op(self._model.operator_code(self._codes[name]), inputs, [output])
        op.options, op.options_2 = make_builtin_options(name, options)
        self.ops.append(op)
        return op

    def transpose(self, source: Tensor, target: Tensor, permutation: Permutation) -> Op:
        """Adds a TRANSPOSE."""
        return self.op("TRANSPOSE", [source, self.vector(permutation)], target)

    def reshape(self, source: Tensor, target: Tensor, shape: Sequence[int]) -> Op:
        """Adds a RESHAPE; one size may be -1."""
        return self.op("RESHAPE", [source, self.vector(shape)], target, new_shape=shape)

    def gather(self, source: Tensor, target: Tensor, order: Permutation) -> Op:
        """Adds a GATHER of elements, or rows, in another order."""
        return self.op("GATHER", [source, self.vector(order)], target, axis=0)

    def tensor(self, tensor: Tensor, suffix: str = "") -> Tensor:
        """Takes a tensor into the subgraph, under a name that no other has."""
        tensor.name = self._names.find_free(f"{tensor.name}{suffix}")
        self._subgraph.tensors.append(tensor)
        return tensor

    def constant(self, tensor: Tensor, suffix: str) -> Tensor:
        """Takes a constant into the subgraph, and its buffer into the model."""
        self._model.buffers.append(tensor.buffer)
        return self.tensor(tensor, suffix)

    def vector(self, numbers: Sequence[int]) -> Tensor:
        """A constant of these int32; the same for the same numbers."""
        key = tuple(numbers)
        found = self._vectors.get(key)
        if found is None:
            _, blob = encode_constant(list(key), ElementType.INT32, (len(key),))
            name = "order" if sorted(key) == list(range(len(key))) else "shape"
            made = Tensor(name, ElementType.INT32, (len(key),), Buffer(blob))
            found = self._vectors[key] = self.constant(made, self.suffix)
        return found
