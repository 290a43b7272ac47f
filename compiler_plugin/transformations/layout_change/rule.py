"""What each op can be in the other layout: which of its ports change, and what else of it changes with them.

A rule looks at one op at a time and changes nothing. It answers with an `OpPlan`, or None: the op must see its
tensors as the file has them. Of custom ops a user's definition says it. `assignment` then chooses which plans are
carried out, `change` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, Literal, Protocol, TypeAlias

from compiler_plugin.transformations.layout_change.image_layout import LayoutChange, Permutation
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.extensions import check_unique, load_package
from litert.model.builtin_options import find_options_type
from litert.model.graph import Op, Subgraph, Tensor
from litert.model.tensor_data import decode_constant

Layouts: TypeAlias = Sequence[Permutation | None]
CustomLayout: TypeAlias = Literal["any", "image"]
"""`any`: all tensors of rank 4 or 5 may be in either layout, if they all are in the same one. `image`: they are
images, whose layout is the graph's, as a convolution's; but constants, such as filters, stay as in the file."""


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
      shape_output: how output 0 is brought back to the old order, where it has an element for each dimension.
      is_identity: whether the op does nothing any more: output 0 is input 0.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[int, Sequence[int]] = field(default_factory=dict)
    vectors: Mapping[int, Permutation] = field(default_factory=dict)
    ranks: Mapping[int, int] = field(default_factory=dict)
    shape_output: Permutation | None = None
    is_identity: bool = False


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
    if tensor.element_type not in (ElementType.INT32, ElementType.INT64):
        return None
    numbers = decode_constant(tensor.element_type, tensor.shape, tensor.data)
    return list(numbers.ravel().tolist())


def find_axes(tensor: Tensor | None, rank: int) -> list[int] | None:
    """The axes that a constant names, counted from the front; None where it is no constant, or names none such."""
    return normal_axes(find_numbers(tensor), rank)


def normal_axes(axes: Sequence[int] | None, rank: int) -> list[int] | None:
    """Axes counted from the front; None where one is outside the rank."""
    if axes is None or any(not -rank <= axis < rank for axis in axes):
        return None
    return [axis % rank for axis in axes]


@cache
def layout_rules() -> Mapping[str, LayoutRule]:
    """The rules, by builtin operator."""
    modules: Mapping[str, Iterable[LayoutRule]] = load_package(
        f"{__package__}.rules", "RULES", name=lambda rules: str(rules[0].ops[0])
    )
    entries = [
        (op, rule, module) for module, rules in modules.items() for rule in rules for op in rule.ops
    ]
    check_unique(
        [(op, f"the rules with {module}") for op, _, module in entries], "Take one of them away."
    )
    return {op: rule for op, rule, _ in entries}


def find_plans(
    subgraph: Subgraph, change: LayoutChange, custom_layouts: Mapping[str, CustomLayout]
) -> dict[Op, OpPlan]:
    """The plans of all ops that can be in the other layout.

    Raises:
      LiteRtError: UNSUPPORTED, for an op that must be in the other layout and has a tensor that cannot.
    """
    rules = layout_rules()
    plans: dict[Op, OpPlan] = {}
    for op in subgraph.ops:
        if op.outputs and op.outputs[0] in change.settled:
            continue  # computed again in each order that it is read in
        if op.is_custom:
            layout = custom_layouts.get(op.name)
            plan = None if layout is None else _plan_custom_op(op, layout, change)
        else:
            rule = rules.get(op.name)
            plan = rule.plan(op, change) if rule is not None and _has_own_options(op) else None
        counts = (len(op.inputs), len(op.outputs))
        if plan is None or (len(plan.inputs), len(plan.outputs)) != counts:
            continue
        problem = _find_problem(op, plan)
        if not problem:
            plans[op] = plan
        elif plan.is_bound:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"{op.name} cannot be in {change.to}: {problem}",
                f"op '{op.outputs[0].name}'",
                "Leave the op to the CPU, or use --disable_nhwc_to_nchw.",
            )
    return plans


def _has_own_options(op: Op) -> bool:
    """Whether a builtin op's options are of the kind that the schema has for it."""
    options = op.options or op.options_2
    found = find_options_type(op.name)
    return options is None or (found is not None and found[1] == options.type_name)


def _find_problem(op: Op, plan: OpPlan) -> str:
    """Why a tensor cannot be permuted as the plan says; "" where all can."""
    edit = plan.edit if isinstance(plan.edit, Edit) else Edit()
    pairs = [
        *((t, p, i) for i, (t, p) in enumerate(zip(op.inputs, plan.inputs, strict=True))),
        *((t, p, -1) for t, p in zip(op.outputs, plan.outputs, strict=True)),
    ]
    for tensor, layout, index in pairs:
        if tensor is None or layout is None or layout is FREE:
            continue
        if len(tensor.shape) != len(layout) and index not in edit.ranks:
            return f"'{tensor.name}' has not {len(layout)} dimensions, but shape {tensor.shape}"
        if tensor.blockwise is not None:
            return f"'{tensor.name}' is quantized by blocks"
        if not tensor.element_type.bits:
            return f"'{tensor.name}' is of type {tensor.element_type.name}"
    for index, permutation in edit.vectors.items():
        vector = op.inputs[index] if index < len(op.inputs) else None
        if vector is None or known_shape(vector)[:1] != (len(permutation),):
            return f"input {index} has not an element for each of {len(permutation)} dimensions"
    return ""


def _plan_custom_op(op: Op, layout: CustomLayout, change: LayoutChange) -> OpPlan | None:
    keeps = change.settled if layout == "image" else ()
    inputs = [None if t is None or t in keeps else change.image(len(t.shape)) for t in op.inputs]
    outputs = [change.image(len(tensor.shape)) for tensor in op.outputs]
    if not any(inputs) and not any(outputs):
        return None
    return OpPlan(inputs, outputs, is_bound=layout == "image")
