"""The type of a tensor: element type and layout (LiteRT's `LiteRtRankedTensorType`)."""

from dataclasses import dataclass
from math import prod

from litert.core.element_type import ElementType


@dataclass(frozen=True, slots=True)
class Layout:
    """Dimensions and strides of a tensor in memory.

    Attributes:
      dimensions: Sizes of the dimensions, outermost first; -1 for a size that is known only at run time.
      strides: Stride of each dimension, counted in elements; None for row-major order without gaps.
    """

    dimensions: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    @property
    def rank(self) -> int:
        return len(self.dimensions)

    @property
    def is_static(self) -> bool:
        """Whether the sizes of all dimensions are known."""
        return all(d >= 0 for d in self.dimensions)


@dataclass(frozen=True, slots=True)
class RankedTensorType:
    """The element type and layout of a tensor."""

    element_type: ElementType
    layout: Layout

    @classmethod
    def of(cls, element_type: ElementType, dimensions: tuple[int, ...]) -> "RankedTensorType":
        """Makes the type of a tensor in row-major order."""
        return cls(element_type, Layout(dimensions))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.dimensions

    @property
    def num_elements(self) -> int:
        """Returns the number of elements, if all dimensions are known; 1 for a tensor of rank 0."""
        assert self.layout.is_static
        return prod(self.layout.dimensions)

    @property
    def size_bytes(self) -> int:
        """Returns the number of bytes that the tensor takes in row-major order without gaps.

        Elements of less than 8 bits are packed into bytes, and the last byte is padded.
        """
        return (self.num_elements * self.element_type.bits + 7) // 8

    def __str__(self) -> str:
        """Returns the type as MLIR writes it, for example `tensor<1x?x3xf32>`."""
        dims = "".join(f"{'?' if d < 0 else d}x" for d in self.shape)
        return f"tensor<{dims}{self.element_type.mlir}>"
