"""`fuse-elementwise`: fuses an element-wise layer with the next one if no other layer reads its result.

    %0 = IE.Add(%a, %b) : tensor<?x8xf32>, tensor<8xf32> -> tensor<?x8xf32>
    %1 = IE.ReLU(%0) : tensor<?x8xf32> -> tensor<?x8xf32>

    %1 = IE.Chain(%a, %b) {expression = "x0 = a + b; max(0, x0)", layers = "ADD+RELU"}

Run-time shapes of fused layers must be equal in every run. For each additional layer, the pass checks the whole
chain. The length of chains is limited, so that the time of the pass is proportional to the number of layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from litert.core.element_type import ElementType
from vendor_reference.compiler.ir.edits import remove_op, replace_op
from vendor_reference.compiler.ir.names import bodies, functions_of, keep_names, read_taps
from vendor_reference.compiler.ir.types import element_type_of
from vendor_reference.compiler.levels.ie import ConstantOp, ConvertOp
from vendor_reference.compiler.levels.layer import LayerOp
from vendor_reference.compiler.library.chain import CHAIN, EXPRESSION, LAYERS
from vendor_reference.compiler.library.elementwise import Formula, cast
from vendor_reference.compiler.library.library_op import (
    Attributes,
    ElementwiseOp,
    PlacedOp,
    is_shape,
    scale_attributes,
)
from vendor_reference.compiler.library.steps import OPERANDS, Scale, rename
from vendor_reference.compiler.library.traced_size import NotTraceableError
from vendor_reference.compiler.library_layers import (
    LibraryLayer,
    layer_attributes,
    library_layers,
    read_attributes,
)
from vendor_reference.compiler.open_shapes import OpenShapes
from vendor_reference.compiler.pass_pipeline import CompilerPass
from vendor_reference.firmware.operations import NUM_OPERANDS

_E = ElementType

_KEPT = (_E.FLOAT32, _E.INT32, _E.INT64, _E.BOOL)
"""Element types that are the same in memory and in a program.

A chain can keep tensors of these types in registers.
"""

_MOST_LAYERS = 32
"""Greatest number of layers in a chain.

The tensor between two chains of this length costs little compared to the chains' computation.
"""


@dataclass(frozen=True)
class FuseElementwise(CompilerPass):
    """Fuses each element-wise layer with the element-wise layer that is the only reader of its result."""

    name = "fuse-elementwise"
    AFTER = "fuse-layers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = functions_of(op)
        for function, block in bodies(op):
            _BlockFusion(block, OpenShapes(function, functions)).run()


PASS = FuseElementwise


_Operand = tuple[SSAValue, Scale | None]
"""A value that a chain reads, and its scale if the value is quantized."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A layer, and its expression."""

    op: LayerOp
    title: str
    formula: Formula

    @property
    def result(self) -> SSAValue:
        return self.op.outputs[0]

    @property
    def operands(self) -> Sequence[_Operand]:
        scales = [operand.scale for operand in self.formula.operands]
        return list(zip(self.op.inputs, scales, strict=True))


class _BlockFusion:
    """Walks over a function from the last layer: a layer joins the chain of all its readers."""

    def __init__(self, block: Block, shapes: OpenShapes) -> None:
        self._block = block
        self._shapes = shapes
        self._chains: dict[Operation, list[_Member]] = {}

    def run(self) -> None:
        for op in reversed(list(self._block.ops)):
            member = self._find_member(op)
            if member is not None:
                chain = self._find_chain(member)
                chain.insert(0, member)
                self._chains[op] = chain
        for op, chain in self._chains.items():
            if chain[-1].op is op and len(chain) > 1:
                self._replace(chain)

    def _find_chain(self, member: _Member) -> list[_Member]:
        """Returns the chain that a layer can join.

        Empty if the layer has another reader, or its result must be visible.
        """
        readers = [self._chains.get(use.operation) for use in member.result.uses]
        chain = readers[0] if readers else None
        if chain is None or any(other is not chain for other in readers):
            return []
        is_kept = element_type_of(member.result.type) in _KEPT and not any(
            read_taps(member.op.attributes)
        )
        is_whole = is_shape(self._shapes[member.result], self._shapes[chain[-1].result])
        return chain if is_kept and is_whole and self._fits([member, *chain]) else []

    def _find_member(self, op: Operation) -> _Member | None:
        """Returns the member for an element-wise layer; None for other ops."""
        if not isinstance(op, (LibraryLayer, ConvertOp)):
            return None
        views = [self._shapes.view(value) for value in (*op.inputs, *op.outputs)]
        if isinstance(op, ConvertOp):
            return _Member(op, "CONVERT", cast(*views))
        rule, attributes = op.rule(), read_attributes(op.attributes)
        if not isinstance(rule, ElementwiseOp):
            return None
        try:
            formula = rule.formula(PlacedOp.of(views, 1, attributes))
        except NotTraceableError:
            return None
        if any(operand.argument for operand in formula.operands):
            return None
        return _Member(op, str(attributes.get(LAYERS, rule.name)), formula)

    def _operands(self, chain: Sequence[_Member]) -> Sequence[_Operand]:
        """Returns the operands of a chain, tensors of the result's shape first.

        The result may overwrite the first.
        """
        own, shape = {member.result for member in chain}, self._shapes[chain[-1].result]
        read = dict.fromkeys(pair for m in chain for pair in m.operands if pair[0] not in own)
        return sorted(
            read,
            key=lambda p: (
                isinstance(p[0].owner, ConstantOp) or not is_shape(self._shapes[p[0]], shape)
            ),
        )

    def _fits(self, chain: Sequence[_Member]) -> bool:
        """Returns whether the firmware can run the chain as one command, for all run-time shapes."""
        operands = self._operands(chain)
        if len(operands) > NUM_OPERANDS or len(chain) > _MOST_LAYERS:
            return False
        values = [*(value for value, _ in operands), chain[-1].result]
        views = [self._shapes.view(value) for value in values]
        try:
            return not CHAIN.mismatch(PlacedOp.of(views, 1, _attributes(chain, operands)))
        except NotTraceableError:
            return False

    def _replace(self, chain: Sequence[_Member]) -> None:
        last, operands = chain[-1].op, self._operands(chain)
        inputs = [value for value, _ in operands]
        attributes = layer_attributes(_attributes(chain, operands))
        made = library_layers()[CHAIN.name](inputs, [last.outputs[0].type], attributes)
        keep_names(last, made)
        replace_op(last, made)
        for member in reversed(chain[:-1]):
            remove_op(member.op)


def _attributes(chain: Sequence[_Member], operands: Sequence[_Operand]) -> Attributes:
    """Returns the attributes of the joined layer, with a statement for each layer of the chain."""
    names = dict(zip(operands, OPERANDS, strict=False))
    statements: list[str] = []
    for member in chain:
        given = tuple(names[pair] for pair in member.operands)
        name = f"x{len(statements)}"
        *named, value = rename(member.formula.text, given, f"{name}_")
        statements += named
        if not value.isidentifier():
            statements.append(f"{name} = {value}")
            value = name
        names[member.result, None] = value
    if statements[-1:] and statements[-1].startswith(f"{value} = "):
        value = statements.pop().removeprefix(f"{value} = ")
    statements.append(value)
    scales = [*(scale for _, scale in operands), chain[-1].formula.result.scale]
    return {
        EXPRESSION: "; ".join(statements),
        LAYERS: "+".join(member.title for member in chain),
        **scale_attributes(scales),
    }
