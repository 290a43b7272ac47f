"""`IERT.CustomBinaryLayer`: a layer whose code is compiled ahead, on buffers.

IERT.CustomBinaryLayer VPUIP.OCL from %bin_code (%input, %weights, %output) {VPUIP.max_num_shaves = 8}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from vendor_reference.compiler.ir.assembly import (
    number,
    parse_names,
    parse_task,
    parse_values,
    print_attributes,
    print_values,
    take_number,
)
from vendor_reference.compiler.ir.kernel_attribute import read_max_num_shaves
from vendor_reference.compiler.ir.verification import check_memrefs, verified

_NUM_OUTPUTS = "num_outputs"
_NUM_SCRATCH = "num_scratch"


@irdl_op_definition
class BufferCustomBinaryLayerOp(IRDLOperation):
    """A precompiled layer; `task` is the kind of task that it becomes: `OCL` or `CPP`."""

    name = "IERT.CustomBinaryLayer"
    task = prop_def(StringAttr)
    code = operand_def(base(MemRefType))
    inputs = var_operand_def()
    outputs = var_operand_def()
    scratch = var_operand_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        task: str,
        code: SSAValue,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        attributes: Mapping[str, Attribute],
        scratch: Sequence[SSAValue] = (),
    ) -> None:
        super().__init__(
            operands=[code, inputs, outputs, scratch],
            properties={"task": StringAttr(task)},
            attributes=dict(attributes),
        )

    def verify_(self) -> None:
        check_memrefs("input", self.inputs.types)
        check_memrefs("output", self.outputs.types)
        check_memrefs("scratch", self.scratch.types)
        if not self.outputs:
            raise VerifyException("a layer without outputs")
        verified(lambda: read_max_num_shaves(self.attributes))

    @classmethod
    def parse(cls, parser: Parser) -> BufferCustomBinaryLayerOp:
        task = parse_task(parser)
        parser.parse_keyword("from")
        (code,) = parse_values(parser, [parser.parse_unresolved_operand()])
        buffers = parse_values(parser, parse_names(parser))
        attributes = parser.parse_optional_attr_dict()
        rest = len(buffers) - take_number(parser, attributes, _NUM_SCRATCH, 0, len(buffers))
        num_inputs = rest - take_number(parser, attributes, _NUM_OUTPUTS, min(1, rest), rest)
        inputs, outputs = buffers[:num_inputs], buffers[num_inputs:rest]
        return cls(task, code, inputs, outputs, attributes, buffers[rest:])

    def print(self, printer: Printer) -> None:
        printer.print_string(f" VPUIP.{self.task.data} from ")
        printer.print_ssa_value(self.code)
        printer.print_string(" ")
        print_values(printer, [*self.inputs, *self.outputs, *self.scratch])
        attributes = dict(self.attributes)
        if len(self.outputs) != 1:
            attributes[_NUM_OUTPUTS] = number(len(self.outputs))
        if self.scratch:
            attributes[_NUM_SCRATCH] = number(len(self.scratch))
        print_attributes(printer, attributes)
