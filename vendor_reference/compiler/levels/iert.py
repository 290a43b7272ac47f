"""IERT: layers on buffers, which are allocated outside the layers.

One list holds the buffers that a layer reads and writes.

    IERT.Layer(%a, %b, %r)[%shape_of_a, %shape_of_b, %shape_of_r] {axis = 1 : i64}
    IERT.CustomBinaryLayer VPUIP.OCL from %bin_code (%input, %weights, %output) {VPUIP.max_num_shaves = 8}

The last operand is the output, unless `num_outputs` says otherwise; `num_scratch` temporary buffers
follow the outputs. The first shapes belong to inputs, one for each input (or `num_input_shapes` of
them); the other shapes belong to outputs. Each layer op of IE has its counterpart here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from vendor_reference.compiler.ir.assembly import (
    parse_binary,
    print_binary,
)
from vendor_reference.compiler.ir.buffer_groups import BufferGroups, parse_groups, print_groups
from vendor_reference.compiler.ir.kernel_attribute import read_max_num_shaves
from vendor_reference.compiler.ir.verification import verified
from vendor_reference.compiler.levels.layer import AnyBufferLayerOp, LayerOp
from vendor_reference.compiler.levels.values import (
    AnyActualShapeOfOp,
    AnyBufferConstantOp,
    AnyViewOp,
)


class BufferLayerOp(AnyBufferLayerOp):
    """A layer on buffers; `counterpart` makes its subclasses."""

    @staticmethod
    def layer() -> type[LayerOp]:
        """Returns the IE op that corresponds to this IERT op."""
        raise NotImplementedError

    def verify_(self) -> None:
        super().verify_()
        self.layer().check_types(self.inputs.types, self.outputs.types)

    @classmethod
    def parse(cls, parser: Parser) -> BufferLayerOp:
        return cls(*parse_groups(parser))

    def print(self, printer: Printer) -> None:
        print_groups(printer, self.groups(), self.attributes)


@cache
def counterpart(layer: type[LayerOp]) -> type[BufferLayerOp]:
    """Returns the op of IERT for a layer of IE: `IERT.Add` for `IE.Add`."""
    name = layer.name.replace("IE.", "IERT.", 1)
    fields = {"name": name, "layer": staticmethod(lambda: layer), "__annotations__": {}}
    return irdl_op_definition(type(f"Buffer{layer.__name__}", (BufferLayerOp,), fields))


@irdl_op_definition
class BufferCustomBinaryLayerOp(AnyBufferLayerOp):
    """A layer that is compiled ahead; `task` is the kind of its tasks: `OCL` or `CPP`."""

    name = "IERT.CustomBinaryLayer"
    task = prop_def(StringAttr)

    def __init__(
        self,
        task: str,
        code: SSAValue,
        groups: BufferGroups,
        attributes: Mapping[str, Attribute],
    ) -> None:
        super().__init__(groups, attributes, code, {"task": StringAttr(task)})

    def verify_(self) -> None:
        super().verify_()
        if self.code is None:
            raise VerifyException("a custom binary layer without code")
        if self.input_shapes or self.output_shapes:
            raise VerifyException("code that is compiled ahead takes only fixed shapes")
        verified(lambda: read_max_num_shaves(self.attributes))

    @classmethod
    def parse(cls, parser: Parser) -> BufferCustomBinaryLayerOp:
        task, code = parse_binary(parser)
        return cls(task, code, *parse_groups(parser))

    def print(self, printer: Printer) -> None:
        assert self.code is not None
        print_binary(printer, self.task.data, self.code)
        print_groups(printer, self.groups(), self.attributes)


@irdl_op_definition
class BufferConstantOp(AnyBufferConstantOp):
    """A constant buffer."""

    name = "IERT.Constant"


@irdl_op_definition
class BufferActualShapeOfOp(AnyActualShapeOfOp):
    """The actual shape of a function's input."""

    name = "IERT.ActualShapeOf"


@irdl_op_definition
class ViewOp(AnyViewOp):
    """Another view of a buffer's memory."""

    name = "IERT.View"


OPS = (BufferConstantOp, BufferActualShapeOfOp, BufferCustomBinaryLayerOp, ViewOp)
"""All ops except the layers, which `counterpart` makes."""
