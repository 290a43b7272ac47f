"""The IR level IERT: layers on buffers that are allocated outside of the layers.

The operands of a layer are the buffers that it reads, followed by the buffers that it writes.

    IERT.Layer(%a, %b, %r)[%shape_of_a, %shape_of_b, %shape_of_r] {axis = 1 : i64}
    IERT.CustomBinaryLayer VPUIP.OCL from %bin_code (%input, %weights, %output) {VPUIP.max_num_shaves = 8}

By default, only the last operand is an output; the attribute `num_outputs` can give another number of outputs.
`num_scratch` temporary buffers follow the outputs. The first shapes in brackets belong to inputs. There is one
shape for each input unless the attribute `num_input_shapes` gives another number of shapes. The other shapes
belong to outputs. For each layer op of IE, IERT has an op of the same name.
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
        """Returns the IE op with the same name as the IERT op."""
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
    """Returns the IERT op for a layer op of IE, such as `IERT.Add` for `IE.Add`."""
    name = layer.name.replace("IE.", "IERT.", 1)
    fields = {"name": name, "layer": staticmethod(lambda: layer), "__annotations__": {}}
    return irdl_op_definition(type(f"Buffer{layer.__name__}", (BufferLayerOp,), fields))


@irdl_op_definition
class BufferCustomBinaryLayerOp(AnyBufferLayerOp):
    """A layer with precompiled code. `task` is the kind of task to which the layer is lowered: `OCL` or `CPP`."""

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
            raise VerifyException("the custom binary layer has no code")
        if self.input_shapes or self.output_shapes:
            raise VerifyException(
                "the op has shapes as operands, but compiled code supports only fixed shapes"
            )
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
    """A constant buffer (`IERT.Constant`)."""

    name = "IERT.Constant"


@irdl_op_definition
class BufferActualShapeOfOp(AnyActualShapeOfOp):
    """The actual shape of a function input in a run (`IERT.ActualShapeOf`)."""

    name = "IERT.ActualShapeOf"


@irdl_op_definition
class ViewOp(AnyViewOp):
    """A view of a buffer with another shape, or of a part of the buffer (`IERT.View`)."""

    name = "IERT.View"


OPS = (BufferConstantOp, BufferActualShapeOfOp, BufferCustomBinaryLayerOp, ViewOp)
"""All IERT ops except layers; `counterpart` makes the layer ops."""
