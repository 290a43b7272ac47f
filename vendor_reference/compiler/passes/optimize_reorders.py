"""`optimize-reorders`: removes reorders that cancel each other, are duplicates, or can be part of a neighbour."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Operation, SSAValue

from vendor_reference.compiler.ir.edits import set_type, settle_called_types
from vendor_reference.compiler.ir.names import bodies
from vendor_reference.compiler.ir.types import element_type_of, order_of, shape_of, with_order
from vendor_reference.compiler.layer_ports import (
    LayerFinder,
    LayerPorts,
    agnostic_ports,
)
from vendor_reference.compiler.layout_choice import Key, Puzzle, Value, order_key
from vendor_reference.compiler.levels.ie import ActualShapeOfOp, ConstantOp, ReorderOp
from vendor_reference.compiler.levels.layer import LayerOp, LayoutAgnostic
from vendor_reference.compiler.levels.values import ShapeOfOp
from vendor_reference.compiler.pass_pipeline import CompilerPass
from vendor_reference.custom_layers.layout import Order


@dataclass(frozen=True)
class OptimizeReorders(CompilerPass):
    """Removes reorders that cancel each other, are duplicates, or can be part of a constant or a neighbour.

    The layouts of a function's arguments and results do not change, and all tensors keep the layouts that layers
    require. For an op that accepts any layout, the pass chooses the layout with the fewest reorders before and
    after the op. The number of reorders never increases.
    """

    name = "optimize-reorders"
    AFTER = "adjust-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        finder = LayerFinder(op)
        reordering = [
            block
            for _, block in bodies(op)
            if any(isinstance(inner, ReorderOp) for inner in block.ops)
        ]
        for block in reordering:
            _BlockOptimization(block, finder).run()
        if reordering:
            settle_called_types(op)


@dataclass(frozen=True, slots=True)
class _Use:
    """An operand and the order that it must have: a given order, a group's order, or any."""

    op: Operation
    place: int
    order: Order | None = None
    group: int | None = None


