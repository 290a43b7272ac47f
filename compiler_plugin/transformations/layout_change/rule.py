"""Rules for changes of layout: which inputs and outputs of an op can be permuted, and what else the op needs.

A rule looks at one op at a time and changes nothing. The rule returns an `OpPlan`, or None if the op's tensors
must keep the order of dimensions that they have in the file. For a custom op, the `layout` of the user's op class
replaces the rule. The module `assignment` then chooses plans, and the module `change` applies the chosen plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any, Literal, Protocol, TypeAlias

from compiler_plugin.transformations.layout_change.image_layout import (
    KEEP_LAYOUT,
    LayoutChange,
    Permutation,
)
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.extensions import check_unique, load_package
from litert.model.builtin_options import find_options_type
from litert.model.graph import Op, Subgraph, Tensor
from litert.model.tensor_data import decode_constant

Layouts: TypeAlias = Sequence[Permutation | None]
CustomLayout: TypeAlias = Literal["any", "image"]
"""Layouts that a custom op supports.

`any`: all tensors of rank 4 and 5 may be in NHWC, or all in NCHW. `image`: tensors of rank 4 and 5 are images in
the layout of the graph, except that constants, such as filters, keep the layout that they have in the file.
"""


class Free(Enum):
    """Marks a port whose layout does not depend on the other ports of the op."""

    FREE = "free"


FREE = Free.FREE
PortLayout: TypeAlias = Permutation | Free | None
"""How a change of layout permutes a port; None if it does not; FREE if the cheaper choice is made."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Changes to an op other than the layouts of its tensors.

    Attributes:
      options: New values of builtin options, by name.
      constants: New data for constant inputs, by input index; the element types do not change.
      vectors: Permutations, by input index, for inputs that have an element or a row for each dimension of a
        permuted tensor.
      ranks: Ranks, by input index, to which the shapes of inputs are padded with leading ones before the
        permutation.
      shape_output: Permutation that restores the old order of elements in output 0, if output 0 has an element for
        each dimension; None otherwise.
      is_identity: Whether the changed op only copies input 0 to output 0.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[int, Sequence[int]] = field(default_factory=dict)
    vectors: Mapping[int, Permutation] = field(default_factory=dict)
    ranks: Mapping[int, int] = field(default_factory=dict)
    shape_output: Permutation | None = None
    is_identity: bool = False


@dataclass(frozen=True, slots=True)
class OpPlan:
    """How an op can work in the other layout.

    Attributes:
      inputs, outputs: What happens to each input and output.
      edit: Other changes to the op; or, if ports are free, a function that takes the chosen layouts and returns
        the other changes.
      is_bound: Whether the op must change, because its result depends on the layout of the graph.
      cost: Number of additional elements that the changed op must compute; elements of transposed tensors are not
        included.
    """

    inputs: Sequence[PortLayout]
    outputs: Sequence[PortLayout]
    edit: Edit | Callable[[Layouts, Layouts], Edit] = field(default_factory=Edit)
    is_bound: bool = False
    cost: int = 0


class LayoutRule(Protocol):
    """A layout rule for a family of ops; each module in `rules/` lists its rules in the constant `RULES`."""

    @property
    def ops(self) -> Sequence[str]:
        """Names of the builtin operators that the rule applies to."""
        ...

    def plan(self, op: Op, change: LayoutChange) -> OpPlan | None:
        """Returns how the op can work in the other layout; None if its tensors must keep the file's layout."""
        ...


def known_shape(tensor: Tensor) -> tuple[int, ...]:
    """Returns a tensor's shape, with -1 for dimensions that are known only at run time."""
    signature = tensor.shape_signature
    return tensor.shape if signature is None or len(signature) != len(tensor.shape) else signature


