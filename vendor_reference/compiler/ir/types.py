"""Types of the levels: TFLite's element types and shapes as tensors (IE) and memrefs (IERT, VPUIP).

Shapes are logical: a tensor's own dimensions, in the model's order. How its elements lie is an *order*, dimensions
from the slowest to the fastest, and stands in the type as an affine map; no map is row order.
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
    """The IR's type of an element; UNSUPPORTED, for those that no kernel can read."""
    if element_type not in _IR_TYPES:
        raise LiteRtError(Status.UNSUPPORTED, f"elements of type {element_type.name}")
    return _IR_TYPES[element_type]


def find_element_type(attribute: Attribute) -> ElementType | None:
    """What an element type of the IR is to TFLite; None for one that no tensor has here."""
    return _ELEMENT_TYPES.get(attribute)


def element_type_of(ir_type: Attribute) -> ElementType:
    """The element type of a tensor or memref, which a verifier has seen."""
    assert isinstance(ir_type, (TensorType, MemRefType))
    return _ELEMENT_TYPES[ir_type.element_type]


@lru_cache(maxsize=4096)
def tensor_type(
    element_type: ElementType, shape: tuple[int, ...], order: Order | None = None
) -> TensorType[Attribute]:
    """A tensor; -1 is an unknown dimension."""
    dims = [DYNAMIC_INDEX if d < 0 else d for d in shape]
    return TensorType(ir_element_type(element_type), dims, layout_attribute(order))


@lru_cache(maxsize=4096)
def memref_type(
    element_type: ElementType,
    shape: tuple[int, ...],
    order: Order | None = None,
    space: MemorySpace | None = None,
) -> MemRefType[Attribute]:
    """A buffer."""
    dims = [DYNAMIC_INDEX if d < 0 else d for d in shape]
    layout = layout_attribute(order)
    return MemRefType(ir_element_type(element_type), dims, layout, space_attribute(space))


@lru_cache(maxsize=4096)
def memref_of(tensor: TensorType[Attribute]) -> MemRefType[Attribute]:
    """The buffer that holds a tensor."""
    layout = tensor.encoding
    assert isinstance(layout, (AffineMapAttr, NoneAttr))
    return _memref(tensor.shape, tensor.element_type, layout, NoneAttr())


@lru_cache(maxsize=4096)
def with_order(tensor: TensorType[Attribute], order: Order | None) -> TensorType[Attribute]:
    """The tensor with its elements in another order."""
    return TensorType(tensor.element_type, tensor.shape.data, layout_attribute(order))


@lru_cache(maxsize=4096)
def strided_type(
    ir_type: MemRefType[Attribute], strides: tuple[int, ...], offset: int
) -> MemRefType[Attribute]:
    """The buffer as a part of a larger one, whose first element lies `offset` elements from that one's start."""
    layout = StridedLayoutAttr(strides, offset)
    return MemRefType(ir_type.element_type, ir_type.shape, layout, ir_type.memory_space)


@lru_cache(maxsize=4096)
def with_element_type(
    tensor: TensorType[Attribute], element_type: ElementType
) -> TensorType[Attribute]:
    """The tensor with other elements."""
    return TensorType(ir_element_type(element_type), tensor.shape.data, tensor.encoding)


@lru_cache(maxsize=4096)
def with_space(ir_type: MemRefType[Attribute], space: MemorySpace | None) -> MemRefType[Attribute]:
    """The buffer, in a memory space."""
    shape, layout = ir_type.shape, ir_type.layout
    return _memref(shape, ir_type.element_type, layout, space_attribute(space))


@lru_cache(maxsize=4096)
def shape_of(ir_type: Attribute) -> tuple[int, ...]:
    """The shape of a tensor or memref; -1 is an unknown dimension."""
    assert isinstance(ir_type, (TensorType, MemRefType))
    return tuple(-1 if d == DYNAMIC_INDEX else d for d in ir_type.get_shape())


def is_open(ir_type: Attribute) -> bool:
    """Whether it is a tensor's, with dimensions that a run tells."""
    return isinstance(ir_type, TensorType) and -1 in shape_of(ir_type)


@lru_cache(maxsize=4096)
def ranked_type(ir_type: Attribute) -> RankedTensorType:
    """Element type and shape, as TFLite has them."""
    return RankedTensorType.of(element_type_of(ir_type), shape_of(ir_type))


@lru_cache(maxsize=4096)
def size_bytes_of(ir_type: Attribute) -> int:
    """Bytes of a tensor or memref without gaps, whose shape is known."""
    return prod(shape_of(ir_type)) * element_type_of(ir_type).bits // 8


