"""Library kernels for dynamic shapes: the fields of their commands are formulas of the inputs' shapes.

`traced_kernel` makes one kernel for each of several shapes within the bounds; the sizes in these shapes record
their formulas. If all these kernels have the same commands, the commands are right for every shape within the
bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.formula import MOST_CHARACTERS
from litert.core.status import Status
from litert.model.graph import Op, Tensor
from vendor_reference.compiler.library.library_op import Attributes, LibraryOp, PlacedOp
from vendor_reference.compiler.library.traced_size import (
    NotTraceableError,
    TracedSize,
    is_same,
    range_of,
    traced_size,
)
from vendor_reference.compiler.library.views import Placement, View
from vendor_reference.custom_layers.kernel_spec import KernelSpec
from vendor_reference.firmware.instructions import Command, FieldValue, instruction_set

Shape = tuple[int, ...]
Sizes = tuple["int | str", ...]
"""A number for each fixed dimension of a tensor, and a formula of the inputs' shapes for each other dimension."""

_Made = TypeVar("_Made")

Choice = Callable[[int], int]
"""Function that chooses a size for a dimension; the argument is the largest size."""

_CHOICES: Sequence[Choice] = (
    lambda bound: bound,
    lambda bound: 1,
    lambda bound: (bound + 1) // 2,
    lambda bound: max(bound - 1, 1),
)
"""Functions that choose sizes.

`dynamic_kernel` calls an op's `kernel` once for the sizes that each function chooses.
"""


@dataclass(frozen=True, slots=True)
class DynamicTensor:
    """An operand whose shape is known only at run time.

    Attributes:
      bound: Largest shape of the operand.
    """

    placement: Placement
    sizes: Sizes
    bound: Shape

    def view(self, choose: Choice) -> View:
        """Returns a view of the tensor with traced sizes; `choose` gives the values of these sizes."""
        shape = tuple(
            traced_size(size, choose(most), most) if isinstance(size, str) else size
            for size, most in zip(self.sizes, self.bound, strict=True)
        )
        return self.placement.view(shape)


def input_sizes(index: int, pattern: Sequence[int]) -> Sizes:
    """Returns an input's sizes. Sizes of -1, which are known only at run time, become names for formulas."""
    return tuple(f"INPUT{index}_SHAPE[{d}]" if size < 0 else size for d, size in enumerate(pattern))


def result_sizes(rule: LibraryOp, operands: Sequence[Sizes], attributes: Attributes) -> list[Sizes]:
    """Returns the sizes of an op's results, from the sizes of its operands.

    Raises:
      LiteRtError: UNSUPPORTED, if the op has no rule for sizes, or the rule does not support such operands.
    """
    shapes = [
        tuple(traced_size(size, 2) if isinstance(size, str) else size for size in sizes)
        for sizes in operands
    ]
    found = _result_shapes(rule, shapes, attributes)
    return _traced(rule.name, lambda: [tuple(map(_told, shape)) for shape in found])


def largest_results(
    rule: LibraryOp, op: Op, bounds: Mapping[Tensor, Shape]
) -> Sequence[Shape] | str:
    """Returns the largest shapes of an op's results, from the largest shapes of its operands.

    Returns the reason if the shapes are unknown.
    """
    if reason := rule.option_refusal(op):
        return reason
    try:
        found = _op_results(rule, op, _operands(rule, op, bounds))
    except LiteRtError as error:
        return error.what
    return [tuple(range_of(size)[1] for size in shape) for shape in found]


def dynamic_kernel(
    rule: LibraryOp,
    operands: Sequence[DynamicTensor],
    results: Sequence[Placement],
    attributes: Attributes,
) -> KernelSpec:
    """Returns an op's kernel for run-time shapes; it contains formulas of the operands' shapes.

    Raises:
      LiteRtError: UNSUPPORTED, if the op does not support run-time shapes.
    """

    def ask(choose: Choice) -> KernelSpec:
        call = dynamic_call(rule, operands, results, attributes, choose)
        if reason := rule.misfit(call):
            raise LiteRtError(Status.UNSUPPORTED, f"{rule.name}: {reason}")
        return rule.kernel(call)

    return traced_kernel(rule.name, ask)


def dynamic_call(
    rule: LibraryOp,
    operands: Sequence[DynamicTensor],
    results: Sequence[Placement],
    attributes: Attributes,
    choose: Choice = lambda bound: bound,
) -> PlacedOp:
    """Returns an op with traced shapes.

    Raises:
      LiteRtError: UNSUPPORTED, if the operands' shapes do not determine the results' shapes.
    """
    inputs = tuple(operand.view(choose) for operand in operands)
    shapes = _result_shapes(rule, [view.shape for view in inputs], attributes)
    made = tuple(place.view(shape) for place, shape in zip(results, shapes, strict=True))
    alike = rule.shaped_like_result(attributes)
    inputs = tuple(
        operands[index].placement.view(made[0].shape) if index in alike else view
        for index, view in enumerate(inputs)
    )
    return PlacedOp(inputs, made, attributes)


