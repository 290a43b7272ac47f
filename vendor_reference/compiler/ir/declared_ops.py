"""Declared ops: ops that the library does not have.

A function with the op's name declares the op, like the function of a custom layer.

    func.func private @Layer1(tensor<?x3xf16>) -> tensor<?x6xf16>
        attributes {VPUIP.task = "OCL", VPUIP.kernel = {title = "Layer1", ...}}

    %1, %t = IE.Layer1(%0)[%s] : tensor<?x3xf16>, !shape.shape -> tensor<?x6xf16>, !shape.shape
    IERT.Layer1(%0, %1)[%s, %t]

A declared op is a call of its function (`func.call`) that is written like an op. Therefore, passes treat the op
like a call of a custom layer. The attribute `IE.is_op` of the function says that its calls are printed as ops. The
types of the function are taken from its ops.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, SymbolRefAttr, TensorType, UnitAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from litert.core.counts import count_text, out_of_range
from vendor_reference.compiler.ir.assembly import number, parse_layer, print_layer
from vendor_reference.compiler.ir.buffer_groups import BufferGroups, parse_groups, print_groups
from vendor_reference.compiler.ir.edits import call, settle_called_types
from vendor_reference.compiler.ir.kernel_attribute import KERNEL, count_outputs, read_kernel
from vendor_reference.compiler.ir.names import functions_of
from vendor_reference.compiler.ir.shape_attributes import (
    DYNAMIC_INPUTS,
    DYNAMIC_OUTPUTS,
    found_by_kernel,
    read_ports,
)
from vendor_reference.compiler.ir.types import ShapeType
from vendor_reference.compiler.ir.verification import check_count, check_memrefs, check_tensors
from vendor_reference.custom_layers.kernel_spec import InternalArgument, KernelSpec

IS_OP = "IE.is_op"
_NAME = re.compile(r"(IE|IERT)\.([A-Za-z_][\w$.]*)", re.ASCII)
DECLARE = (
    "Declare the op with: func.func private @{}(tensor<...>) -> tensor<...> attributes "
    '{{VPUIP.task = "OCL", VPUIP.kernel = {{...}}, IE.input_layouts = [...]}}.'
)


@dataclass(frozen=True, slots=True)
class DeclaredFunction:
    """A function that declares an op, with the numbers of its inputs and outputs.

    Attributes:
      declared: Numbers of inputs and outputs that the function declares on tensors; 0, 0 for a function on
        buffers.
      num_outputs: Number of buffers that the layer writes; 1 by default.
      found: Indices of the outputs whose shapes the kernel computes.
    """

    function: FuncOp
    declared: tuple[int, int]
    num_outputs: int
    num_scratch: int
    found: Container[int]

    @classmethod
    def of(cls, function: FuncOp) -> DeclaredFunction:
        """Counts the inputs and outputs of a function."""
        attributes, types = function.attributes, function.function_type
        spec = read_kernel(attributes) if KERNEL in attributes else KernelSpec()
        return cls(
            function,
            (len(_tensor_types(types.inputs.data)), len(_tensor_types(types.outputs.data))),
            count_outputs(attributes, spec) or 1,
            sum(isinstance(a, InternalArgument) for a in spec.arguments),
            found_by_kernel(attributes),
        )

    def count_found(self) -> int:
        """Returns the number of shape values that the kernel computes."""
        ports = read_ports(self.function.attributes, DYNAMIC_OUTPUTS, 0)
        return sum(port in self.found for port in ports)


@dataclass(frozen=True, slots=True)
class DeclaredOp:
    """A declared op as parsed from text.

    The operands of its call have the order of the text; on tensors, they do not include outputs.

    Attributes:
      start: Position of the op in the text, in characters.
    """

    call: CallOp
    groups: BufferGroups
    is_on_buffers: bool
    start: int

    def settle(self, declared: DeclaredFunction) -> None:
        """Puts the op's operands into the order that its function declares."""
        groups, function = self.groups, declared.function
        outputs = groups.outputs or _tensors(self.call.results)
        check = check_memrefs if self.is_on_buffers else check_tensors
        check("input", [value.type for value in groups.inputs])
        check("output", [value.type for value in outputs])
        if not outputs:
            raise VerifyException("the layer has no outputs")
        _check_declared(declared.declared, len(groups.inputs), len(outputs))
        function.attributes[IS_OP] = UnitAttr()
        shapes = len(groups.output_shapes) + sum(
            isinstance(result.type, ShapeType) for result in self.call.results
        )
        if groups.input_shapes or shapes:
            _set_ports(function, DYNAMIC_INPUTS, len(groups.input_shapes), len(groups.inputs))
            _set_ports(function, DYNAMIC_OUTPUTS, shapes, len(outputs))
        if self.is_on_buffers:
            check_count("output", len(outputs), declared.num_outputs)
            num_given = shapes - declared.count_found()
            given, own = groups.output_shapes[:num_given], groups.output_shapes[num_given:]
            parts = (groups.inputs, groups.input_shapes, given, outputs, own, groups.scratch)
            self.call.operands = [value for part in parts for value in part]


