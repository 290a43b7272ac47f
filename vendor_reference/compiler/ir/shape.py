"""The `shape` dialect, as far as the levels use it: shapes of tensors as values of their own."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyTensorTypeConstr
from xdsl.ir import Dialect, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure


@irdl_attr_definition
class ShapeType(ParametrizedAttribute, TypeAttribute):
    """`!shape.shape`: the actual shape of a tensor."""

    name = "shape.shape"


class AnyShapeOfOp(IRDLOperation):
    """The shape of a tensor, as a value."""

    source = operand_def(AnyTensorTypeConstr)
    shape = result_def(ShapeType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($shape)"

    def __init__(self, source: SSAValue) -> None:
        super().__init__(operands=[source], result_types=[ShapeType()])


@irdl_op_definition
class ShapeOfOp(AnyShapeOfOp):
    """`%s = shape.shape_of %t : tensor<?x3xf16> -> !shape.shape`."""

    name = "shape.shape_of"


Shape = Dialect("shape", [ShapeOfOp], [ShapeType])