def traced_kernel(name: str, ask: Callable[[Choice], KernelSpec]) -> KernelSpec:
    """Returns the kernel that `ask` makes for traced shapes, with formulas in place of sizes.

    Raises:
      LiteRtError: UNSUPPORTED, if different shapes need different kernels.
    """
    first, *others = (
        _traced(name, lambda: _with_formulas(ask(choose)))  # noqa: B023
        for choose in _CHOICES
    )
    if any(other != first for other in others):
        raise _error(name, "the compiler must know a size to choose the kernel")
    return first


def dynamic_refusal(rule: LibraryOp, op: Op, bounds: Mapping[Tensor, Shape]) -> str:
    """Returns why the NPU cannot run an op on tensors whose shape is known only at run time; "" if it can."""
    if reason := rule.option_refusal(op):
        return reason
    operands = _operands(rule, op, bounds)
    attributes = rule.attributes(op)
    try:
        shapes = _op_results(rule, op, operands)
        for tensor, shape in zip(op.outputs, shapes, strict=True):
            if not _may_be(tensor, shape):
                return (
                    f"for these operands, the result has shape {list(shape)}, but the model declares it as "
                    f"{tensor.type}"
                )
        results = [Placement(tensor.element_type) for tensor in op.outputs]
        if not rule.is_view:
            dynamic_kernel(rule, operands, results, attributes)
    except LiteRtError as error:
        return error.what.removeprefix(f"{rule.name}: ")
    return ""


def _operands(rule: LibraryOp, op: Op, bounds: Mapping[Tensor, Shape]) -> Sequence[DynamicTensor]:
    return [
        DynamicTensor(
            Placement(t.element_type), input_sizes(i, t.type.shape), bounds.get(t, t.shape)
        )
        for i, t in enumerate(rule.operands(op))
    ]


def _op_results(rule: LibraryOp, op: Op, operands: Sequence[DynamicTensor]) -> Sequence[Shape]:
    """Returns the shapes of an op's results for the largest operands."""
    shapes = [operand.view(lambda bound: bound).shape for operand in operands]
    found = _result_shapes(rule, shapes, rule.attributes(op))
    if len(found) != len(op.outputs):
        what = (
            f"{rule.name} computes {count_text(len(found), 'result')}, but in the model, the op has "
            f"{count_text(len(op.outputs), 'output')}"
        )
        raise LiteRtError(Status.UNSUPPORTED, what)
    return found


def _result_shapes(
    rule: LibraryOp, shapes: Sequence[Shape], attributes: Attributes
) -> Sequence[Shape]:
    """Returns the traced shapes of an op's results for traced shapes of its operands."""
    found = _traced(rule.name, lambda: rule.result_shapes(shapes, attributes))
    if found is None:
        shown = " and ".join(str(list(shape)) for shape in shapes)
        what = f"{rule.name} has operands of the shapes {shown}, which do not determine the shape of the result"
        raise LiteRtError(Status.UNSUPPORTED, what)
    return [tuple(shape) for shape in found]


def _may_be(tensor: Tensor, shape: Shape) -> bool:
    """Returns whether a result can have the shape that the model declares."""
    pattern = tensor.type.shape
    return len(shape) == len(pattern) and all(
        fixed < 0 or is_same(size, fixed) for size, fixed in zip(shape, pattern, strict=True)
    )


def _with_formulas(spec: KernelSpec) -> KernelSpec:
    if not spec.commands:
        raise NotTraceableError(
            "only kernels that consist of firmware commands support such shapes"
        )
    return replace(spec, commands=tuple(map(_command, spec.commands)))


def _command(command: Command) -> Command:
    kinds = {field.name: field.kind for field in instruction_set()[command.instruction].fields}
    fields = []
    for name, value in command.fields:
        numbers = value if isinstance(value, tuple) else (value,)
        for number in numbers:
            if not isinstance(number, TracedSize) or kinds[name] == "int":
                continue
            if kinds[name] == "float" or number.least < 0:
                needs = "a fixed number" if kinds[name] == "float" else "a number of at least 0"
                raise NotTraceableError(
                    f"field '{name}' of instruction {command.instruction} needs {needs}, but gets {number}"
                )
        fields.append((name, _told_field(value)))
    return Command(command.instruction, tuple(fields))


def _told_field(value: FieldValue) -> FieldValue:
    return tuple(map(_told, value)) if isinstance(value, tuple) else _told(value)


def _told(number: _Made) -> _Made | str:
    if not isinstance(number, TracedSize):
        return number
    text = str(number)
    if len(text) > MOST_CHARACTERS:
        raise NotTraceableError(
            f"the formula for a size has {len(text)} characters, but at most {MOST_CHARACTERS} are possible"
        )
    return text


def _traced(name: str, compute: Callable[[], _Made]) -> _Made:
    try:
        return compute()
    except NotTraceableError as error:
        raise _error(name, str(error)) from error


def _error(name: str, why: str) -> LiteRtError:
    what = f"the kernel of {name} does not support shapes that are known only at run time: {why}"
    return LiteRtError(Status.UNSUPPORTED, what, hint="Convert the model with fixed shapes.")
