"""What all layers on IERT are: buffers in, buffers out, in one list, as they are allocated outside.

    IERT.Layer(%a, %b, %r)[%shape_of_a, %shape_of_b, %shape_of_r] {axis = 1 : i64}

The last operand is the output, where `num_outputs` does not say otherwise; `num_scratch` buffers for one run stand
behind the outputs. Of the shapes, the first belong to inputs, as many as there are (or `num_input_shapes`), the
others to outputs. Each op of IE that is a layer has its counterpart here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from vendor_reference.compiler.ie.layer_op import (
    DYNAMIC_INPUTS,
    DYNAMIC_OUTPUTS,
    LayerOp,
    check_ports,
    read_ports,
)
from vendor_reference.compiler.ir.assembly import (
    number,
    parse_names,
    parse_shape_names,
    parse_values,
    print_attributes,
    print_values,
    take_number,
)
from vendor_reference.compiler.ir.verification import check_memrefs

_NUM_OUTPUTS = "num_outputs"
_NUM_SCRATCH = "num_scratch"
_NUM_INPUT_SHAPES = "num_input_shapes"


class BufferLayerOp(IRDLOperation):
    """A layer on buffers; `counterpart` makes its subclasses."""

    inputs = var_operand_def()
    outputs = var_operand_def()
    scratch = var_operand_def()
    input_shapes = var_operand_def()
    output_shapes = var_operand_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        attributes: Mapping[str, Attribute] | None = None,
        scratch: Sequence[SSAValue] = (),
        input_shapes: Sequence[SSAValue] = (),
        output_shapes: Sequence[SSAValue] = (),
    ) -> None:
        super().__init__(
            operands=[inputs, outputs, scratch, input_shapes, output_shapes],
            attributes=dict(attributes or {}),
        )

    @staticmethod
    def layer() -> type[LayerOp]:
        """The op of IE that it is the counterpart of."""
        raise NotImplementedError

    def dynamic_inputs(self) -> Sequence[int]:
        """The inputs that `input_shapes` belong to."""
        return read_ports(self.attributes, DYNAMIC_INPUTS, len(self.input_shapes))

    def dynamic_outputs(self) -> Sequence[int]:
        """The outputs that `output_shapes` belong to."""
        return read_ports(self.attributes, DYNAMIC_OUTPUTS, len(self.output_shapes))

    def verify_(self) -> None:
        check_memrefs("input", self.inputs.types)
        check_memrefs("output", self.outputs.types)
        check_memrefs("scratch", self.scratch.types)
        check_memrefs("shape", [*self.input_shapes.types, *self.output_shapes.types])
        if not self.outputs:
            raise VerifyException("a layer without outputs")
        check_ports(self.attributes, DYNAMIC_INPUTS, len(self.input_shapes), len(self.inputs))
        check_ports(self.attributes, DYNAMIC_OUTPUTS, len(self.output_shapes), len(self.outputs))
        self.layer().check_types(self.inputs.types, self.outputs.types)

    @classmethod
    def parse(cls, parser: Parser) -> BufferLayerOp:
        buffers = parse_values(parser, parse_names(parser))
        shapes = parse_values(parser, parse_shape_names(parser) or [])
        attributes = parser.parse_optional_attr_dict()
        num_scratch = take_number(parser, attributes, _NUM_SCRATCH, 0, len(buffers))
        rest = len(buffers) - num_scratch
        num_outputs = take_number(parser, attributes, _NUM_OUTPUTS, min(1, rest), rest)
        num_inputs = rest - num_outputs
        most = len(shapes)
        num_shapes = take_number(parser, attributes, _NUM_INPUT_SHAPES, min(num_inputs, most), most)
        return cls(
            buffers[:num_inputs],
            buffers[num_inputs:rest],
            attributes,
            buffers[rest:],
            shapes[:num_shapes],
            shapes[num_shapes:],
        )

    def print(self, printer: Printer) -> None:
        shapes = [*self.input_shapes, *self.output_shapes]
        print_values(printer, [*self.inputs, *self.outputs, *self.scratch])
        if shapes:
            print_values(printer, shapes, "[]")
        counts: dict[str, Attribute] = {}
        if len(self.outputs) != 1:
            counts[_NUM_OUTPUTS] = number(len(self.outputs))
        if self.scratch:
            counts[_NUM_SCRATCH] = number(len(self.scratch))
        if len(self.input_shapes) != min(len(self.inputs), len(shapes)):
            counts[_NUM_INPUT_SHAPES] = number(len(self.input_shapes))
        print_attributes(printer, {**self.attributes, **counts})


@cache
def counterpart(layer: type[LayerOp]) -> type[BufferLayerOp]:
    """The op of IERT for a layer of IE: `IERT.Add` for `IE.Add`."""
    name = layer.name.replace("IE.", "IERT.", 1)
    fields = {"name": name, "layer": staticmethod(lambda: layer), "__annotations__": {}}
    return irdl_op_definition(type(f"Buffer{layer.__name__}", (BufferLayerOp,), fields))
