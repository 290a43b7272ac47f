"""Carries an assignment of layouts out: permuted constants, changed options, TRANSPOSE ops where layouts differ.

Each tensor is written in one order, its home. Whoever reads it in another order reads another form of it, which is
made once: a permuted constant, a second computation from permuted constants (DEQUANTIZE of a filter), a TRANSPOSE,
or a RESHAPE where that is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from compiler_plugin.transformations.layout_change.assignment import Assignment
from compiler_plugin.transformations.layout_change.constants import (
    numbers_like,
    permute_constant,
    permute_type,
    with_rank,
)
from compiler_plugin.transformations.layout_change.layout import (
    LayoutChange,
    Permutation,
    keeps_memory,
    step,
)
from compiler_plugin.transformations.layout_change.rule import (
    Edit,
    find_numbers,
    known_shape,
)
from litert.core.element_type import ElementType
from litert.model.blob import Blob
from litert.model.builtin_options import make_builtin_options, set_builtin_option
from litert.model.graph import Buffer, Model, Op, Subgraph, Tensor
from litert.model.schema import BUILTIN_OPERATORS
from litert.model.tensor_data import encode_constant


class Rewriter:
    """Rewrites one subgraph.

    Attributes:
      left: tensors that may have lost their last reader, or who writes them.
      transposes: TRANSPOSE ops that were added.
      reshapes: RESHAPE ops that were added in the place of a TRANSPOSE.
    """

    def __init__(
        self,
        subgraph: Subgraph,
        model: Model,
        change: LayoutChange,
        results: Collection[Tensor],
        permute: Callable[[Tensor, Permutation], Tensor] = permute_constant,
    ) -> None:
        """Prepares to rewrite a subgraph of a model.

        Args:
          subgraph: to rewrite.
          model: that gets new operator codes and buffers.
          change: to the other layout.
          results: tensors that are read from outside: their names and orders stay.
          permute: gives a constant in another order.
        """
        self._subgraph = subgraph
        self._model = model
        self._suffix = f"_{change.to.lower()}"
        self._back_suffix = "_nhwc" if change.to == "NCHW" else "_nchw"
        self._results = results
        self._permute = permute
        self._settled = change.settled
        self._ops: list[Op] = []
        self._homes: dict[Tensor, Permutation] = {}
        self._forms: dict[Tensor, dict[Permutation | None, Tensor]] = {}
        self._constants: dict[tuple[Tensor, Permutation], Tensor] = {}
        self._of_rank: dict[tuple[Tensor, int], Tensor] = {}
        self._vectors: dict[tuple[Permutation, Tensor | None], Tensor] = {}
        self._codes = {name: code for code, name in BUILTIN_OPERATORS.items()}
        self._names = {tensor.name for tensor in subgraph.tensors}
        self._idle: list[Op] = []  # TRANSPOSE ops that do nothing but give a result its name
        self.left: dict[Tensor, None] = {}
        self.transposes = 0
        self.reshapes = 0

    def run(self, assignments: Mapping[Op, Assignment]) -> None:
        """Rewrites all ops."""
        for op in self._subgraph.ops:
            assignment = assignments.get(op)
            if assignment is None:
                self._read_all(op, [None] * len(op.inputs), {})
                self._ops.append(op)
            else:
                self._change(op, assignment)
        for tensor in self._results:
            self._read(tensor, None)
        self._name_results()
        self._drop_unread()
        self._subgraph.ops = self._ops

    def _change(self, op: Op, assignment: Assignment) -> None:
        edit = assignment.plan.edit
        if not isinstance(edit, Edit):
            edit = edit(assignment.inputs, assignment.outputs)
        if edit.is_identity:
            if op.outputs[0] not in self._results or assignment.outputs[0] is not None:
                self._forward(op, assignment)
                return
            self._idle.append(op)
        for name, value in edit.options.items():
            set_builtin_option(op, name, value)
        self._read_all(op, assignment.inputs, edit.ranks)
        for index, numbers in edit.constants.items():
            old = op.inputs[index]
            assert old is not None  # the rule has read it
            if find_numbers(old) != list(numbers):
                changed = self._add_tensor(numbers_like(old, numbers), self._suffix)
                self._model.buffers.append(changed.buffer)
                self._set_input(op, index, changed)
        for index, permutation in edit.vectors.items():
            vector = op.inputs[index]
            assert vector is not None
            self._set_input(op, index, self._permuted_vector(vector, permutation))
        self._ops.append(op)
        for index, permutation in edit.shape_outputs.items():
            self._restore_vector(op, index, permutation)
        for index, layout in enumerate(assignment.outputs):
            if layout is not None:
                self._settle(op, index, layout)

    def _forward(self, op: Op, assignment: Assignment) -> None:
        """Drops an op whose output is its input."""
        source, target = op.inputs[0], op.outputs[0]
        assert source is not None
        form = self._read(source, assignment.inputs[0])
        layout = assignment.outputs[0]
        op.release()
        self.left.update(dict.fromkeys(tensor for tensor in op.inputs if tensor is not None))
        self._forms[target] = {layout: form}
        if layout is not None:
            self._homes[target] = layout
        self.left[target] = None

    def _settle(self, op: Op, index: int, layout: Permutation) -> None:
        """From now on output `index` has this order; a result keeps its own, and is made from it."""
        tensor = op.outputs[index]
        self._homes[tensor] = layout
        if tensor in self._results:
            home = self._add_tensor(tensor.clone(), self._suffix)
            op.set_output(index, home)
        else:
            home = tensor
        permute_type(home, layout)
        self._forms[tensor] = {layout: home}

    def _read_all(
        self, op: Op, layouts: Sequence[Permutation | None], ranks: Mapping[int, int]
    ) -> None:
        for index, tensor in enumerate(op.inputs):
            if tensor is not None:
                layout = layouts[index]
                if layout is not None and tensor in self._settled:
                    form = self._constant(tensor, ranks.get(index, len(tensor.shape)), layout)
                elif index in ranks:
                    form = self._read(self._expanded(tensor, ranks[index]), layout)
                else:
                    form = self._read(tensor, layout)
                self._set_input(op, index, form)

    def _set_input(self, op: Op, index: int, tensor: Tensor) -> None:
        old = op.inputs[index]
        if old is not tensor:
            op.set_input(index, tensor)
            if old is not None:
                self.left[old] = None

    def _read(self, tensor: Tensor, layout: Permutation | None) -> Tensor:
        """A tensor in an order of dimensions; `layout` is counted from the order of the file."""
        forms = self._forms.setdefault(tensor, {None: tensor})
        if layout in forms:
            return forms[layout]
        form = forms[layout] = self._transposed(tensor, layout)
        return form

    def _constant(self, tensor: Tensor, rank: int, layout: Permutation) -> Tensor:
        """A constant, or what an op computes of one, with ones in front up to a rank, and in this order."""
        key = (tensor, layout)  # which has the rank
        found = self._constants.get(key)
        if found is not None:
            return found
        of_rank = tensor if len(tensor.shape) == rank else with_rank(tensor, rank)
        if tensor.is_constant:
            form = self._permute(of_rank, layout)
            if form.buffer is not tensor.buffer:
                self._model.buffers.append(form.buffer)
            self._add_tensor(form, self._suffix)
        else:
            op = tensor.producer
            assert op is not None and op.inputs[0] is not None
            form = of_rank.clone()
            permute_type(form, layout)
            self._add_tensor(form, self._suffix)
            copy = Op(op.code, [self._constant(op.inputs[0], rank, layout)], [form], op.options)
            copy.options_2 = op.options_2
            self._ops.append(copy)
        self._constants[key] = form
        return form

    def _transposed(self, tensor: Tensor, layout: Permutation | None) -> Tensor:
        home = self._homes.get(tensor)
        source = self._forms[tensor][home]
        permutation = step(home, layout)
        if layout is None and tensor in self._results:
            form = tensor
        else:
            form = source.clone()
            form.name = tensor.name
            permute_type(form, permutation)
            self._add_tensor(form, self._suffix if layout else self._back_suffix)
        shape = known_shape(form)
        if permutation == tuple(range(len(permutation))):
            self._idle.append(self._add_transpose(source, form, permutation))
        elif keeps_memory(known_shape(source), permutation) and shape.count(-1) <= 1:
            self.reshapes += 1
            numbers = self._vector(shape)
            self._ops.append(self._make_op("RESHAPE", [source, numbers], form, new_shape=shape))
        else:
            self.transposes += 1
            self._add_transpose(source, form, permutation)
        return form

    def _add_transpose(self, source: Tensor, target: Tensor, permutation: Permutation) -> Op:
        op = self._make_op("TRANSPOSE", [source, self._vector(permutation)], target)
        self._ops.append(op)
        return op

    def _expanded(self, tensor: Tensor, rank: int) -> Tensor:
        """A tensor with ones in front of its shape."""
        found = self._of_rank.get((tensor, rank))
        if found is None:
            found = self._of_rank[tensor, rank] = with_rank(tensor, rank)
            self._add_tensor(found, f"_rank{rank}")
            shape = known_shape(found)
            inputs = [self._read(tensor, None), self._vector(shape)]
            self._ops.append(self._make_op("RESHAPE", inputs, found, new_shape=shape))
        return found

    def _permuted_vector(self, vector: Tensor, permutation: Permutation) -> Tensor:
        """A vector, or rows, in another order."""
        found = self._vectors.get((permutation, vector))
        if found is None:
            if vector.is_constant:
                found = _permuted_rows(vector, permutation)
                self._model.buffers.append(found.buffer)
                self._add_tensor(found, self._suffix)
            else:
                found = self._add_tensor(vector.clone(), self._suffix)
                inputs = [vector, self._vector(permutation)]
                self._ops.append(self._make_op("GATHER", inputs, found, axis=0))
            self._vectors[permutation, vector] = found
        return found

    def _restore_vector(self, op: Op, index: int, permutation: Permutation) -> None:
        """Lets a GATHER write what output `index` was, from the elements in their new order."""
        tensor = op.outputs[index]
        changed = self._add_tensor(tensor.clone(), self._suffix)
        op.set_output(index, changed)
        inputs = [changed, self._vector(permutation)]
        self._ops.append(self._make_op("GATHER", inputs, tensor, axis=0))

    def _vector(self, numbers: Sequence[int]) -> Tensor:
        """A constant of these int32."""
        key = (tuple(numbers), None)
        found = self._vectors.get(key)
        if found is None:
            _, blob = encode_constant(list(numbers), ElementType.INT32, (len(numbers),))
            name = "order" if sorted(numbers) == list(range(len(numbers))) else "shape"
            buffer = Buffer(blob)
            self._model.buffers.append(buffer)
            tensor = Tensor(name, ElementType.INT32, (len(numbers),), buffer)
            found = self._vectors[key] = self._add_tensor(tensor, self._suffix)
        return found

    def _make_op(
        self, name: str, inputs: Sequence[Tensor], output: Tensor, **options: object
    ) -> Op:
        op = Op(self._model.operator_code(self._codes[name]), inputs, [output])
        op.options, op.options_2 = make_builtin_options(name, options)
        return op

    def _add_tensor(self, tensor: Tensor, suffix: str = "") -> Tensor:
        """Takes a tensor into the subgraph, under a name that no other has."""
        base = name = f"{tensor.name}{suffix}"
        number = 1
        while name in self._names:
            number += 1
            name = f"{base}_{number}"
        tensor.name = name
        self._names.add(name)
        self._subgraph.tensors.append(tensor)
        return tensor

    def _name_results(self) -> None:
        """Lets the op before an idle TRANSPOSE write the result that this is there for."""
        gone: set[Op] = set()
        for op in self._idle:
            source, result = op.inputs[0], op.outputs[0]
            assert source is not None
            writer = source.producer
            if writer is None or source in self._results or source in self._settled:
                continue
            gone.add(op)
            op.release()
            self.left.update(dict.fromkeys(tensor for tensor in op.inputs if tensor is not None))
            writer.set_output(list(writer.outputs).index(source), result)
            for reader in dict.fromkeys(source.uses):
                for index, tensor in enumerate(reader.inputs):
                    if tensor is source:
                        reader.set_input(index, result)
            self.left[source] = None
        self._ops = [op for op in self._ops if op not in gone]

    def _drop_unread(self) -> None:
        """Drops ops that compute of constants what nobody reads any more."""
        gone: set[Op] = set()
        for op in reversed(self._subgraph.ops):
            output = op.outputs[0] if op.outputs else None
            if output in self.left and output in self._settled and not output.uses:
                if output in self._results:
                    continue
                gone.add(op)
                op.release()
                self.left[output] = None
                self.left.update(dict.fromkeys(t for t in op.inputs if t is not None))
        self._ops = [op for op in self._ops if op not in gone]


def _permuted_rows(vector: Tensor, permutation: Permutation) -> Tensor:
    size = len(vector.data) // vector.shape[0]
    rows = [bytes(vector.data[place * size : (place + 1) * size]) for place in permutation]
    copy = vector.clone()
    copy.buffer = Buffer(Blob(b"".join(rows)))
    return copy