def find_declared_name(name: str) -> str | None:
    """Returns the name of the function that declares an op; None if a layer cannot have the op's name."""
    match = _NAME.fullmatch(name)
    return match[2] if match else None


def parse_declared_op(parser: Parser, name: str, symbol: str, start: int) -> DeclaredOp:
    """Parses the rest of a declared op, after its name; its function may be anywhere in the text."""
    callee = SymbolRefAttr(symbol)
    is_on_buffers = name.startswith("IERT.")
    if is_on_buffers:
        groups, attributes = parse_groups(parser)
        shapes = (*groups.input_shapes, *groups.output_shapes)
        operands = (*groups.inputs, *groups.outputs, *groups.scratch, *shapes)
        made = call(callee, operands, [])
    else:
        text = parse_layer(parser)
        attributes = text.attributes
        operands = (*text.inputs, *text.input_shapes, *text.output_shapes)
        results = [*text.outputs, *[ShapeType()] * text.num_result_shapes]
        made = call(callee, operands, results)
        groups = BufferGroups(text.inputs, (), (), text.input_shapes, text.output_shapes)
    made.attributes.update(attributes)
    return DeclaredOp(made, groups, is_on_buffers, start)


def settle_declared_types(module: ModuleOp) -> None:
    """Gives each declaring function the types of its ops; ops with other types get a function of their own."""
    settle_called_types(module, declared_functions(module))


def declared_functions(module: ModuleOp) -> Mapping[str, DeclaredFunction]:
    """Returns the functions whose calls are printed as ops."""
    return {
        name: DeclaredFunction.of(function)
        for name, function in functions_of(module).items()
        if function.is_declaration and IS_OP in function.attributes
    }


def print_declared_op(printer: Printer, op: CallOp, declared: DeclaredFunction) -> None:
    """Prints a call in the format of an op, without the op's results."""
    name, operands = op.callee.root_reference.data, op.arguments
    num_read = len(read_ports(declared.function.attributes, DYNAMIC_INPUTS, 0))
    if op.results:
        printer.print_string(f"IE.{name}")
        shapes = [value for value in operands if isinstance(value.type, ShapeType)]
        parts = (_tensors(operands), shapes[:num_read], shapes[num_read:])
        print_layer(printer, *parts, op.attributes, op.results)
    else:
        printer.print_string(f"IERT.{name}")
        print_groups(printer, _groups(declared, operands, num_read), op.attributes)


def _groups(
    declared: DeclaredFunction, operands: Sequence[SSAValue], num_read: int
) -> BufferGroups:
    num_own = declared.count_found()
    ports = read_ports(declared.function.attributes, DYNAMIC_OUTPUTS, 0)
    num_given = len(ports) - num_own
    counts = (num_read, num_given, declared.num_outputs, num_own, declared.num_scratch)
    values = list(operands)
    parts = [values[: len(values) - sum(counts)]]
    for count in counts:
        first = sum(map(len, parts))
        parts.append(values[first : first + count])
    inputs, read, given, outputs, own, scratch = parts
    return BufferGroups(inputs, outputs, scratch, read, [*given, *own])


def _set_ports(function: FuncOp, name: str, count: int, tensors: int) -> None:
    """Stores to which inputs or outputs the shapes belong; by default, these are the first inputs or outputs."""
    ports = read_ports(function.attributes, name, count)
    if len(ports) != count:
        raise VerifyException(
            f"the op has {count_text(count, 'shape operand')}, but in the op's function, the attribute "
            f"{name} = {list(ports)} has {count_text(len(ports), 'element')}: each shape needs one element"
        )
    if wrong := [port for port in ports if not 0 <= port < tensors]:
        raise VerifyException(
            f"the op's function has the attribute {name} = {list(ports)}, but "
            f"{out_of_range('tensor', wrong[0], tensors)}"
        )
    function.attributes[name] = ArrayAttr([number(port) for port in ports])


def _check_declared(declared: tuple[int, int], inputs: int, outputs: int) -> None:
    """Checks that a function on tensors has as many inputs and outputs as the op."""
    if declared not in ((0, 0), (inputs, outputs)):
        raise VerifyException(
            f"the op has {count_text(inputs, 'input')} and {count_text(outputs, 'output')}, but the function "
            f"declares {count_text(declared[0], 'input')} and {count_text(declared[1], 'output')}"
        )


def _tensors(values: Sequence[SSAValue]) -> list[SSAValue]:
    return [value for value in values if not isinstance(value.type, ShapeType)]


def _tensor_types(types: Sequence[Attribute]) -> list[Attribute]:
    return [ir_type for ir_type in types if isinstance(ir_type, TensorType)]
