"""Tensors in blocks, for CPU layers: `IE.Pack` brings a tensor into the order of its blocks, `IE.Unpack` back.

    %1 = IE.Pack(%0) {order = [0, 3, 1, 2, 3], blocks = [0, 0, 0, 0, 8]}
        : tensor<1x4x4x10xf32> -> tensor<1x2x4x4x8xf32>

What is packed is a tensor of another shape, in row order: a dimension for each of its memory. The last block is
filled up with zeros.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition
from xdsl.utils.exceptions import VerifyException

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.types import IrType, element_type_of, shape_of, tensor_type
from vendor_reference.compiler.ir.verification import check_count
from vendor_reference.compiler.levels.layer import LayerOp
from vendor_reference.custom_layers.kernel_spec import KernelSpec, tensor_arguments
from vendor_reference.executable.cpu_op import MemoryLayout

_UNSIGNED = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}
"""What elements are moved as, by their bits."""


class BlockOp(LayerOp):
    """A layer between a tensor and its blocks; a subclass says which of the two is its input."""

    IS_PACK: ClassVar[bool]

    @classmethod
    def kernel_spec(
        cls,
        inputs: Sequence[IrType],
        outputs: Sequence[IrType],
        attributes: Mapping[str, Attribute],
    ) -> KernelSpec:
        layout = read_layout(attributes)
        plain = shape_of((inputs if cls.IS_PACK else outputs)[0])
        c_type = _UNSIGNED[element_type_of(inputs[0]).bits]
        write_text = _pack_text if cls.IS_PACK else _unpack_text
        title = cls.name.removeprefix("IE.")
        entry, text = _name_kernel(title, write_text(layout, plain, c_type))
        rows = prod(shape_of(outputs[0])[:-1])
        return KernelSpec(
            title, tensor_arguments(1), text=text, entry=entry, global_size=(str(rows),)
        )

    def verify_(self) -> None:
        super().verify_()
        check_count("inputs", len(self.inputs), 1)
        check_count("outputs", len(self.outputs), 1)
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
                f"shape {shape_of(packed)}, {layout} of {shape} has {layout.dims(shape)}"
            )
        if element_type_of(source) is not element_type_of(target):
            raise VerifyException(f"elements change: {source} becomes {target}")


@irdl_op_definition
class PackOp(BlockOp):
    """A tensor into blocks."""

    name = "IE.Pack"
    IS_PACK: ClassVar[bool] = True

    @classmethod
    def to(cls, value: SSAValue, layout: MemoryLayout) -> PackOp:
        """The tensor in that layout."""
        return cls([value], [packed_type(value.type, layout)], layout_attributes(layout))


@irdl_op_definition
class UnpackOp(BlockOp):
    """Blocks into a tensor."""

    name = "IE.Unpack"
    IS_PACK: ClassVar[bool] = False


LAYERS = (PackOp, UnpackOp)


def packed_type(plain: Attribute, layout: MemoryLayout) -> IrType:
    """The type of a tensor in blocks."""
    return tensor_type(element_type_of(plain), layout.dims(shape_of(plain)))


def layout_attributes(layout: MemoryLayout) -> dict[str, Attribute]:
    """A layout as the attributes of these ops."""
    columns = {"order": layout.order, "blocks": layout.blocks}
    return {
        name: ArrayAttr([IntegerAttr(number, i64) for number in column])
        for name, column in columns.items()
    }


def read_layout(attributes: Mapping[str, Attribute]) -> MemoryLayout:
    """The layout that attributes say."""
    columns = []
    for name in ("order", "blocks"):
        column = attributes.get(name)
        if not isinstance(column, ArrayAttr) or not all(
            isinstance(entry, IntegerAttr) for entry in column.data
        ):
            raise LiteRtError(
                Status.INVALID_ARGUMENT, f"{name} is {column}, expected an array of numbers"
            )
        columns.append(tuple(int(entry.value.data) for entry in column.data))
    return MemoryLayout(*columns)


def _name_kernel(title: str, text: str) -> tuple[str, str]:
    """A kernel's name, and its text with it for each `KERNEL`; no two texts have the same name."""
    entry = f"{title.lower()}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return entry, text.replace("KERNEL", entry)


def _pack_text(layout: MemoryLayout, shape: Sequence[int], c_type: str) -> str:
    """A work item for each row of the blocks' last dimension: elements of the tensor, or 0."""
    block_of = layout.block_of
    dims = layout.dims(shape)
    terms: dict[int, list[str]] = {}
    for axis, (dim, block) in enumerate(zip(layout.order, layout.blocks, strict=True)):
        scale = 1 if block else block_of.get(dim, 1)
        terms.setdefault(dim, []).append(f"m{axis} * {scale}")
    inner = [f"const size_t d{d} = {' + '.join(terms[d])};" for d in sorted(terms)]
    inside = " && ".join(f"d{d} < {shape[d]}" for d in sorted(block_of))
    value = f"from[{_place([f'd{d}' for d in range(len(shape))], shape)}]"
    inner.append(f"*to++ = {f'{inside} ? {value} : 0' if inside else value};")
    return _kernel(c_type, "m", dims, inner)


def _unpack_text(layout: MemoryLayout, shape: Sequence[int], c_type: str) -> str:
    """A work item for each row of the tensor's last dimension."""
    block_of = layout.block_of
    indices = []
    for dim, block in zip(layout.order, layout.blocks, strict=True):
        if block:
            indices.append(f"d{dim} % {block}")
        else:
            indices.append(f"d{dim} / {block_of[dim]}" if dim in block_of else f"d{dim}")
    place = _place([f"({index})" for index in indices], layout.dims(shape))
    return _kernel(c_type, "d", shape, [f"*to++ = from[{place}];"])


def _place(indices: Sequence[str], dims: Sequence[int]) -> str:
    """Where an element lies in row order."""
    place = "0"
    for index, dim in zip(indices, dims, strict=True):
        place = index if place == "0" else f"({place} * {dim} + {index})"
    return place


def _kernel(c_type: str, letter: str, dims: Sequence[int], inner: Sequence[str]) -> str:
    """A kernel that goes over a tensor, a row for each work item; the letter names its indices.

    The hint keeps Intel's driver from joining rows to vectors, whose elements it would have to gather.
    """
    last = len(dims) - 1
    lines = ["    size_t rest = get_global_id(0);", f"    to += rest * {dims[last]};"]
    for axis in reversed(range(last)):
        lines.append(f"    const size_t {letter}{axis} = rest % {dims[axis]};")
        lines.append(f"    rest /= {dims[axis]};")
    index = f"{letter}{last}"
    lines.append(f"    for (size_t {index} = 0; {index} < {dims[last]}; ++{index}) {{")
    lines += [f"        {line}" for line in inner]
    hint = "__attribute__((vec_type_hint(float8)))"
    head = f"__kernel void KERNEL(__global const {c_type}* from, __global {c_type}* to)"
    return "\n".join([hint, head, "{", *lines, "    }", "}", ""])
