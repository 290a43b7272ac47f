"""Types of the IR levels: tensors (IE) and memrefs (IERT, VPUIP) with TFLite's element types and shapes.

Shapes are logical: they list a tensor's dimensions in the model's order. The layout of a tensor in memory is an
*order*, a list of the dimensions from the outermost to the innermost. A type contains the order as an affine map;
a type without a map has row order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IntAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    Signedness,
    StridedLayoutAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.irdl import irdl_attr_definition

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from vendor_reference.compiler.library.views import Placement, View
from vendor_reference.compiler.memory_spaces import MemorySpace
from vendor_reference.custom_layers.layout import Order as Order

IrType: TypeAlias = TensorType[Attribute] | MemRefType[Attribute]


@irdl_attr_definition
class ShapeType(ParametrizedAttribute, TypeAttribute):
    """`!shape.shape`: the actual shape of a tensor."""

    name = "shape.shape"


_E = ElementType

_IR_TYPES: dict[ElementType, Attribute] = {
    _E.FLOAT16: Float16Type(), _E.FLOAT32: Float32Type(), _E.FLOAT64: Float64Type(),
    _E.BOOL: IntegerType(1),
    _E.INT8: IntegerType(8), _E.INT16: IntegerType(16), _E.INT32: IntegerType(32), _E.INT64: IntegerType(64),
    _E.UINT8: IntegerType(8, Signedness.UNSIGNED), _E.UINT16: IntegerType(16, Signedness.UNSIGNED),
    _E.UINT32: IntegerType(32, Signedness.UNSIGNED), _E.UINT64: IntegerType(64, Signedness.UNSIGNED),
}  # fmt: skip

_ELEMENT_TYPES = {ir_type: element_type for element_type, ir_type in _IR_TYPES.items()}


def ir_element_type(element_type: ElementType) -> Attribute:
    """Returns the IR type of an element type; raises UNSUPPORTED for a type that no kernel can read."""
    if element_type not in _IR_TYPES:
        raise LiteRtError(
            Status.UNSUPPORTED, f"no kernel can read elements of type {element_type.name}"
        )
    return _IR_TYPES[element_type]


def find_element_type(attribute: Attribute) -> ElementType | None:
    """Returns TFLite's element type for an element type of the IR; None if no tensor can have that type."""
    return _ELEMENT_TYPES.get(attribute)


def element_type_of(ir_type: Attribute) -> ElementType:
    """Returns the element type of a tensor or memref that a verifier has checked."""
    assert isinstance(ir_type, (TensorType, MemRefType))
    return _ELEMENT_TYPES[ir_type.element_type]


@lru_cache(maxsize=4096)
def tensor_type(
    element_type: ElementType, shape: tuple[int, ...], order: Order | None = None
) -> TensorType[Attribute]:
    """Returns a tensor type; -1 is an unknown dimension."""
    dims = [DYNAMIC_INDEX if d < 0 else d for d in shape]
    return TensorType(ir_element_type(element_type), dims, layout_attribute(order))


@lru_cache(maxsize=4096)
def memref_type(
    element_type: ElementType,
    shape: tuple[int, ...],
    order: Order | None = None,
    space: MemorySpace | None = None,
) -> MemRefType[Attribute]:
    """Returns the type of a buffer."""
    dims = [DYNAMIC_INDEX if d < 0 else d for d in shape]
    layout = layout_attribute(order)
    return MemRefType(ir_element_type(element_type), dims, layout, space_attribute(space))


@lru_cache(maxsize=4096)
def memref_of(tensor: TensorType[Attribute]) -> MemRefType[Attribute]:
    """Returns the type of the buffer that holds a tensor."""
    layout = tensor.encoding
    assert isinstance(layout, (AffineMapAttr, NoneAttr))
    return _memref(tensor.shape, tensor.element_type, layout, NoneAttr())


@lru_cache(maxsize=4096)
def with_order(tensor: TensorType[Attribute], order: Order | None) -> TensorType[Attribute]:
    """Returns the tensor type with another order."""
    return TensorType(tensor.element_type, tensor.shape.data, layout_attribute(order))


@lru_cache(maxsize=4096)
def strided_type(
    ir_type: MemRefType[Attribute], strides: tuple[int, ...], offset: int
) -> MemRefType[Attribute]:
    """Returns the type of a part of a larger buffer.

    The part begins `offset` elements after the buffer's start.
    """
    layout = StridedLayoutAttr(strides, offset)
    return MemRefType(ir_type.element_type, ir_type.shape, layout, ir_type.memory_space)


@lru_cache(maxsize=4096)
def with_element_type(
    tensor: TensorType[Attribute], element_type: ElementType
) -> TensorType[Attribute]:
    """Returns the tensor type with another element type."""
    return TensorType(ir_element_type(element_type), tensor.shape.data, tensor.encoding)


@lru_cache(maxsize=4096)
def with_space(ir_type: MemRefType[Attribute], space: MemorySpace | None) -> MemRefType[Attribute]:
    """Returns the buffer type in a memory space."""
    shape, layout = ir_type.shape, ir_type.layout
    return _memref(shape, ir_type.element_type, layout, space_attribute(space))


@lru_cache(maxsize=4096)
def shape_of(ir_type: Attribute) -> tuple[int, ...]:
    """Returns the shape of a tensor or memref; -1 is an unknown dimension."""
    assert isinstance(ir_type, (TensorType, MemRefType))
    return tuple(-1 if d == DYNAMIC_INDEX else d for d in ir_type.get_shape())


def is_open(ir_type: Attribute) -> bool:
    """Returns whether a type is a tensor type with dimensions that are known only at run time."""
    return isinstance(ir_type, TensorType) and -1 in shape_of(ir_type)


