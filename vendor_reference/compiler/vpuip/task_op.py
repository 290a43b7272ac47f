"""The NPU's tasks on VPUIP: one launch of a layer's kernel, in the order in which they run.

    VPUIP.OCL @Softsign (%in)[%shape_of_in] -> (%out)[%shape_of_out] scratch (%s)
        {global_size = array<i64: 4>, num_shaves = 4 : i64}
    VPUIP.OCL from %code (%in) -> (%out) {num_shaves = 8 : i64}

The symbol is the external function that holds the kernel; code that is compiled ahead is an operand instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, MemRefType, SymbolRefAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    opt_operand_def,
    opt_prop_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from vendor_reference.compiler.ie.layer_op import (
    DYNAMIC_INPUTS,
    DYNAMIC_OUTPUTS,
    check_ports,
    read_ports,
)
from vendor_reference.compiler.ir.assembly import (
    parse_names,
    parse_shape_names,
    parse_values,
    print_attributes,
    print_values,
)
from vendor_reference.compiler.ir.edits import segment_sizes
from vendor_reference.compiler.ir.verification import check_memrefs

GLOBAL_SIZE = "global_size"
LOCAL_SIZE = "local_size"
NUM_SHAVES = "num_shaves"


class TaskOp(IRDLOperation):
    """A task; its attributes are work sizes, the shaves that it is spread over, and what else its layer had."""

    code = opt_operand_def(base(MemRefType))
    inputs = var_operand_def()
    outputs = var_operand_def()
    scratch = var_operand_def()
    input_shapes = var_operand_def()
    output_shapes = var_operand_def()
    callee = opt_prop_def(SymbolRefAttr)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        layer: str | SymbolRefAttr | SSAValue,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        attributes: Mapping[str, Attribute],
        scratch: Sequence[SSAValue] = (),
        input_shapes: Sequence[SSAValue] = (),
        output_shapes: Sequence[SSAValue] = (),
    ) -> None:
        """Makes a task; `layer` is a function's name, or code."""
        code = [layer] if isinstance(layer, SSAValue) else []
        groups = (code, inputs, outputs, scratch, input_shapes, output_shapes)
        properties = segment_sizes(*map(len, groups))
        if not isinstance(layer, SSAValue):
            properties["callee"] = SymbolRefAttr(layer) if isinstance(layer, str) else layer
        Operation.__init__(
            self,
            operands=[value for group in groups for value in group],
            properties=properties,
            attributes=attributes,
        )

    def dynamic_inputs(self) -> Sequence[int]:
        """The inputs that `input_shapes` belong to."""
        return read_ports(self.attributes, DYNAMIC_INPUTS, len(self.input_shapes))

    def dynamic_outputs(self) -> Sequence[int]:
        """The outputs that `output_shapes` belong to."""
        return read_ports(self.attributes, DYNAMIC_OUTPUTS, len(self.output_shapes))

    def numbers(self, name: str) -> tuple[int, ...]:
        """A work size; empty where the task has none."""
        attribute = self.attributes.get(name)
        if not isinstance(attribute, DenseArrayBase):
            return ()
        return tuple(int(value) for value in attribute.get_values())

    def num_shaves(self) -> int:
        """How many vector processors it is spread over."""
        attribute = self.attributes.get(NUM_SHAVES)
        return int(attribute.value.data) if isinstance(attribute, IntegerAttr) else 1

    def verify_(self) -> None:
        if (self.code is None) == (self.callee is None):
            raise VerifyException("a task runs a function, or code: one of them")
        check_memrefs("input", self.inputs.types)
        check_memrefs("output", self.outputs.types)
        check_memrefs("scratch", self.scratch.types)
        check_memrefs("shape", [*self.input_shapes.types, *self.output_shapes.types])
        if self.outputs:  # else a kernel of shapes alone
            check_ports(self.attributes, DYNAMIC_INPUTS, len(self.input_shapes), len(self.inputs))
            counts = (len(self.output_shapes), len(self.outputs))
            check_ports(self.attributes, DYNAMIC_OUTPUTS, *counts)
        for name in (GLOBAL_SIZE, LOCAL_SIZE):
            self._check_size(name)
        if self.numbers(LOCAL_SIZE) and len(self.numbers(LOCAL_SIZE)) != len(
            self.numbers(GLOBAL_SIZE)
        ):
            raise VerifyException(
                f"{len(self.numbers(LOCAL_SIZE))} local sizes for {len(self.numbers(GLOBAL_SIZE))} global sizes"
            )
        shaves = self.attributes.get(NUM_SHAVES)
        if shaves is not None and (not isinstance(shaves, IntegerAttr) or shaves.value.data < 1):
            raise VerifyException(f"{NUM_SHAVES} is {shaves}, expected a number from 1 on")

    def _check_size(self, name: str) -> None:
        attribute = self.attributes.get(name)
        if attribute is None:
            return
        numbers = self.numbers(name)
        if not 1 <= len(numbers) <= 3 or min(numbers) < 0:
            raise VerifyException(f"{name} is {attribute}, expected 1 to 3 numbers from 0 on")

    @classmethod
    def parse(cls, parser: Parser) -> TaskOp:
        layer: str | SSAValue
        if parser.parse_optional_keyword("from") is not None:
            (layer,) = parse_values(parser, [parser.parse_unresolved_operand()])
        else:
            layer = parser.parse_symbol_name().data
        inputs = parse_values(parser, parse_names(parser))
        input_shapes = parse_values(parser, parse_shape_names(parser) or [])
        parser.parse_punctuation("->")
        outputs = parse_values(parser, parse_names(parser))
        output_shapes = parse_values(parser, parse_shape_names(parser) or [])
        has_scratch = parser.parse_optional_keyword("scratch") is not None
        scratch = parse_values(parser, parse_names(parser)) if has_scratch else []
        attributes = parser.parse_optional_attr_dict()
        return cls(layer, inputs, outputs, attributes, scratch, input_shapes, output_shapes)

    def print(self, printer: Printer) -> None:
        if self.code is not None:
            printer.print_string(" from ")
            printer.print_ssa_value(self.code)
        elif self.callee is not None:
            printer.print_string(" ")
            printer.print_symbol_name(self.callee.root_reference.data)
        printer.print_string(" ")
        self._print_group(printer, self.inputs, self.input_shapes)
        printer.print_string(" -> ")
        self._print_group(printer, self.outputs, self.output_shapes)
        if self.scratch:
            printer.print_string(" scratch ")
            print_values(printer, self.scratch)
        print_attributes(printer, self.attributes)

    @staticmethod
    def _print_group(
        printer: Printer, buffers: Sequence[SSAValue], shapes: Sequence[SSAValue]
    ) -> None:
        print_values(printer, buffers)
        if shapes:
            print_values(printer, shapes, "[]")


@irdl_op_definition
class OclOp(TaskOp):
    """An OpenCL kernel."""

    name = "VPUIP.OCL"


@irdl_op_definition
class CppOp(TaskOp):
    """A function in a shared object."""

    name = "VPUIP.CPP"
