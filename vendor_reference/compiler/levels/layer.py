"""Base classes of layers at all IR levels.

These classes handle groups of tensors or buffers, run-time shapes, and attributes.

By default, shapes belong to the first inputs and outputs, in order. The attributes `dynamic_inputs` and
`dynamic_outputs`, such as `[0, 2]`, give the indices of other inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, MemRefType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    IRDLOperation,
    base,
    opt_operand_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import OpTrait, Pure
from xdsl.utils.exceptions import VerifyException

from litert.core.counts import count_text, index_range
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.assembly import parse_layer, print_layer
from vendor_reference.compiler.ir.buffer_groups import BufferGroups
from vendor_reference.compiler.ir.edits import segment_sizes
from vendor_reference.compiler.ir.plain import plain_attribute, plain_value
from vendor_reference.compiler.ir.shape_attributes import (
    DYNAMIC_INPUTS,
    DYNAMIC_OUTPUTS,
    read_ports,
)
from vendor_reference.compiler.ir.types import IrType, ShapeType, shape_of
from vendor_reference.compiler.ir.verification import check_memrefs, check_tensors
from vendor_reference.compiler.library.dynamic_kernel import Sizes
from vendor_reference.compiler.tensor_requirements import Requirements
from vendor_reference.custom_layers.kernel_spec import KernelSpec

INPUT_SIZES = "input_sizes"
"""Attribute of a layer with run-time shapes: the sizes of each input, as numbers or names.

Inputs with the same shape value have the same names.
"""


class LayoutAgnostic(OpTrait):
    """Trait of a layer that accepts any layout, if inputs and outputs of the same shape have the same layout."""


class SharesMemory(OpTrait):
    """Trait of a layer whose output is input 0 in another shape.

    The layer has no kernel, and its output needs no memory.
    """


class SameShapes(OpTrait):
    """Trait of a layer whose outputs have the shape of that input which has the same unknown dimensions."""


class FindsShape(OpTrait):
    """Trait of a layer whose kernel computes the shapes of its outputs.

    The layer returns the shapes after the outputs.
    """


class LayerOp(IRDLOperation):
    """A layer on tensors.

    A builtin op is a subclass with a name, traits, a verifier and a kernel.
    """

    inputs = var_operand_def()
    input_shapes = var_operand_def(ShapeType)
    output_shapes = var_operand_def(ShapeType)
    outputs = var_result_def()
    result_shapes = var_result_def(ShapeType)

    irdl_options = (
        AttrSizedOperandSegments(as_property=True),
        AttrSizedResultSegments(as_property=True),
    )
    traits = traits_def(Pure())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[Attribute],
        attributes: Mapping[str, Attribute] | None = None,
        input_shapes: Sequence[SSAValue] = (),
        output_shapes: Sequence[SSAValue] = (),
        num_result_shapes: int = 0,
    ) -> None:
        """Makes a layer; `outputs` holds the types of the outputs."""
        super().__init__(
            operands=[inputs, input_shapes, output_shapes],
            result_types=[outputs, [ShapeType()] * num_result_shapes],
            attributes=dict(attributes or {}),
        )

    def requirements(self) -> Requirements:
        """Returns the layer's requirements for its tensors.

        By default, a layer that is not `LayoutAgnostic` requires row order.
        """
        if self.has_trait(LayoutAgnostic):
            return Requirements.of_layouts([None] * len(self.inputs), [None] * len(self.outputs))
        return Requirements.of_layouts(
            _row_orders(self.inputs.types), _row_orders(self.outputs.types)
        )

    @classmethod
    def kernel_spec(
        cls,
        inputs: Sequence[IrType],
        outputs: Sequence[IrType],
        attributes: Mapping[str, Attribute],
    ) -> KernelSpec:
        """Returns the kernel for tensors or memrefs of the given types, and for the given attributes.

        Raises UNSUPPORTED if the layer has no kernel.
        """
        raise LiteRtError(Status.UNSUPPORTED, f"{cls.name} has no kernel")

    @classmethod
    def dynamic_kernel_spec(
        cls,
        inputs: Sequence[IrType],
        outputs: Sequence[IrType],
        attributes: Mapping[str, Attribute],
    ) -> KernelSpec:
        """Returns a kernel that gets run-time shapes as arguments; the given types have the largest shapes."""
        what = f"{cls.name} has no kernel for shapes that are known only at run time"
        raise LiteRtError(Status.UNSUPPORTED, what)

    @classmethod
    def result_sizes(
        cls, inputs: Sequence[Sizes], attributes: Mapping[str, Attribute]
    ) -> Sequence[Sizes]:
        """Computes the sizes of the results from the sizes of the inputs.

        Raises UNSUPPORTED if the layer has no rule for its sizes.
        """
        raise LiteRtError(Status.UNSUPPORTED, f"{cls.name} has no rule for the shape of its result")

    @classmethod
    def check_types(cls, inputs: Sequence[Attribute], outputs: Sequence[Attribute]) -> None:
        """Rejects tensors (at level IERT: buffers) that the layer does not support.

        By default, the layer supports all tensors and buffers.
        """

    def verify_(self) -> None:
        check_tensors("input", self.inputs.types)
        check_tensors("output", self.outputs.types)
        if not self.outputs:
            raise VerifyException("the layer has no outputs")
        _check_shapes(self)
        self.check_types(self.inputs.types, self.outputs.types)

    @classmethod
    def parse(cls, parser: Parser) -> LayerOp:
        text = parse_layer(parser)
        return cls(
            text.inputs,
            text.outputs,
            text.attributes,
            text.input_shapes,
            text.output_shapes,
            text.num_result_shapes,
        )

    def print(self, printer: Printer) -> None:
        groups = (self.inputs, self.input_shapes, self.output_shapes)
        print_layer(printer, *groups, self.attributes, self.results)


def input_sizes_attribute(inputs: Sequence[Sizes]) -> Attribute:
    """Makes the attribute `input_sizes`."""
    return plain_attribute([list(sizes) for sizes in inputs])


def read_input_sizes(
    attributes: Mapping[str, Attribute], inputs: Sequence[Attribute]
) -> Sequence[Sizes]:
    """Reads the sizes of inputs of the given types from the attribute `input_sizes`.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the attribute does not have the format that `input_sizes_attribute` makes.
    """
    attribute = attributes.get(INPUT_SIZES)
    rows = attribute.data if isinstance(attribute, ArrayAttr) else ()
    read = [
        tuple(plain_value(size) for size in row.data) if isinstance(row, ArrayAttr) else ()
        for row in rows
    ]
    is_each = all(isinstance(size, (int, str)) for sizes in read for size in sizes)
    if not is_each or [*map(len, read)] != [len(shape_of(ir_type)) for ir_type in inputs]:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"attribute {INPUT_SIZES} is {attribute}, but must have an array for each input "
            f"({count_text(len(inputs), 'input')}), with one size for each dimension",
        )
    return [tuple(s for s in sizes if isinstance(s, (int, str))) for sizes in read]


def _row_orders(types: Sequence[Attribute]) -> list[tuple[int, ...]]:
    return [tuple(range(len(shape_of(ir_type)))) for ir_type in types]


class AnyBufferLayerOp(IRDLOperation):
    """A layer on buffers that are allocated outside of the layer.

    `code` is the precompiled code of a custom binary layer.
    """

    code = opt_operand_def(base(MemRefType))
    inputs = var_operand_def()
    outputs = var_operand_def()
    scratch = var_operand_def()
    input_shapes = var_operand_def()
    output_shapes = var_operand_def()

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    NEEDS_OUTPUTS: ClassVar[bool] = True

    def __init__(
        self,
        groups: BufferGroups,
        attributes: Mapping[str, Attribute] | None = None,
        code: SSAValue | None = None,
        properties: Mapping[str, Attribute] | None = None,
    ) -> None:
        """Makes a layer from operands in order.

        This method is faster than xDSL's constructor, which sorts the operands.
        """
        parts = (
            [] if code is None else [code],
            groups.inputs,
            groups.outputs,
            groups.scratch,
            groups.input_shapes,
            groups.output_shapes,
        )
        Operation.__init__(
            self,
            operands=[value for part in parts for value in part],
            properties={**(properties or {}), **segment_sizes(*map(len, parts))},
            attributes=attributes or {},
        )

    def groups(self) -> BufferGroups:
        """Returns the operands of the layer in groups."""
        shapes = (self.input_shapes, self.output_shapes)
        return BufferGroups(self.inputs, self.outputs, self.scratch, *shapes)

    def verify_(self) -> None:
        check_memrefs("input", self.inputs.types)
        check_memrefs("output", self.outputs.types)
        check_memrefs("scratch", self.scratch.types)
        check_memrefs("shape", [*self.input_shapes.types, *self.output_shapes.types])
        if self.outputs:
            _check_shapes(self)
        elif self.NEEDS_OUTPUTS:
            raise VerifyException("the layer has no outputs")


def input_shapes_of(op: LayerOp | AnyBufferLayerOp) -> dict[int, SSAValue]:
    """Returns the run-time shapes of a layer's inputs, by input index."""
    shapes = op.input_shapes
    return dict(zip(read_ports(op.attributes, DYNAMIC_INPUTS, len(shapes)), shapes, strict=True))