@lru_cache(maxsize=4096)
def order_of(ir_type: Attribute) -> Order:
    """How a tensor's or memref's elements lie; of a strided view, how its strides fall."""
    layout = layout_of(ir_type)
    rank = len(shape_of(ir_type))
    if isinstance(layout, AffineMapAttr):
        return map_order(layout)
    if isinstance(layout, StridedLayoutAttr):
        return strides_order(strides_of(layout)[0])
    return tuple(range(rank))


def strides_order(strides: Sequence[int]) -> Order:
    """Dimensions from the slowest to the fastest, as strides fall."""
    return tuple(sorted(range(len(strides)), key=lambda d: (-strides[d], d)))


def layout_of(ir_type: Attribute) -> Attribute:
    """The layout as the type has it: an affine map, strides, or `NoneAttr`."""
    assert isinstance(ir_type, (TensorType, MemRefType))
    return ir_type.encoding if isinstance(ir_type, TensorType) else ir_type.layout


def strides_of(layout: StridedLayoutAttr) -> tuple[tuple[int, ...], int]:
    """Strides and offset of a view of a larger buffer, in elements; what is not known counts as 0."""
    strides = [s.data if isinstance(s, IntAttr) else 0 for s in layout.strides]
    return tuple(strides), layout.offset.data if isinstance(layout.offset, IntAttr) else 0


@lru_cache(maxsize=4096)
def element_strides(ir_type: Attribute) -> tuple[tuple[int, ...], int]:
    """For each dimension, elements from one index to the next; and the first element's place."""
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
    """Where the last element of a buffer or view ends, from where the kernel's argument points."""
    (strides, offset), shape = element_strides(ir_type), shape_of(ir_type)
    if not prod(shape):
        return 0
    last = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    return (last + 1) * element_type_of(ir_type).bits // 8


def space_of(ir_type: MemRefType[Attribute]) -> MemorySpace | None:
    """The memory space that a buffer's type names."""
    space = ir_type.memory_space
    return MemorySpace(space.root_reference.data) if isinstance(space, SymbolRefAttr) else None


def _memref(
    shape: Attribute, element_type: Attribute, layout: Attribute, space: Attribute
) -> MemRefType[Attribute]:
    """A buffer of what other types have: the constructor would look through the shape for plain numbers."""
    made: MemRefType[Attribute] = MemRefType.new([shape, element_type, layout, space])
    return made


@lru_cache(maxsize=4)
def space_attribute(space: MemorySpace | None) -> Attribute:
    """`@DDR`, `@CMX`, or nothing."""
    return NoneAttr() if space is None else SymbolRefAttr(space.value)


@lru_cache(maxsize=256)
def layout_attribute(order: Order | None) -> AffineMapAttr | NoneAttr:
    """What stands in a type for an order; nothing for row order."""
    if order is None or order == tuple(range(len(order))):
        return NoneAttr()
    return order_map(order)


@lru_cache(maxsize=256)
def order_map(order: Order) -> AffineMapAttr:
    """`affine_map<(n, h, w, c) -> (n, c, h, w)>` for 0, 3, 1, 2."""
    return AffineMapAttr(AffineMap(len(order), 0, tuple(AffineDimExpr(d) for d in order)))


@lru_cache(maxsize=256)
def map_order(layout: AffineMapAttr) -> Order:
    """The order that a map stands for; INVALID_ARGUMENT, if it is no permutation of dimensions."""
    order = find_order(layout)
    if order is None:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"layout {layout.data} is no permutation of its dimensions",
            hint="A layout is a map such as affine_map<(n, h, w, c) -> (n, c, h, w)>.",
        )
    return order


def find_order(layout: AffineMapAttr) -> Order | None:
    """The same; None for a map that is no permutation."""
    results = [e.position for e in layout.data.results if isinstance(e, AffineDimExpr)]
    is_order = sorted(results) == list(range(layout.data.num_dims)) and not layout.data.num_symbols
    return tuple(results) if is_order else None


def placement_of(ir_type: Attribute) -> Placement:
    """How a tensor or memref lies, of which a run tells the shape."""
    if isinstance(layout_of(ir_type), StridedLayoutAttr):
        return Placement(element_type_of(ir_type), None, *element_strides(ir_type))
    return Placement(element_type_of(ir_type), order_of(ir_type))


def view_of(ir_type: Attribute) -> View:
    """Where the elements of a tensor or memref, whose shape is known, lie."""
    strides, offset = element_strides(ir_type)
    return View(element_type_of(ir_type), shape_of(ir_type), strides, offset)