def find_numbers(tensor: Tensor | None) -> list[int] | None:
    """Returns the elements of an integer constant; None for any other tensor."""
    if tensor is None or not tensor.is_constant or tensor.sparsity is not None:
        return None
    if tensor.element_type not in (ElementType.INT32, ElementType.INT64):
        return None
    numbers = decode_constant(tensor.element_type, tensor.shape, tensor.data)
    return list(numbers.ravel().tolist())


def find_axes(tensor: Tensor | None, rank: int) -> list[int] | None:
    """Returns a constant's axes, counted from the front; None if an axis is invalid or there is no constant."""
    return normal_axes(find_numbers(tensor), rank)


def normal_axes(axes: Sequence[int] | None, rank: int) -> list[int] | None:
    """Returns axes counted from the front; None if an axis is outside the rank."""
    if axes is None or any(not -rank <= axis < rank for axis in axes):
        return None
    return [axis % rank for axis in axes]


@cache
def layout_rules() -> Mapping[str, LayoutRule]:
    """Returns a mapping from builtin operators to their rules."""
    modules: Mapping[str, Iterable[LayoutRule]] = load_package(
        f"{__package__}.rules", "RULES", name=lambda rules: str(rules[0].ops[0])
    )
    entries = [
        (op, rule, module) for module, rules in modules.items() for rule in rules for op in rule.ops
    ]
    check_unique(
        [(op, f"the rules with {module}") for op, _, module in entries],
        "Remove one of these rules.",
    )
    return {op: rule for op, rule, _ in entries}


def find_plans(
    subgraph: Subgraph, change: LayoutChange, custom_layouts: Mapping[str, CustomLayout]
) -> dict[Op, OpPlan]:
    """Returns the plans of all ops that can change to the other layout.

    Raises:
      LiteRtError: UNSUPPORTED, if an op must change to the other layout, but one of its tensors cannot.
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
                f"the op's layout cannot change to {change.to}: {problem}",
                f"op {op.name} '{op.outputs[0].name}'",
                KEEP_LAYOUT,
            )
    return plans


def _has_own_options(op: Op) -> bool:
    """Whether the options of a builtin op have the type that the schema defines for the op."""
    options = op.options or op.options_2
    found = find_options_type(op.name)
    return options is None or (found is not None and found[1] == options.type_name)


def _find_problem(op: Op, plan: OpPlan) -> str:
    """Returns why a tensor cannot be permuted as in the plan; "" if all tensors can."""
    edit = plan.edit if isinstance(plan.edit, Edit) else Edit()
    pairs = [
        *((t, p, i) for i, (t, p) in enumerate(zip(op.inputs, plan.inputs, strict=True))),
        *((t, p, -1) for t, p in zip(op.outputs, plan.outputs, strict=True)),
    ]
    for tensor, layout, index in pairs:
        if tensor is None or layout is None or layout is FREE:
            continue
        if len(tensor.shape) != len(layout) and index not in edit.ranks:
            return (
                f"tensor '{tensor.name}' must have {len(layout)} dimensions, but its shape is "
                f"{list(tensor.shape)}"
            )
        if tensor.blockwise is not None:
            return f"tensor '{tensor.name}' is quantized by blocks"
        if not tensor.element_type.bits:
            return f"tensor '{tensor.name}' has type {tensor.element_type.name}, whose elements have no fixed size"
    for index, permutation in edit.vectors.items():
        vector = op.inputs[index] if index < len(op.inputs) else None
        if vector is None or known_shape(vector)[:1] != (len(permutation),):
            return f"input {index} must have {len(permutation)} elements, one for each dimension"
    return ""


def _plan_custom_op(op: Op, layout: CustomLayout, change: LayoutChange) -> OpPlan | None:
    keeps = change.settled if layout == "image" else ()
    inputs = [None if t is None or t in keeps else change.image(len(t.shape)) for t in op.inputs]
    outputs = [change.image(len(tensor.shape)) for tensor in op.outputs]
    if not any(inputs) and not any(outputs):
        return None
    return OpPlan(inputs, outputs, is_bound=layout == "image")
