"""Ops for tensors in blocked layouts, which CPU layers use.

`IE.Pack` converts a tensor to a blocked layout, and `IE.Unpack` converts it back.

    %1 = IE.Pack(%0) {order = [0, 3, 1, 2, 3], blocks = [0, 0, 0, 0, 8]}
        : tensor<1x4x4x10xf32> -> tensor<1x2x4x4x8xf32>

In the IR, a packed tensor is a tensor in row order. Its shape lists the sizes of the blocked layout in memory. The
last block is padded with zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition
from xdsl.utils.exceptions import VerifyException

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.types import (
    IrType,
    element_type_of,
    shape_of,
    tensor_type,
    view_of,
)
from vendor_reference.compiler.ir.verification import check_count
from vendor_reference.compiler.levels.layer import LayerOp
from vendor_reference.compiler.library.moves import MovedPart, move_kernel
from vendor_reference.compiler.library.views import View
from vendor_reference.custom_layers.kernel_spec import KernelSpec
from vendor_reference.executable.cpu_op import MemoryLayout


class BlockOp(LayerOp):
    """A layer that converts to or from a blocked layout.

    A subclass says whether the input or the output is blocked.
    """

    IS_PACK: ClassVar[bool]

    @classmethod
    def kernel_spec(
        cls,
        inputs: Sequence[IrType],
        outputs: Sequence[IrType],
        attributes: Mapping[str, Attribute],
    ) -> KernelSpec:
        plain = view_of((inputs if cls.IS_PACK else outputs)[0])
        title = cls.name.removeprefix("IE.")
        return _transfer_kernel(title, read_layout(attributes), plain, cls.IS_PACK)

    def verify_(self) -> None:
        super().verify_()
        check_count("input", len(self.inputs), 1)
        check_count("output", len(self.outputs), 1)
        source, target = self.inputs[0].type, self.outputs[0].type
        plain, packed = (source, target) if self.IS_PACK else (target, source)
        try:
            layout = read_layout(self.attributes)
        except LiteRtError as error:
            raise VerifyException(error.what) from None
        shape = shape_of(plain)
        if mistake := layout.find_mistake(len(shape)):
            raise VerifyException(mistake)
        if shape_of(packed) != layout.dims(shape):
            raise VerifyException(
                f"the blocked tensor has shape {shape_of(packed)}, but a tensor of shape {shape} has "
                f"shape {layout.dims(shape)} in the blocked layout {layout}"
            )
        if element_type_of(source) is not element_type_of(target):
            raise VerifyException(
                f"the element type must not change, but {source} becomes {target}"
            )


@irdl_op_definition
class PackOp(BlockOp):
    """Converts a tensor to a blocked layout."""

    name = "IE.Pack"
    IS_PACK: ClassVar[bool] = True

    @classmethod
    def to(cls, value: SSAValue, layout: MemoryLayout) -> PackOp:
        """Returns an op that converts a tensor to the given blocked layout."""
        return cls([value], [packed_type(value.type, layout)], layout_attributes(layout))


@irdl_op_definition
class UnpackOp(BlockOp):
    """Converts a tensor from a blocked layout to row order."""

    name = "IE.Unpack"
    IS_PACK: ClassVar[bool] = False


LAYERS = (PackOp, UnpackOp)


def packed_type(plain: Attribute, layout: MemoryLayout) -> IrType:
    """Returns the type of a tensor in a blocked layout."""
    return tensor_type(element_type_of(plain), layout.dims(shape_of(plain)))


def layout_attributes(layout: MemoryLayout) -> dict[str, Attribute]:
    """Converts a blocked layout to attributes of `IE.Pack` and `IE.Unpack`."""
    columns = {"order": layout.order, "blocks": layout.blocks}
    return {
        name: ArrayAttr([IntegerAttr(number, i64) for number in column])
        for name, column in columns.items()
    }


def read_layout(attributes: Mapping[str, Attribute]) -> MemoryLayout:
    """Reads the blocked layout from attributes of `IE.Pack` and `IE.Unpack`."""
    columns = []
    for name in ("order", "blocks"):
        column = attributes.get(name)
        if not isinstance(column, ArrayAttr) or not all(
            isinstance(entry, IntegerAttr) for entry in column.data
        ):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"attribute {name} is {column}, but must be an array of numbers",
            )
        columns.append(tuple(int(entry.value.data) for entry in column.data))
    return MemoryLayout(*columns)


def _transfer_kernel(title: str, layout: MemoryLayout, plain: View, is_pack: bool) -> KernelSpec:
    """Returns the commands that write the tensor or its blocks; a pack also fills up the blocks."""
    parts, gaps = _parts(layout, plain)
    if not is_pack:
        return move_kernel(title, 1, [MovedPart(one, packed) for one, packed in parts])
    moved = [MovedPart(packed, one) for one, packed in parts]
    return move_kernel(title, 1, [*moved, *map(MovedPart, gaps)], bytes(8))


def _parts(layout: MemoryLayout, plain: View) -> tuple[list[tuple[View, View]], list[View]]:
    """Returns pairs of equal parts of a tensor and its blocks, and the padding in the last blocks."""
    dims, blocks = layout.order, layout.blocks
    packed = View.dense(plain.element_type, layout.dims(plain.shape))
    parts = [(plain, packed.permuted(sorted(range(len(dims)), key=lambda i: (dims[i], blocks[i]))))]
    gaps: list[View] = []
    dim = 0  # dimensions of the parts, in which a blocked dimension counts as two
    for index, size in enumerate(plain.shape):
        block = layout.block_of.get(index)
        if block is not None:
            whole, left = divmod(size, block)
            sides = [(0, whole * block, block), (whole * block, size, left)]
            if left:
                gaps += [
                    packed.between(dim, whole, whole + 1).between(dim + 1, left, block)
                    for _, packed in parts
                ]
            parts = [
                (
                    one.between(dim, begin, end).split(dim, inner),
                    packed.between(dim, begin // block, -(-end // block)).between(
                        dim + 1, 0, inner
                    ),
                )
                for one, packed in parts
                for begin, end, inner in sides
            ]
            dim += 1
        dim += 1
    return parts, gaps