def output_shapes_of(op: LayerOp | AnyBufferLayerOp) -> dict[int, SSAValue]:
    """Returns the run-time shapes of a layer's outputs, by output index."""
    shapes = [*op.output_shapes, *(op.result_shapes if isinstance(op, LayerOp) else ())]
    return dict(zip(read_ports(op.attributes, DYNAMIC_OUTPUTS, len(shapes)), shapes, strict=True))


def _check_shapes(op: LayerOp | AnyBufferLayerOp) -> None:
    """Checks that each shape belongs to an input or output that exists."""
    results = op.result_shapes if isinstance(op, LayerOp) else ()
    for name, count, ports in (
        (DYNAMIC_INPUTS, len(op.input_shapes), len(op.inputs)),
        (DYNAMIC_OUTPUTS, len(op.output_shapes) + len(results), len(op.outputs)),
    ):
        attribute = op.attributes.get(name)
        found = read_ports(op.attributes, name, count)
        is_list = attribute is None or isinstance(attribute, ArrayAttr)
        is_each_there = len(set(found)) == len(found) and all(0 <= i < ports for i in found)
        if not is_list or len(found) != count or not is_each_there:
            shown = attribute if attribute is not None else list(found)
            kind = "input" if name == DYNAMIC_INPUTS else "output"
            raise VerifyException(
                f"attribute {name} is {shown}, but must have a different {kind} index for each shape "
                f"({count_text(count, 'shape')}), and {index_range(kind, ports)}"
            )


def made_in(value: SSAValue) -> SSAValue:
    """Returns the tensor that owns the memory of a value; a view has no memory of its own."""
    while not isinstance(value, BlockArgument):
        owner = value.owner
        if not (isinstance(owner, LayerOp) and owner.has_trait(SharesMemory)):
            break
        value = owner.inputs[0]
    return value
