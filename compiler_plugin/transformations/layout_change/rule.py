"""What a rule says of an op: which of its ports change their layout, and what else of it changes with them.

A rule looks at one op at a time and changes nothing. It answers with an `OpPlan`, or None: the op must see its
tensors as the file has them. `assignment` then chooses which plans are carried out, `rewriting` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeAlias

from compiler_plugin.transformations.layout_change.image_layout import LayoutChange, Permutation
from litert.model.graph import Op, Tensor


class Free(Enum):
    """A port whose layout does not depend on the op's other ports."""

    FREE = "free"


FREE = Free.FREE
PortLayout: TypeAlias = Permutation | Free | None
"""In the other layout: permuted like this; as it is; or either, whatever costs less."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What changes of an op besides its tensors' layouts.

    Attributes:
      options: new values of builtin options, by name.
      constants: new numbers of constant inputs, by index; element types stay.
      vectors: inputs with one element, or one row, for each dimension of a permuted tensor, by index.
      ranks: inputs that are given ones in front, up to this rank, before they are permuted.
      shape_outputs: outputs with one element for each dimension, which are brought back to the old order.
      is_identity: whether the op does nothing any more: output 0 is input 0.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[int, Sequence[int]] = field(default_factory=dict)
    vectors: Mapping[int, Permutation] = field(default_factory=dict)
    ranks: Mapping[int, int] = field(default_factory=dict)
    shape_outputs: Mapping[int, Permutation] = field(default_factory=dict)
    is_identity: bool = False


Layouts: TypeAlias = Sequence[Permutation | None]


@dataclass(frozen=True, slots=True)
class OpPlan:
    """An op in the other layout.

    Attributes:
      inputs, outputs: one for each input and output.
      edit: what else changes; or a function of the layouts that its ports have been given, where some are free.
      is_bound: whether the op has no choice: in the other layout it means something else.
      cost: elements that have to be computed anew, besides those of transposed tensors.
    """

    inputs: Sequence[PortLayout]
    outputs: Sequence[PortLayout]
    edit: Edit | Callable[[Layouts, Layouts], Edit] = field(default_factory=Edit)
    is_bound: bool = False
    cost: int = 0


class LayoutRule(Protocol):
    """A rule for a family of ops. A module in `rules/` has its rules as `RULES`; adding one is all it takes."""

    @property
    def ops(self) -> Sequence[str]:
        """The builtin operators that it is for."""
        ...

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        """What the op is in the other layout; None where it must see its tensors as the file has them."""
        ...


def known_shape(tensor: Tensor) -> tuple[int, ...]:
    """A tensor's shape, with -1 for dimensions that only a run tells."""
    signature = tensor.shape_signature
    return tensor.shape if signature is None or len(signature) != len(tensor.shape) else signature


def find_numbers(tensor: Tensor | None) -> list[int] | None:
    """The elements of a constant of integers; None for all else."""
    if tensor is None or not tensor.is_constant or tensor.sparsity is not None:
        return None
    from litert.core.element_type import ElementType

    if tensor.element_type not in (ElementType.INT32, ElementType.INT64):
        return None
    from litert.model.tensor_data import decode_constant  # here: it imports NumPy

    numbers: list[int] = (
        decode_constant(tensor.element_type, tensor.shape, tensor.data).ravel().tolist()
    )
    return numbers


def find_axes(tensor: Tensor | None, rank: int) -> list[int] | None:
    """The axes that a constant names, counted from the front; None where it is no constant, or names none such."""
    return normal_axes(find_numbers(tensor), rank)


def normal_axes(axes: Sequence[int] | None, rank: int) -> list[int] | None:
    """Axes counted from the front; None where one is outside the rank."""
    if axes is None or any(not -rank <= axis < rank for axis in axes):
        return None
    return [axis % rank for axis in axes]
