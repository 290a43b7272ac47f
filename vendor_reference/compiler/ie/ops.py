"""Ops of IE that are there before any op library: constants, reorders, conversions, shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    TensorType,
    i32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    traits_def,
)
from xdsl.utils.exceptions import VerifyException

from litert.core.element_type import ElementType
from vendor_reference.compiler.ie.layer_op import LayerOp, LayoutAgnostic, SameShapes
from vendor_reference.compiler.ir.constant import AnyConstantOp
from vendor_reference.compiler.ir.shape import AnyShapeOfOp
from vendor_reference.compiler.ir.types import (
    Order,
    element_type_of,
    order_of,
    shape_of,
    with_element_type,
    with_order,
)
from vendor_reference.compiler.ir.verification import check_count, check_tensors
from vendor_reference.compiler.requirements import Requirements


@irdl_op_definition
class ConstantOp(AnyConstantOp):
    """A constant tensor."""

    name = "IE.Constant"

    def verify_(self) -> None:
        check_tensors("output", [self.output.type])
        super().verify_()


_ONE_TO_ONE = {
    "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 0, 0]),
    "resultSegmentSizes": DenseArrayBase.from_list(i32, [1, 0]),
}
"""The properties of a layer of one input and one output, neither of them a shape."""


_Transfer = TypeVar("_Transfer", bound="TransferOp")


class TransferOp(LayerOp):
    """A layer that writes what it reads: in another order, as other elements, or to another place."""

    @classmethod
    def of(cls: type[_Transfer], value: SSAValue, result: Attribute) -> _Transfer:
        """The op that makes a tensor of type `result`; in half the time that the constructor takes."""
        made: _Transfer = cls.create(
            operands=[value], result_types=[result], properties=dict(_ONE_TO_ONE)
        )
        return made


@irdl_op_definition
class ReorderOp(TransferOp):
    """`%1 = IE.Reorder(%0) : tensor<2x3xf16> -> tensor<2x3xf16, #YX>`: the same tensor in another order."""

    name = "IE.Reorder"
    traits = traits_def(SameShapes())

    @classmethod
    def to(cls, value: SSAValue, order: Order | None) -> ReorderOp:
        """A reorder of a tensor."""
        assert isinstance(value.type, TensorType)
        return cls.of(value, with_order(value.type, order))

    def requirements(self) -> Requirements:
        return Requirements.of_layouts(
            [order_of(self.inputs[0].type)], [order_of(self.outputs[0].type)]
        )

    @classmethod
    def check_types(cls, inputs: Sequence[Attribute], outputs: Sequence[Attribute]) -> None:
        check_same(inputs, outputs, elements=True)


@irdl_op_definition
class ConvertOp(TransferOp):
    """`%1 = IE.Convert(%0) : tensor<4xf32> -> tensor<4xf16>`: the same numbers as other elements."""

    name = "IE.Convert"
    traits = traits_def(LayoutAgnostic(), SameShapes())

    @classmethod
    def to(cls, value: SSAValue, element_type: ElementType) -> ConvertOp:
        """A conversion of a tensor."""
        assert isinstance(value.type, TensorType)
        return cls.of(value, with_element_type(value.type, element_type))

    @classmethod
    def check_types(cls, inputs: Sequence[Attribute], outputs: Sequence[Attribute]) -> None:
        check_same(inputs, outputs, order=True)


@irdl_op_definition
class CopyOp(TransferOp):
    """`%1 = IE.Copy(%0) : tensor<4xf32> -> tensor<4xf32>`: hands out what is a constant, or an input."""

    name = "IE.Copy"
    traits = traits_def(LayoutAgnostic(), SameShapes())

    @classmethod
    def check_types(cls, inputs: Sequence[Attribute], outputs: Sequence[Attribute]) -> None:
        check_same(inputs, outputs, elements=True, order=True)


@irdl_op_definition
class ActualShapeOfOp(AnyShapeOfOp):
    """`%s = IE.ActualShapeOf %t : tensor<100x3xf16> -> !shape.shape`: what a bounded tensor really holds."""

    name = "IE.ActualShapeOf"


def check_same(
    inputs: Sequence[Attribute],
    outputs: Sequence[Attribute],
    *,
    elements: bool = False,
    order: bool = False,
) -> None:
    """One input and one output, which agree in shape and what else is asked for.

    Raises:
      VerifyException: if not.
    """
    check_count("inputs", len(inputs), 1)
    check_count("outputs", len(outputs), 1)
    source, target = inputs[0], outputs[0]
    if shape_of(source) != shape_of(target):
        raise VerifyException(f"shape {shape_of(source)} becomes {shape_of(target)}")
    if elements and element_type_of(source) is not element_type_of(target):
        raise VerifyException(f"elements change: {source} becomes {target}")
    if order and order_of(source) != order_of(target):
        raise VerifyException(f"the layout changes: {source} becomes {target}")
