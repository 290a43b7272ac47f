"""`IE.CustomBinaryLayer`: a layer whose code is compiled ahead, and a constant operand.

    %output = IE.CustomBinaryLayer VPUIP.OCL from %bin_code
        (%input : tensor<1x16x100x100xf16>, %weights : tensor<32x16x3x3xf16>)
        -> tensor<1x32x100x100xf16>
        {input_layouts = [#NHWC, #OYXI], output_layouts = [#NHWC], VPUIP.max_num_shaves = 8}

Its attributes are requirements (see `requirements.py`), and what later levels use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import AnyTensorTypeConstr, StringAttr
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

from vendor_reference.compiler.ir.assembly import (
    parse_task,
    parse_types,
    parse_values,
    print_attributes,
    print_types,
)
from vendor_reference.compiler.ir.kernel_attribute import read_max_num_shaves
from vendor_reference.compiler.ir.verification import check_tensors, verified
from vendor_reference.compiler.requirements import Requirements, read_requirements


@irdl_op_definition
class CustomBinaryLayerOp(IRDLOperation):
    """A precompiled layer; `task` is the kind of task that it becomes: `OCL` or `CPP`."""

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
        """What it asks of its tensors."""
        return read_requirements(self.attributes, len(self.inputs), len(self.outputs), prefix="")

    def verify_(self) -> None:
        check_tensors("input", self.inputs.types)
        check_tensors("output", self.outputs.types)
        if not self.outputs:
            raise VerifyException("a layer without outputs")
        verified(self.requirements)
        verified(lambda: read_max_num_shaves(self.attributes))

    @classmethod
    def parse(cls, parser: Parser) -> CustomBinaryLayerOp:
        task = parse_task(parser)
        parser.parse_keyword("from")
        (code,) = parse_values(parser, [parser.parse_unresolved_operand()])

        def operand() -> SSAValue:
            name = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            return parser.resolve_operand(name, parser.parse_type())

        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, operand)
        parser.parse_punctuation("->")
        outputs = parse_types(parser)
        return cls(task, code, inputs, outputs, parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        printer.print_string(f" VPUIP.{self.task.data} from ")
        printer.print_ssa_value(self.code)
        printer.print_string(" (")

        def operand(value: SSAValue) -> None:
            printer.print_ssa_value(value)
            printer.print_string(" : ")
            printer.print_attribute(value.type)

        printer.print_list(self.inputs, operand)
        printer.print_string(") -> ")
        print_types(printer, self.outputs.types)
        print_attributes(printer, self.attributes)
