"""Ops of IE that are there before any op library: constants, reorders, conversions, shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.dialects.builtin import (
    AnyTensorTypeConstr,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from litert.core.element_type import ElementType
from vendor_reference.compiler.ie.layer_op import LayerOp, LayoutAgnostic
from vendor_reference.compiler.ir.checks import check_count, check_tensors
from vendor_reference.compiler.ir.constant import AnyConstantOp
from vendor_reference.compiler.ir.shape import ShapeType
from vendor_reference.compiler.ir.types import (
    IrType,
    Order,
    element_type_of,
    order_of,
    shape_of,
    with_element_type,
    with_order,
)
from vendor_reference.compiler.kernel_spec import KernelSpec, TensorArgument
from vendor_reference.compiler.requirements import Requirements

_UNSIGNED = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}


@irdl_op_definition
class ConstantOp(AnyConstantOp):
    """A constant tensor."""

    name = "IE.Constant"

    def verify_(self) -> None:
        check_tensors("output", [self.output.type])
        super().verify_()


@irdl_op_definition
class ReorderOp(LayerOp):
    """`%1 = IE.Reorder(%0) : tensor<2x3xf16> -> tensor<2x3xf16, #YX>`: the same tensor in another order."""

    name = "IE.Reorder"

    @classmethod
    def to(cls, value: SSAValue, order: Order | None) -> ReorderOp:
        """A reorder of a tensor."""
        assert isinstance(value.type, TensorType)
        return cls([value], [with_order(value.type, order)])

    def requirements(self) -> Requirements:
        return Requirements.of_layouts(
            [order_of(self.inputs[0].type)], [order_of(self.outputs[0].type)]
        )

    def verify_(self) -> None:
        super().verify_()
        check_same(self.inputs.types, self.outputs.types, elements=True)


@irdl_op_definition
class ConvertOp(LayerOp):
    """`%1 = IE.Convert(%0) : tensor<4xf32> -> tensor<4xf16>`: the same numbers as other elements."""

    name = "IE.Convert"
    traits = traits_def(LayoutAgnostic())

    @classmethod
    def to(cls, value: SSAValue, element_type: ElementType) -> ConvertOp:
        """A conversion of a tensor."""
        assert isinstance(value.type, TensorType)
        return cls([value], [with_element_type(value.type, element_type)])

    def verify_(self) -> None:
        super().verify_()
        check_same(self.inputs.types, self.outputs.types, order=True)


@irdl_op_definition
class CopyOp(LayerOp):
    """`%1 = IE.Copy(%0) : tensor<4xf32> -> tensor<4xf32>`: hands out what is a constant, or an input."""

    name = "IE.Copy"
    traits = traits_def(LayoutAgnostic())

    @classmethod
    def kernel_spec(
        cls,
        inputs: Sequence[IrType],
        outputs: Sequence[IrType],
        attributes: Mapping[str, Attribute],
    ) -> KernelSpec:
        c_type = _UNSIGNED[
            element_type_of(inputs[0]).bits
        ]  # a half is moved also where there is no fp16
        text = (
            f"__kernel void copy(__global const {c_type}* from, __global {c_type}* to)\n"
            "{\n    to[get_global_id(0)] = from[get_global_id(0)];\n}\n"
        )
        arguments = (TensorArgument(False, 0), TensorArgument(True, 0))
        return KernelSpec("Copy", arguments, text=text, entry="copy")

    def verify_(self) -> None:
        super().verify_()
        check_same(self.inputs.types, self.outputs.types, elements=True, order=True)


@irdl_op_definition
class ActualShapeOfOp(IRDLOperation):
    """`%s = IE.ActualShapeOf %t : tensor<100x3xf16> -> !shape.shape`: what a bounded tensor really holds."""

    name = "IE.ActualShapeOf"
    source = operand_def(AnyTensorTypeConstr)
    shape = result_def(ShapeType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($shape)"

    def __init__(self, source: SSAValue) -> None:
        super().__init__(operands=[source], result_types=[ShapeType()])


def check_same(
    inputs: Iterable[Attribute],
    outputs: Iterable[Attribute],
    *,
    elements: bool = False,
    order: bool = False,
) -> None:
    """One input and one output, which agree in shape and what else is asked for.

    Raises:
      VerifyException: if not.
    """
    sources, targets = list(inputs), list(outputs)
    check_count("inputs", len(sources), 1)
    check_count("outputs", len(targets), 1)
    source, target = sources[0], targets[0]
    if shape_of(source) != shape_of(target):
        raise VerifyException(f"shape {shape_of(source)} becomes {shape_of(target)}")
    if elements and element_type_of(source) is not element_type_of(target):
        raise VerifyException(f"elements change: {source} becomes {target}")
    if order and order_of(source) != order_of(target):
        raise VerifyException(f"the layout changes: {source} becomes {target}")
