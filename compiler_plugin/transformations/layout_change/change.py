"""Changes a whole subgraph from NHWC to NCHW or back, and prepares NCHW graphs for stock LiteRT.

For each op, a rule determines the possible layouts. An assignment chooses one layout for each op. A rewriter
permutes constants, changes options and adds a TRANSPOSE where two layouts meet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler_plugin.leftovers import drop_dead, find_results, move_control_dependencies
from compiler_plugin.plugin import DataLayout
from compiler_plugin.transformations.layout_change.assignment import Assignment, assign_layouts
from compiler_plugin.transformations.layout_change.forms import Additions, Forms
from compiler_plugin.transformations.layout_change.image_layout import LayoutChange, Permutation
from compiler_plugin.transformations.layout_change.permuted_constants import (
    PermutedConstants,
    numbers_like,
    permute_type,
)
from compiler_plugin.transformations.layout_change.rule import (
    FREE,
    CustomLayout,
    Edit,
    find_numbers,
    find_plans,
    layout_rules,
)
from compiler_plugin.transformations.layout_change.rules.images import ImageOp
from litert.model.builtin_options import set_builtin_option
from litert.model.graph import Model, Op, Subgraph, Tensor

_COMPUTED = ("DENSIFY", "DEQUANTIZE", "CAST")
"""Ops with one input that can be between a constant filter and the convolution that reads the filter."""


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """Result of a change of layout: counts of changed and added ops.

    Attributes:
      to: New layout of the subgraph.
      ops: Number of ops that were changed to the new layout.
      transposes, reshapes: Numbers of added ops that convert tensors between the layouts; a RESHAPE replaces a
        TRANSPOSE that would move no data.
    """

    to: DataLayout
    ops: int = 0
    transposes: int = 0
    reshapes: int = 0

    def __str__(self) -> str:
        counts = {"TRANSPOSE": self.transposes, "RESHAPE": self.reshapes}
        added = [f"{count} {name}" for name, count in counts.items() if count]
        ops = "1 op is" if self.ops == 1 else f"{self.ops} ops are"
        return f"{ops} in {self.to}; added: {', '.join(added) or 'none'}"


def change_layout(
    model: Model,
    subgraph: Subgraph,
    to: DataLayout,
    custom_layouts: Mapping[str, CustomLayout] | None = None,
    permuted: PermutedConstants | None = None,
) -> ChangeReport:
    """Changes a subgraph to the other layout, in place; `image_layout` describes the layouts.

    Inputs, outputs and signatures keep their names, shapes and order of dimensions. A custom op without an entry
    in `custom_layouts` keeps the order of dimensions in the file. Pass the same `permuted` for all subgraphs of a
    model, so that subgraphs share permuted constants.

    Raises:
      LiteRtError: UNSUPPORTED, if an op needs a tensor in the other layout, but the tensor cannot be converted;
        the error names the tensor.
    """
    old_ops = subgraph.ops
    read_outside = find_results(model, subgraph)
    results = dict.fromkeys(tensor for tensor in subgraph.tensors if tensor in read_outside)
    change = LayoutChange(to, _find_settled(subgraph, results))
    plans = find_plans(subgraph, change, custom_layouts or {})
    assignments = assign_layouts(subgraph, plans, change, results)
    permute = (permuted or PermutedConstants()).permute
    rewriter = Rewriter(subgraph, model, change, results, permute)
    rewriter.run(assignments)
    _clean_up(model, subgraph, old_ops, rewriter.left)
    return ChangeReport(to, len(assignments), rewriter.forms.transposes, rewriter.forms.reshapes)


def _clean_up(
    model: Model, subgraph: Subgraph, old_ops: Sequence[Op], candidates: Iterable[Tensor]
) -> None:
    """Removes unused objects, and updates the positions of ops in metadata."""
    drop_dead(model, subgraph, candidates, old_ops)
    places = {op: place for place, op in enumerate(subgraph.ops)}
    moved = {old: places[op] for old, op in enumerate(old_ops) if op in places}
    move_control_dependencies(model, {subgraph: moved})


def _find_settled(subgraph: Subgraph, results: Mapping[Tensor, None]) -> set[Tensor]:
    """Returns constants, and results of single constants, whose layout can change without a TRANSPOSE."""
    settled: set[Tensor] = set()
    for op in subgraph.ops:
        settled.update(tensor for tensor in op.inputs if tensor is not None and tensor.is_constant)
        if op.name in _COMPUTED and len(op.inputs) == len(op.outputs) == 1:
            source, output = op.inputs[0], op.outputs[0]
            is_known = source in settled and output not in results
            if is_known and source is not None and source.shape == output.shape:
                settled.add(output)
    return settled


def to_stock_form(
    model: Model, subgraph: Subgraph, permute: Callable[[Tensor, Permutation], Tensor]
) -> None:
    """Changes builtin ops of an NCHW graph, in place, so that stock LiteRT computes the right results.

    The output shapes of the ops may be unknown. `permute` returns a constant with its dimensions in another order.
    """
    constants = {
        tensor for op in subgraph.ops for tensor in op.inputs if tensor and tensor.is_constant
    }
    change = LayoutChange("NHWC", constants)
    rules = layout_rules()
    assignments: dict[Op, Assignment] = {}
    for op in subgraph.ops:
        rule = rules.get(op.name)
        plan = rule.plan_any(op, change) if isinstance(rule, ImageOp) else None
        if plan is not None:
            inputs = [None if layout is FREE else layout for layout in plan.inputs]
            outputs = [None if layout is FREE else layout for layout in plan.outputs]
            assignments[op] = Assignment(_with_fitting_vectors(op, plan.edit), inputs, outputs)
    written = dict.fromkeys(tensor for op in subgraph.ops for tensor in op.outputs)
    if assignments:
        Rewriter(subgraph, model, change, written, permute).run(assignments)


def _with_fitting_vectors(op: Op, edit: object) -> Edit:
    """Removes constants of a wrong size from an edit, so that stock LiteRT reports the error."""
    assert isinstance(edit, Edit)
    vectors = {
        index: permutation
        for index, permutation in edit.vectors.items()
        if (vector := op.inputs[index]) is not None
        and (not vector.is_constant or vector.shape == (len(permutation),))
    }
    return replace(edit, vectors=vectors)


class Rewriter:
    """Rewrites one subgraph so that each op has the layout in its assignment.

    Attributes:
      forms: Copies of the subgraph's tensors, in each order of dimensions that an op reads.
      left: Tensors that may have lost their last reader or their producer.
    """

    def __init__(
        self,
        subgraph: Subgraph,
        model: Model,
        change: LayoutChange,
        results: Collection[Tensor],
        permute: Callable[[Tensor, Permutation], Tensor],
    ) -> None:
        """Prepares to rewrite `subgraph`; `results` keep names and layouts, and `permute` permutes a constant."""
        self.left: dict[Tensor, None] = {}
        self._gone: set[Op] = set()
        self._subgraph = subgraph
        self._results = results
        self._settled = change.settled
        self._additions = Additions(model, subgraph, change)
        self.forms = Forms(self._additions, results, change.settled, permute)

    def run(self, assignments: Mapping[Op, Assignment]) -> None:
        """Rewrites all ops of the subgraph."""
        for op in self._subgraph.ops:
            assignment = assignments.get(op)
            if assignment is None:
                for index, tensor in enumerate(op.inputs):
                    if tensor is not None:
                        self._set_input(op, index, self.forms.read(tensor, None))
                self._additions.ops.append(op)
            else:
                self._change(op, assignment)
        for tensor in self._results:
            self.forms.read(tensor, None)
        self._name_results()
        self._drop_unread()
        self._subgraph.ops = [op for op in self._additions.ops if op not in self._gone]

    def _change(self, op: Op, assignment: Assignment) -> None:
        edit = assignment.edit
        if edit.is_identity:
            if op.outputs[0] not in self._results or assignment.outputs[0] is not None:
                self._forward(op, assignment)
                return
            self.forms.idle.append(op)
        for name, value in edit.options.items():
            set_builtin_option(op, name, value)
        self._change_inputs(op, assignment)
        self._additions.ops.append(op)
        if edit.shape_output is not None:
            # A GATHER computes the old output from the output with elements in the new order.
            shape = op.outputs[0]
            changed = self._additions.tensor(shape.clone())
            op.set_output(0, changed)
            self._additions.gather(changed, shape, edit.shape_output)
        for index, layout in enumerate(assignment.outputs):
            if layout is not None:
                self._settle(op, index, layout)

    def _change_inputs(self, op: Op, assignment: Assignment) -> None:
        edit = assignment.edit
        for index, tensor in enumerate(op.inputs):
            if tensor is None:
                continue
            if index in edit.vectors:
                form = self.forms.read_vector(tensor, edit.vectors[index])
            elif index in edit.constants:
                numbers = list(edit.constants[index])
                is_same = find_numbers(tensor) == numbers
                form = (
                    tensor if is_same else self._additions.constant(numbers_like(tensor, numbers))
                )
            else:
                rank = edit.ranks.get(index, 0)
                form = self.forms.read(tensor, assignment.inputs[index], rank)
            self._set_input(op, index, form)

    def _release(self, op: Op) -> None:
        """Removes an op."""
        self._gone.add(op)
        op.release()
        self.left.update(dict.fromkeys(tensor for tensor in op.inputs if tensor is not None))

    def _forward(self, op: Op, assignment: Assignment) -> None:
        """Removes an op whose output equals its input."""
        source, target = op.inputs[0], op.outputs[0]
        assert source is not None
        form = self.forms.read(source, assignment.inputs[0])
        self._release(op)
        self.left[target] = None
        self.forms.set_home(target, assignment.outputs[0], form)

    def _settle(self, op: Op, index: int, layout: Permutation) -> None:
        """Sets the order of dimensions of output `index`; a result of the model is converted back."""
        tensor = op.outputs[index]
        home = tensor
        if tensor in self._results:
            home = self._additions.tensor(tensor.clone())
            op.set_output(index, home)
        permute_type(home, layout)
        self.forms.set_home(tensor, layout, home)

    def _set_input(self, op: Op, index: int, tensor: Tensor) -> None:
        old = op.inputs[index]
        if old is not tensor:
            op.set_input(index, tensor)
            if old is not None:
                self.left[old] = None

    def _name_results(self) -> None:
        """Removes idle TRANSPOSE ops: the op before each of them writes the result instead."""
        for op in self.forms.idle:
            source, result = op.inputs[0], op.outputs[0]
            assert source is not None
            writer = source.producer
            if writer is None or source in self._results or source in self._settled:
                continue
            self._release(op)
            writer.set_output(list(writer.outputs).index(source), result)
            for reader in list(source.readers):
                for index, tensor in enumerate(reader.inputs):
                    if tensor is source:
                        reader.set_input(index, result)
            self.left[source] = None

    def _drop_unread(self) -> None:
        """Removes ops on constants whose results have no readers any more."""
        for op in reversed(self._subgraph.ops):
            output = op.outputs[0] if op.outputs else None
            if output in self._results or output not in self.left or output not in self._settled:
                continue
            if not output.readers:
                self._release(op)
                self.left[output] = None
