"""`adjust-layouts`: inserts an `IE.Reorder` before and after layers that require tensors in another order."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from vendor_reference.compiler.ir.edits import read_through, settle_called_types
from vendor_reference.compiler.ir.names import bodies
from vendor_reference.compiler.ir.types import Order, order_of, with_order
from vendor_reference.compiler.layer_ports import (
    LayerFinder,
    LayerPorts,
    agnostic_ports,
)
from vendor_reference.compiler.levels.ie import ReorderOp
from vendor_reference.compiler.levels.layer import LayerOp, LayoutAgnostic
from vendor_reference.compiler.pass_pipeline import CompilerPass


@dataclass(frozen=True)
class AdjustLayouts(CompilerPass):
    """Inserts reorders, so that tensors have the layouts that layers require.

    Tensors between two layers keep their order if possible.
    """

    name = "adjust-layouts"
    AFTER = "fuse-layers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        finder = LayerFinder(op)
        for _, block in bodies(op):
            _BlockAdjustment(block, finder).run()
        settle_called_types(op)


class _BlockAdjustment:
    """Walks over a function once: each reorder of a value is made only once."""

    def __init__(self, block: Block, finder: LayerFinder) -> None:
        self._block = block
        self._finder = finder
        self._known: dict[tuple[SSAValue, Order], SSAValue] = {}

    def run(self) -> None:
        for op in list(self._block.ops):
            if isinstance(op, ReorderOp):
                self._known.setdefault((op.inputs[0], order_of(op.results[0].type)), op.outputs[0])
            elif isinstance(op, LayerOp) and op.has_trait(LayoutAgnostic):
                for place in agnostic_ports(op):
                    self._reorder_input(op, place, order_of(op.results[0].type))
            elif (layer := self._finder.find(op)) is not None:
                for place, asked in layer.inputs:
                    self._reorder_input(op, place, asked.layout)
                self._reorder_outputs(layer)

    def _reorder_input(self, op: Operation, place: int, wanted: Order | None) -> None:
        value = op.operands[place]
        if wanted is None or order_of(value.type) == wanted:
            return
        reordered = self._known.get((value, wanted))
        if reordered is None:
            reorder = ReorderOp.to(value, wanted)
            self._block.insert_op_before(reorder, op)
            reordered = self._known[value, wanted] = reorder.results[0]
        op.operands[place] = reordered

    def _reorder_outputs(self, layer: LayerPorts) -> None:
        for result, asked in layer.outputs:
            wanted, given = asked.layout, order_of(result.type)
            if wanted is None or wanted == given:
                continue
            new_type = with_order(result.type, wanted)
            reorder = read_through(result, new_type, ReorderOp.to, given)
            self._known[reorder.inputs[0], given] = reorder.outputs[0]


PASS = AdjustLayouts