class _BlockOptimization:
    """Removes the reorders of a function, then adds the necessary ones."""

    def __init__(self, block: Block, finder: LayerFinder) -> None:
        self._block = block
        self._finder = finder
        self._reorders = [op for op in block.ops if isinstance(op, ReorderOp)]
        self._puzzle = Puzzle()
        self._values: dict[SSAValue, Value] = {}
        self._uses: list[_Use] = []
        self._made: dict[tuple[SSAValue, Order], SSAValue] = {}
        self._alike: dict[tuple[SSAValue, Key], SSAValue] = {}

    def run(self) -> None:
        self._read()
        orders = self._puzzle.choose()
        for value, puzzle_value in list(self._values.items()):
            if puzzle_value.group is not None:
                set_type(value, with_order(value.type, orders[puzzle_value.group]))
        roots = self._roots()
        for use in self._uses:
            root = roots.get(use.op.operands[use.place], use.op.operands[use.place])
            order = use.order if use.group is None else orders[use.group]
            use.op.operands[use.place] = (
                root if order is None else self._in_order(root, order, use.op)
            )
        self._sweep()

    def _roots(self) -> dict[SSAValue, SSAValue]:
        """Returns for each reorder's result the value that it comes from, through all reorders."""
        roots: dict[SSAValue, SSAValue] = {}
        for reorder in self._reorders:
            source = reorder.operands[0]
            roots[reorder.results[0]] = roots.get(source, source)
        return roots

    def _read(self) -> None:
        """Builds the puzzle for the choice of orders."""
        roots = self._roots()
        for argument in self._block.args:
            self._add_value(argument)
        for op in self._block.ops:
            if isinstance(op, ReorderOp):
                continue
            first = len(self._uses)
            self._add_op(op)
            for use in self._uses[first:]:
                value = use.op.operands[use.place]
                puzzle_value = self._values[roots.get(value, value)]
                if use.group is not None:
                    puzzle_value.readers[use.group] += 1
                elif use.order is not None:
                    puzzle_value.wanted.append(use.order)

    def _add_op(self, op: Operation) -> None:
        if not isinstance(op, LayerOp) or not op.has_trait(LayoutAgnostic):
            self._add_fixed(op, self._finder.find(op))
        elif _agrees(op):
            self._add_agnostic(op)
        else:
            self._add_fixed(op, None)

    def _add_agnostic(self, op: LayerOp) -> None:
        group = self._new_group(order_of(op.results[0].type))
        alike = set(agnostic_ports(op))
        for place in range(len(op.inputs)):
            self._uses.append(_Use(op, place, group=group if place in alike else None))
        for result in op.outputs:
            self._add_value(result, group)

    def _add_fixed(self, op: Operation, layer: LayerPorts | None) -> None:
        """Adds an op whose tensors keep their orders, except tensors that a layer takes or makes in any order."""
        any_inputs: set[int] = set()
        any_outputs: set[SSAValue] = set()
        if layer is not None:
            any_inputs = {place for place, asked in layer.inputs if asked.layout is None}
            any_outputs = {result for result, asked in layer.outputs if asked.layout is None}
        elif isinstance(op, (ShapeOfOp, ActualShapeOfOp)):
            any_inputs = {0}
        for place, value in enumerate(op.operands):
            if isinstance(value.type, TensorType):
                order = None if place in any_inputs else order_of(value.type)
                self._uses.append(_Use(op, place, order))
        for result in op.results:
            is_free = result in any_outputs
            self._add_value(result, self._new_group(order_of(result.type)) if is_free else None)

    def _new_group(self, order: Order) -> int:
        self._puzzle.orders.append(order)
        return len(self._puzzle.orders) - 1

    def _add_value(self, value: SSAValue, group: int | None = None) -> None:
        if not isinstance(value.type, TensorType):
            return
        shape = shape_of(value.type)
        size = abs(prod(shape)) * element_type_of(value.type).bits // 8
        is_constant = isinstance(value.owner, ConstantOp)
        added = Value(shape, size, order_of(value.type), group, is_constant=is_constant)
        self._values[value] = added
        self._puzzle.values.append(added)

    def _in_order(self, root: SSAValue, order: Order, user: Operation) -> SSAValue:
        """Returns the value in the order that its user wants; each order is made once."""
        if order_of(root.type) == order:
            return root
        if (root, order) not in self._made:
            self._made[root, order] = self._make(root, order, user)
        return self._made[root, order]

    def _make(self, root: SSAValue, order: Order, user: Operation) -> SSAValue:
        if isinstance(root.owner, ConstantOp):
            constant = ConstantOp(root.owner.with_type(with_order(root.type, order)))
            self._block.insert_op_before(constant, user)
            return constant.output
        shape = shape_of(root.type)
        key = order_key(shape, order)
        is_same = key == order_key(shape, order_of(root.type))
        source = root if is_same else self._alike.get((root, key), root)
        reorder = ReorderOp.to(source, order)
        self._block.insert_op_before(reorder, user)
        self._alike.setdefault((root, key), reorder.results[0])
        return reorder.results[0]

    def _sweep(self) -> None:
        """Erases the old reorders, and constants that only they have read."""
        for reorder in reversed(self._reorders):
            source = reorder.operands[0].owner
            self._block.erase_op(reorder)
            if isinstance(source, ConstantOp) and source.output.first_use is None:
                self._block.erase_op(source)


def _agrees(op: LayerOp) -> bool:
    """Returns whether the tensors of an op that must have the same order have the same order.

    Before the pass `adjust-layouts`, they may have different orders.
    """
    order = order_of(op.results[0].type)
    values = [*(op.operands[place] for place in agnostic_ports(op)), *op.outputs]
    return all(order_of(value.type) == order for value in values)


PASS = OptimizeReorders