@lru_cache(maxsize=4096)
def ranked_type(ir_type: Attribute) -> RankedTensorType:
    """Converts a type to TFLite's element type and shape."""
    return RankedTensorType.of(element_type_of(ir_type), shape_of(ir_type))


@lru_cache(maxsize=4096)
def size_bytes_of(ir_type: Attribute) -> int:
    """Returns the size in bytes of a tensor or memref of known shape, without gaps."""
    return prod(shape_of(ir_type)) * element_type_of(ir_type).bits // 8


@lru_cache(maxsize=4096)
def order_of(ir_type: Attribute) -> Order:
    """Returns the order of a tensor's or memref's elements; for a strided view, the order of its strides."""
    layout = layout_of(ir_type)
    rank = len(shape_of(ir_type))
    if isinstance(layout, AffineMapAttr):
        return map_order(layout)
    if isinstance(layout, StridedLayoutAttr):
        return strides_order(strides_of(layout)[0])
    return tuple(range(rank))


def strides_order(strides: Sequence[int]) -> Order:
    """Returns the dimensions from the outermost to the innermost, by their strides."""
    return tuple(sorted(range(len(strides)), key=lambda d: (-strides[d], d)))


def layout_of(ir_type: Attribute) -> Attribute:
    """Returns the layout in a type: an affine map, strides, or `NoneAttr`."""
    assert isinstance(ir_type, (TensorType, MemRefType))
    return ir_type.encoding if isinstance(ir_type, TensorType) else ir_type.layout


def strides_of(layout: StridedLayoutAttr) -> tuple[tuple[int, ...], int]:
    """Returns the strides and the offset in the layout of a view, in elements; unknown values become 0."""
    strides = [s.data if isinstance(s, IntAttr) else 0 for s in layout.strides]
    return tuple(strides), layout.offset.data if isinstance(layout.offset, IntAttr) else 0


@lru_cache(maxsize=4096)
def element_strides(ir_type: Attribute) -> tuple[tuple[int, ...], int]:
    """Returns the stride of each dimension, and the offset of the first element, in elements."""
    layout = layout_of(ir_type)
    if isinstance(layout, StridedLayoutAttr):
        return strides_of(layout)
    shape = shape_of(ir_type)
    strides, stride = [0] * len(shape), 1
    for dim in reversed(order_of(ir_type)):
        strides[dim] = stride
        stride *= shape[dim]
    return tuple(strides), 0


def end_bytes_of(ir_type: Attribute) -> int:
    """Returns the end of a buffer's or view's last element, in bytes from the start of the kernel argument."""
    (strides, offset), shape = element_strides(ir_type), shape_of(ir_type)
    if not prod(shape):
        return 0
    last = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    return (last + 1) * element_type_of(ir_type).bits // 8


def space_of(ir_type: MemRefType[Attribute]) -> MemorySpace | None:
    """Returns the memory space in a buffer's type."""
    space = ir_type.memory_space
    return MemorySpace(space.root_reference.data) if isinstance(space, SymbolRefAttr) else None


def _memref(
    shape: Attribute, element_type: Attribute, layout: Attribute, space: Attribute
) -> MemRefType[Attribute]:
    """Makes a memref type from parts of other types; the constructor would check each dimension again."""
    made: MemRefType[Attribute] = MemRefType.new([shape, element_type, layout, space])
    return made


@lru_cache(maxsize=4)
def space_attribute(space: MemorySpace | None) -> Attribute:
    """Returns the attribute for a memory space: `@DDR`, `@CMX`, or `NoneAttr`."""
    return NoneAttr() if space is None else SymbolRefAttr(space.value)


@lru_cache(maxsize=256)
def layout_attribute(order: Order | None) -> AffineMapAttr | NoneAttr:
    """Returns the attribute for an order in a type; `NoneAttr` for row order."""
    if order is None or order == tuple(range(len(order))):
        return NoneAttr()
    return order_map(order)


@lru_cache(maxsize=256)
def order_map(order: Order) -> AffineMapAttr:
    """Returns the affine map of an order: `affine_map<(n, h, w, c) -> (n, c, h, w)>` for 0, 3, 1, 2."""
    return AffineMapAttr(AffineMap(len(order), 0, tuple(AffineDimExpr(d) for d in order)))


@lru_cache(maxsize=256)
def map_order(layout: AffineMapAttr) -> Order:
    """Returns the order of a map; raises INVALID_ARGUMENT if the map is not a permutation of dimensions."""
    order = find_order(layout)
    if order is None:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"layout {layout.data} does not contain each of its dimensions once",
            hint="Write a layout as a map, such as affine_map<(n, h, w, c) -> (n, c, h, w)>.",
        )
    return order


def find_order(layout: AffineMapAttr) -> Order | None:
    """Returns the order of a map; None if the map is not a permutation."""
    results = [e.position for e in layout.data.results if isinstance(e, AffineDimExpr)]
    is_order = sorted(results) == list(range(layout.data.num_dims)) and not layout.data.num_symbols
    return tuple(results) if is_order else None


def placement_of(ir_type: Attribute) -> Placement:
    """Returns the memory layout of a tensor or memref whose shape is known only at run time."""
    if isinstance(layout_of(ir_type), StridedLayoutAttr):
        return Placement(element_type_of(ir_type), None, *element_strides(ir_type))
    return Placement(element_type_of(ir_type), order_of(ir_type))


def view_of(ir_type: Attribute) -> View:
    """Returns the memory layout of a tensor or memref of known shape."""
    strides, offset = element_strides(ir_type)
    return View(element_type_of(ir_type), shape_of(ir_type), strides, offset)
