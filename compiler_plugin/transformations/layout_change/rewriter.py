"""Carries an assignment of layouts out: permuted constants, changed options, a TRANSPOSE where layouts meet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from compiler_plugin.transformations.layout_change.assignment import Assignment
from compiler_plugin.transformations.layout_change.forms import Additions, Forms
from compiler_plugin.transformations.layout_change.image_layout import LayoutChange, Permutation
from compiler_plugin.transformations.layout_change.permuted_constants import (
    numbers_like,
    permute_constant,
    permute_type,
)
from compiler_plugin.transformations.layout_change.rule import Edit, find_numbers
from litert.model.builtin_options import set_builtin_option
from litert.model.graph import Model, Op, Subgraph, Tensor


class Rewriter:
    """Rewrites one subgraph.

    Attributes:
      left: tensors that may have lost their last reader, or who writes them.
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
        self.left: dict[Tensor, None] = {}
        self._subgraph = subgraph
        self._results = results
        self._settled = change.settled
        self._additions = Additions(model, subgraph, change)
        self._forms = Forms(self._additions, results, change.settled, permute)

    @property
    def transposes(self) -> int:
        """TRANSPOSE ops that were added."""
        return self._forms.transposes

    @property
    def reshapes(self) -> int:
        """RESHAPE ops that were added in the place of a TRANSPOSE."""
        return self._forms.reshapes

    def run(self, assignments: Mapping[Op, Assignment]) -> None:
        """Rewrites all ops."""
        for op in self._subgraph.ops:
            assignment = assignments.get(op)
            if assignment is None:
                for index, tensor in enumerate(op.inputs):
                    if tensor is not None:
                        self._set_input(op, index, self._forms.read(tensor, None))
                self._additions.ops.append(op)
            else:
                self._change(op, assignment)
        for tensor in self._results:
            self._forms.read(tensor, None)
        self._name_results()
        self._drop_unread()
        self._subgraph.ops = self._additions.ops

    def _change(self, op: Op, assignment: Assignment) -> None:
        edit = assignment.plan.edit
        if not isinstance(edit, Edit):
            edit = edit(assignment.inputs, assignment.outputs)
        if edit.is_identity:
            if op.outputs[0] not in self._results or assignment.outputs[0] is not None:
                self._forward(op, assignment)
                return
            self._forms.idle.append(op)
        for name, value in edit.options.items():
            set_builtin_option(op, name, value)
        self._change_inputs(op, assignment, edit)
        self._additions.ops.append(op)
        for index, permutation in edit.shape_outputs.items():
            self._restore_vector(op, index, permutation)
        for index, layout in enumerate(assignment.outputs):
            if layout is not None:
                self._settle(op, index, layout)

    def _change_inputs(self, op: Op, assignment: Assignment, edit: Edit) -> None:
        for index, tensor in enumerate(op.inputs):
            if tensor is None:
                continue
            if index in edit.vectors:
                form = self._forms.read_vector(tensor, edit.vectors[index])
            elif index in edit.constants:
                form = self._with_numbers(tensor, list(edit.constants[index]))
            else:
                rank = edit.ranks.get(index, 0)
                form = self._forms.read(tensor, assignment.inputs[index], rank)
            self._set_input(op, index, form)

    def _with_numbers(self, tensor: Tensor, numbers: list[int]) -> Tensor:
        if find_numbers(tensor) == numbers:
            return tensor
        return self._additions.constant(numbers_like(tensor, numbers), self._additions.suffix)

    def _forward(self, op: Op, assignment: Assignment) -> None:
        """Drops an op whose output is its input."""
        source, target = op.inputs[0], op.outputs[0]
        assert source is not None
        form = self._forms.read(source, assignment.inputs[0])
        op.release()
        self.left.update(dict.fromkeys(tensor for tensor in op.inputs if tensor is not None))
        self.left[target] = None
        self._forms.set_home(target, assignment.outputs[0], form)

    def _settle(self, op: Op, index: int, layout: Permutation) -> None:
        """From now on output `index` has this order; a result keeps its own, and is made from it."""
        tensor = op.outputs[index]
        home = tensor
        if tensor in self._results:
            home = self._additions.tensor(tensor.clone(), self._additions.suffix)
            op.set_output(index, home)
        permute_type(home, layout)
        self._forms.set_home(tensor, layout, home)

    def _set_input(self, op: Op, index: int, tensor: Tensor) -> None:
        old = op.inputs[index]
        if old is not tensor:
            op.set_input(index, tensor)
            if old is not None:
                self.left[old] = None

    def _restore_vector(self, op: Op, index: int, permutation: Permutation) -> None:
        """Lets a GATHER write what output `index` was, from the elements in their new order."""
        tensor = op.outputs[index]
        changed = self._additions.tensor(tensor.clone(), self._additions.suffix)
        op.set_output(index, changed)
        self._additions.gather(changed, tensor, permutation)

    def _name_results(self) -> None:
        """Lets the op before an idle TRANSPOSE write the result that this is there for."""
        gone: set[Op] = set()
        for op in self._forms.idle:
            source, result = op.inputs[0], op.outputs[0]
            assert source is not None
            writer = source.producer
            if writer is None or source in self._results or source in self._settled:
                continue
            gone.add(op)
            op.release()
            self.left.update(dict.fromkeys(tensor for tensor in op.inputs if tensor is not None))
            writer.set_output(list(writer.outputs).index(source), result)
            for reader in list(source.readers):
                for index, tensor in enumerate(reader.inputs):
                    if tensor is source:
                        reader.set_input(index, result)
            self.left[source] = None
        self._additions.ops = [op for op in self._additions.ops if op not in gone]

    def _drop_unread(self) -> None:
        """Drops ops that compute of constants what nobody reads any more."""
        gone: set[Op] = set()
        for op in reversed(self._subgraph.ops):
            output = op.outputs[0] if op.outputs else None
            if output in self.left and output in self._settled and not output.readers:
                if output in self._results:
                    continue
                gone.add(op)
                op.release()
                self.left[output] = None
                self.left.update(dict.fromkeys(t for t in op.inputs if t is not None))
        self._additions.ops = [op for op in self._additions.ops if op not in gone]
