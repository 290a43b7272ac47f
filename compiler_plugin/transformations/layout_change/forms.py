"""Makes copies of tensors, called forms, for ops that read a tensor's dimensions in a different order.

The home of a tensor is the form that its op writes. Each other form is created once, before its first reader: as a
permuted constant, as the output of a copied op on permuted constants (DEQUANTIZE of a filter), as the output of a
TRANSPOSE, or as the output of a RESHAPE if no data move. `Additions` collects the new ops, tensors and constants.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from compiler_plugin.transformations.layout_change.image_layout import (
    LayoutChange,
    Permutation,
    keeps_memory,
    step,
)
from compiler_plugin.transformations.layout_change.permuted_constants import (
    permute_rows,
    permute_type,
    with_rank,
)
from compiler_plugin.transformations.layout_change.rule import known_shape
from compiler_plugin.transformations.op_request import FreeNames
from litert.core.element_type import ElementType
from litert.model.builtin_options import BUILTIN_NUMBERS, make_builtin_options
from litert.model.graph import Buffer, Model, Op, Subgraph, Tensor
from litert.model.tensor_data import encode_constant


class Forms:
    """The forms of all tensors of a subgraph: each tensor in each order of dimensions that is needed.

    An order is a permutation of the file's order; None is the file's order.

    Attributes:
      idle: TRANSPOSE ops that move no data, and only write a result of the model under its name.
      transposes: Number of TRANSPOSE ops that were added.
      reshapes: Number of RESHAPE ops that were added instead of a TRANSPOSE.
    """

    def __init__(
        self,
        additions: Additions,
        results: Collection[Tensor],
        settled: Collection[Tensor],
        permute: Callable[[Tensor, Permutation], Tensor],
    ) -> None:
        self.idle: list[Op] = []
        self.transposes = 0
        self.reshapes = 0
        self._additions = additions
        self._results = results
        self._settled = settled
        self._permute = permute
        self._forms: dict[Tensor, dict[Permutation | None, Tensor]] = {}  # each one's home first
        self._of_rank: dict[tuple[Tensor, int], Tensor] = {}
        self._vectors: dict[tuple[Tensor, Permutation], Tensor] = {}

    def set_home(self, tensor: Tensor, layout: Permutation | None, home: Tensor) -> None:
        """Records that the tensor `home` holds the data of `tensor` in this order of dimensions."""
        self._forms[tensor] = {layout: home}

    def read(self, tensor: Tensor, layout: Permutation | None, rank: int = 0) -> Tensor:
        """Returns a tensor in an order of dimensions; if `rank` is given, first adds leading ones to its shape."""
        if rank and (layout is None or tensor not in self._settled):
            tensor = self._expanded(tensor, rank)
        forms = self._forms.setdefault(tensor, {None: tensor})
        if layout not in forms:
            if layout is not None and tensor in self._settled:
                forms[layout] = self._constant(tensor, layout)
            else:
                forms[layout] = self._transposed(tensor, layout)
        return forms[layout]

    def read_vector(self, vector: Tensor, permutation: Permutation) -> Tensor:
        """Returns a permuted copy of a vector that has an element, or a row, for each dimension of a tensor."""
        key = (vector, permutation)
        found = self._vectors.get(key)
        if found is None:
            if vector.is_constant:
                found = self._additions.constant(permute_rows(vector, permutation))
            else:
                found = self._additions.tensor(vector.clone())
                self._additions.gather(vector, found, permutation)
            self._vectors[key] = found
        return found

    def _constant(self, tensor: Tensor, layout: Permutation) -> Tensor:
        """Returns a form of a constant or of a result of a constant; a lower rank is padded with leading ones."""
        rank = len(layout)
        of_rank = tensor if len(tensor.shape) >= rank else with_rank(tensor, rank)
        if tensor.is_constant:
            return self._additions.constant(self._permute(of_rank, layout))
        op = tensor.producer
        assert op is not None and op.inputs[0] is not None
        form = of_rank.clone()
        permute_type(form, layout)
        self._additions.tensor(form)
        copy = Op(op.code, [self.read(op.inputs[0], layout)], [form], op.options)
        copy.options_2 = op.options_2
        self._additions.ops.append(copy)
        return form

    def _transposed(self, tensor: Tensor, layout: Permutation | None) -> Tensor:
        home, source = next(iter(self._forms[tensor].items()))
        permutation = step(home, layout)
        if layout is None and tensor in self._results:
            form = tensor
        else:
            form = source.clone()
            form.name = tensor.name
            permute_type(form, permutation)
            self._additions.tensor(form, "" if layout else self._additions.back_suffix)
        shape = known_shape(form)
        if permutation == tuple(range(len(permutation))):
            self.idle.append(self._additions.transpose(source, form, permutation))
        elif keeps_memory(known_shape(source), permutation) and shape.count(-1) <= 1:
            self.reshapes += 1
            self._additions.reshape(source, form, shape)
        else:
            self.transposes += 1
            self._additions.transpose(source, form, permutation)
        return form

    def _expanded(self, tensor: Tensor, rank: int) -> Tensor:
        """Returns a tensor whose shape is padded with leading ones."""
        found = self._of_rank.get((tensor, rank))
        if found is None:
            found = self._of_rank[tensor, rank] = with_rank(tensor, rank)
            self._additions.tensor(found, f"_rank{rank}")
            self._additions.reshape(self.read(tensor, None), found, known_shape(found))
        return found


class Additions:
    """Collects the ops of the new subgraph in execution order.

    Attributes:
      ops: Ops of the new subgraph so far.
      back_suffix: Suffix for names of tensors that are transposed back to the old layout.
    """

    def __init__(self, model: Model, subgraph: Subgraph, change: LayoutChange) -> None:
        self.ops: list[Op] = []
        self._suffix = f"_{change.to.lower()}"
        self.back_suffix = "_nhwc" if change.to == "NCHW" else "_nchw"
        self._model = model
        self._subgraph = subgraph
        self._names = FreeNames(lambda: (known.name for known in subgraph.tensors))
        self._vectors: dict[tuple[int, ...], Tensor] = {}
        self._buffers = set(model.buffers)

    def op(self, name: str, inputs: Sequence[Tensor], output: Tensor, **options: object) -> Op:
        op = Op(self._model.operator_code(BUILTIN_NUMBERS[name]), inputs, [output])
        op.options, op.options_2 = make_builtin_options(name, options)
        self.ops.append(op)
        return op

    def transpose(self, source: Tensor, target: Tensor, permutation: Permutation) -> Op:
        return self.op("TRANSPOSE", [source, self.vector(permutation)], target)

    def reshape(self, source: Tensor, target: Tensor, shape: Sequence[int]) -> Op:
        """Adds a RESHAPE op; one dimension in `shape` may be -1."""
        return self.op("RESHAPE", [source, self.vector(shape)], target, new_shape=shape)

    def gather(self, source: Tensor, target: Tensor, order: Permutation) -> Op:
        """Adds a GATHER op that reorders the elements, or rows, of a tensor."""
        return self.op("GATHER", [source, self.vector(order)], target, axis=0)

    def tensor(self, tensor: Tensor, suffix: str = "") -> Tensor:
        """Adds a tensor to the subgraph under a unique name, with a suffix for the layout."""
        tensor.name = self._names.find_free(f"{tensor.name}{suffix or self._suffix}")
        self._subgraph.tensors.append(tensor)
        return tensor

    def constant(self, tensor: Tensor) -> Tensor:
        """Adds a constant to the subgraph, and its buffer to the model if the buffer is new."""
        if tensor.buffer not in self._buffers:
            self._buffers.add(tensor.buffer)
            self._model.buffers.append(tensor.buffer)
        return self.tensor(tensor)

    def vector(self, numbers: Sequence[int]) -> Tensor:
        """Returns an int32 constant with the given numbers; calls with equal numbers return the same constant."""
        key = tuple(numbers)
        found = self._vectors.get(key)
        if found is None:
            _, blob = encode_constant(list(key), ElementType.INT32, (len(key),))
            name = "order" if sorted(key) == list(range(len(key))) else "shape"
            made = Tensor(name, ElementType.INT32, (len(key),), Buffer(blob))
            found = self._vectors[key] = self.constant(made)
        return found
