"""The IR level IE: the ops of a model on tensors.

The ops are layers, constants, and ops that return shapes as values.

    %r = IE.Layer(%a, %b)[%shape_of_a, %shape_of_b][%shape_of_r] {axis = 1 : i64} : types -> types

The first brackets contain shapes of inputs. The second brackets contain shapes of outputs, if these shapes are
computed before the layer runs. A layer that computes the shapes of its outputs itself returns these shapes after
the outputs.

    %output = IE.CustomBinaryLayer VPUIP.OCL from %bin_code
        (%input : tensor<1x16x100x100xf16>, %weights : tensor<32x16x3x3xf16>)
        -> tensor<1x32x100x100xf16>
        {input_layouts = [#NHWC, #OYXI], output_layouts = [#NHWC], VPUIP.max_num_shaves = 8}

The code of a custom binary layer is a constant with precompiled code. The attributes of the layer are requirements
(see `tensor_requirements.py`), and settings for later levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

from xdsl.dialects.builtin import AnyTensorTypeConstr, DenseArrayBase, StringAttr, TensorType, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from litert.core.element_type import ElementType
from vendor_reference.compiler.ir.assembly import (
    parse_binary,
    parse_types,
    print_attributes,
    print_binary,
    print_types,
)
from vendor_reference.compiler.ir.kernel_attribute import read_max_num_shaves
from vendor_reference.compiler.ir.types import (
    Order,
    element_type_of,
    order_of,
    shape_of,
    with_element_type,
    with_order,
)
from vendor_reference.compiler.ir.verification import check_count, check_tensors, verified
from vendor_reference.compiler.levels.layer import LayerOp, LayoutAgnostic, SameShapes
from vendor_reference.compiler.levels.values import AnyConstantOp, AnyShapeOfOp
from vendor_reference.compiler.tensor_requirements import (
    Requirements,
    check_requirements,
    read_requirements,
)


@irdl_op_definition
class ConstantOp(AnyConstantOp):
    """A constant tensor (`IE.Constant`)."""

    name = "IE.Constant"

    def verify_(self) -> None:
        check_tensors("output", [self.output.type])
        super().verify_()


_ONE_TO_ONE = {
    "operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 0, 0]),
    "resultSegmentSizes": DenseArrayBase.from_list(i32, [1, 0]),
}
"""The xDSL properties of a layer with one input tensor, one output tensor, and no shapes."""


_Transfer = TypeVar("_Transfer", bound="TransferOp")


class TransferOp(LayerOp):
    """A layer that copies its input to another order, to another element type, or to another buffer."""

    KEEPS_ELEMENTS: ClassVar[bool] = True
    KEEPS_ORDER: ClassVar[bool] = True

    @classmethod
    def of(cls: type[_Transfer], value: SSAValue, result: Attribute) -> _Transfer:
        """Returns the op for a result of type `result`; this method takes half as long as the constructor."""
        made: _Transfer = cls.create(
            operands=[value], result_types=[result], properties=dict(_ONE_TO_ONE)
        )
        return made

    @classmethod
    def check_types(cls, inputs: Sequence[Attribute], outputs: Sequence[Attribute]) -> None:
        check_count("input", len(inputs), 1)
        check_count("output", len(outputs), 1)
        source, target = inputs[0], outputs[0]
        if shape_of(source) != shape_of(target):
            raise VerifyException(
                f"the shape must not change, but {shape_of(source)} becomes {shape_of(target)}"
            )
        if cls.KEEPS_ELEMENTS and element_type_of(source) is not element_type_of(target):
            raise VerifyException(
                f"the element type must not change, but {source} becomes {target}"
            )
        if cls.KEEPS_ORDER and order_of(source) != order_of(target):
            raise VerifyException(f"the layout must not change, but {source} becomes {target}")


@irdl_op_definition
class ReorderOp(TransferOp):
    """`%1 = IE.Reorder(%0) : tensor<2x3xf16> -> tensor<2x3xf16, #YX>`: copies a tensor to another order."""

    name = "IE.Reorder"
    KEEPS_ORDER: ClassVar[bool] = False
    traits = traits_def(SameShapes())

    @classmethod
    def to(cls, value: SSAValue, order: Order | None) -> ReorderOp:
        """Returns a reorder of a tensor."""
        assert isinstance(value.type, TensorType)
        return cls.of(value, with_order(value.type, order))

    def requirements(self) -> Requirements:
        return Requirements.of_layouts(
            [order_of(self.inputs[0].type)], [order_of(self.outputs[0].type)]
        )


@irdl_op_definition
class ConvertOp(TransferOp):
    """`%1 = IE.Convert(%0) : tensor<4xf32> -> tensor<4xf16>`: converts the elements to another type."""

    name = "IE.Convert"
    KEEPS_ELEMENTS: ClassVar[bool] = False
    traits = traits_def(LayoutAgnostic(), SameShapes())

    @classmethod
    def to(cls, value: SSAValue, element_type: ElementType) -> ConvertOp:
        """Returns a conversion of a tensor."""
        assert isinstance(value.type, TensorType)
        return cls.of(value, with_element_type(value.type, element_type))


@irdl_op_definition
class CopyOp(TransferOp):
    """`%1 = IE.Copy(%0) : tensor<4xf32> -> tensor<4xf32>`: copies a constant or an input to an output."""

    name = "IE.Copy"
    traits = traits_def(LayoutAgnostic(), SameShapes())


@irdl_op_definition
class ActualShapeOfOp(AnyShapeOfOp):
    """Returns the run-time shape of a tensor whose type has the largest shape.

    `%s = IE.ActualShapeOf %t : tensor<100x3xf16> -> !shape.shape`
    """

    name = "IE.ActualShapeOf"


@irdl_op_definition
class CustomBinaryLayerOp(IRDLOperation):
    """A layer with precompiled code; `task` is the kind of task to which the layer is lowered: `OCL` or `CPP`."""

    name = "IE.CustomBinaryLayer"
    task = prop_def(StringAttr)
    code = operand_def(AnyTensorTypeConstr)
    inputs = var_operand_def()
    outputs = var_result_def()
    traits = traits_def(Pure())

    def __init__(
        self,
        task: str,
        code: SSAValue,
        inputs: Sequence[SSAValue],
        outputs: Sequence[Attribute],
        attributes: Mapping[str, Attribute],
    ) -> None:
        super().__init__(
            operands=[code, inputs],
            result_types=[outputs],
            properties={"task": StringAttr(task)},
            attributes=dict(attributes),
        )

    def requirements(self) -> Requirements:
        """Returns the layer's requirements for its tensors."""
        return read_requirements(self.attributes, len(self.inputs), len(self.outputs), prefix="")

    def verify_(self) -> None:
        check_tensors("input", self.inputs.types)
        check_tensors("output", self.outputs.types)
        if not self.outputs:
            raise VerifyException("the layer has no outputs")
        asked = verified(self.requirements)
        types = (self.inputs.types, self.outputs.types)
        verified(lambda: check_requirements(asked, *types, self.name))
        verified(lambda: read_max_num_shaves(self.attributes))

    @classmethod
    def parse(cls, parser: Parser) -> CustomBinaryLayerOp:
        task, code = parse_binary(parser)

        def operand() -> SSAValue:
            name = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            return parser.resolve_operand(name, parser.parse_type())

        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, operand)
        parser.parse_punctuation("->")
        outputs = parse_types(parser)
        return cls(task, code, inputs, outputs, parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        print_binary(printer, self.task.data, self.code)
        printer.print_string("(")

        def operand(value: SSAValue) -> None:
            printer.print_ssa_value(value)
            printer.print_string(" : ")
            printer.print_attribute(value.type)

        printer.print_list(self.inputs, operand)
        printer.print_string(") -> ")
        print_types(printer, self.outputs.types)
        print_attributes(printer, self.attributes)


OPS = (ConstantOp, ActualShapeOfOp, CustomBinaryLayerOp)
LAYERS = (ReorderOp, ConvertOp, CopyOp)
