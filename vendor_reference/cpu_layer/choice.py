"""Which implementation of a CPU layer an op gets, in which configuration: the one with the least reorders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.cpu_layer.kernel import TensorPlace
from vendor_reference.cpu_layer.library import ConfigurationRefusedError, CpuLayerLibrary
from vendor_reference.executable.cpu_op import (
    CpuConfig,
    CpuOp,
    CpuOperand,
    MemoryLayout,
    TensorConfig,
)

_FLOATS = (ElementType.FLOAT16, ElementType.FLOAT32, ElementType.FLOAT64)
_MOST_PROPOSALS = 8
_REORDER, _CONVERT = 2, 1  # bytes that are read and written again, for each byte of a tensor


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen for an op.

    Attributes:
      name: of the implementation.
      config: with all layouts settled.
      reorders: of tensors that come or go in another order than the kernel's.
    """

    implementation: int
    name: str
    config: CpuConfig
    reorders: int


@dataclass(frozen=True, slots=True)
class Patterns:
    """Shapes of an op's tensors as the model has them, with -1 for what a run tells.

    Attributes:
      inputs: None for one that is left out.
    """

    inputs: Sequence[Sequence[int] | None]
    outputs: Sequence[Sequence[int]]

    @classmethod
    def of(cls, op: CpuOp) -> Patterns:
        """Those of an op whose shapes are all fixed."""
        return cls(
            [None if o is None else o.tensor_type.shape for o in op.inputs],
            [o.tensor_type.shape for o in op.outputs],
        )

    @property
    def is_open(self) -> bool:
        """Whether a run tells any."""
        return any(-1 in pattern for pattern in self._all)

    @property
    def is_batch(self) -> bool:
        """Whether a run tells dimension 0, and nothing else."""
        return self.is_open and not any(-1 in pattern[1:] for pattern in self._all)

    @property
    def _all(self) -> Sequence[Sequence[int]]:
        return [*(p for p in self.inputs if p is not None), *self.outputs]


def choose(
    library: CpuLayerLibrary,
    op: CpuOp,
    incoming: Sequence[MemoryLayout | None] = (),
    patterns: Patterns | None = None,
) -> Choice:
    """Chooses an implementation that `init` takes.

    Args:
      library: that has the op's layer type.
      op: with its largest shapes.
      incoming: the layouts that inputs come in; None, or nothing, for row order.
      patterns: of its shapes; None where all are fixed.

    Raises:
      LiteRtError: UNSUPPORTED, if the library can none, with what it says; as `CpuLayerLibrary`.
    """
    layouts = list(incoming) or [None] * len(op.inputs)
    patterns = patterns or Patterns.of(op)
    settle = partial(_settle, op=op, incoming=layouts, patterns=patterns)
    refusals: list[str] = []
    candidates = []
    names = library.implementations(op)
    for implementation, name in enumerate(names):
        for config in library.configurations(op, implementation):
            try:
                settled = settle(config)
            except ValueError as error:
                refusals.append(f"{name}: {error}")
                continue
            is_made_anew = patterns.is_open and not settled.dynamic_batch
            cost = (*_cost(settled, op, layouts), is_made_anew)
            candidates.append((cost, implementation, settled))
    candidates.sort(key=lambda candidate: candidate[0])  # stable: the library's order decides
    for _, implementation, config in candidates:
        accepted, reasons = _negotiate(library, op, implementation, config, settle)
        if accepted is not None:
            reorders = _num_reorders(accepted, op, layouts)
            return Choice(implementation, names[implementation], accepted, reorders)
        refusals += [f"{names[implementation]}: {reason}" for reason in reasons]
    said = "; ".join(dict.fromkeys(refusals))
    raise LiteRtError(
        Status.UNSUPPORTED, f"{library} has no configuration for it: {said}", f"op '{op.name}'"
    )


def alike_configurations(
    library: CpuLayerLibrary, op: CpuOp, config: CpuConfig
) -> Iterator[tuple[int, CpuConfig]]:
    """Implementations with configurations that take an op's tensors just as one does."""
    for implementation in range(len(library.implementations(op))):
        for other in library.configurations(op, implementation):
            inputs = zip(other.inputs, config.inputs, strict=True)
            outputs = zip(other.outputs, config.outputs, strict=True)
            settled = CpuConfig(
                tuple(_settle_like(tensor, like) for tensor, like in inputs),
                tuple(
                    replace(tensor, layout=tensor.layout or like.layout) for tensor, like in outputs
                ),
                config.dynamic_batch,
            )
            if settled == config:
                yield implementation, settled


def _settle_like(tensor: TensorConfig | None, like: TensorConfig | None) -> TensorConfig | None:
    if tensor is None or like is None:
        return tensor
    return replace(tensor, layout=tensor.layout or like.layout)


def _negotiate(
    library: CpuLayerLibrary,
    op: CpuOp,
    implementation: int,
    config: CpuConfig,
    settle: Callable[[CpuConfig], CpuConfig],
) -> tuple[CpuConfig | None, list[str]]:
    """The configuration, or what the library makes of it, once `init` has taken it; else None, and the reasons."""
    reasons: list[str] = []
    inputs = [None if operand is None else TensorPlace() for operand in op.inputs]
    outputs = [TensorPlace() for _ in op.outputs]
    for _ in range(_MOST_PROPOSALS):
        try:
            library.init(op, implementation, config, inputs, outputs)
            return config, reasons
        except ConfigurationRefusedError as error:
            reasons.append(str(error) or "not implemented")
            if error.proposed is None:
                break
            proposed = error.proposed
        try:
            config = settle(proposed)
        except ValueError as mistake:
            reasons.append(str(mistake))
            break
    return None, reasons


def _settle(
    config: CpuConfig, op: CpuOp, incoming: Sequence[MemoryLayout | None], patterns: Patterns
) -> CpuConfig:
    """The configuration with a layout for each tensor.

    Raises:
      ValueError: in words, for one that cannot be met.
    """
    layout = None if patterns.is_open else _any_layout(config, op, incoming)
    inputs = [
        None if operand is None or tensor is None else _settle_tensor(tensor, operand, layout, f"input {i}")
        for i, (tensor, operand) in enumerate(zip(config.inputs, op.inputs, strict=True))
    ]  # fmt: skip
    outputs = [
        _settle_tensor(tensor, operand, layout, f"output {i}")
        for i, (tensor, operand) in enumerate(zip(config.outputs, op.outputs, strict=True))
    ]
    settled = replace(config, inputs=tuple(inputs), outputs=tuple(outputs))
    return _settle_batch(settled, patterns) if patterns.is_open else settled


def _settle_batch(config: CpuConfig, patterns: Patterns) -> CpuConfig:
    """With a dynamic batch only where that is used: it is all that changes, and changes no strides.

    Raises:
      ValueError: for blocks of a tensor whose shape a run tells.
    """
    can_be = patterns.is_batch
    for tensor, pattern in zip(config.tensors, (*patterns.inputs, *patterns.outputs), strict=True):
        if tensor is None or pattern is None or -1 not in pattern:
            continue
        assert tensor.layout is not None
        if tensor.layout.is_blocked:
            raise ValueError(f"blocks ({tensor.layout}) of a tensor whose shape a run tells")
        can_be = can_be and tensor.layout.order[0] == 0
    return replace(config, dynamic_batch=config.dynamic_batch and can_be)


def _any_layout(
    config: CpuConfig, op: CpuOp, incoming: Sequence[MemoryLayout | None]
) -> MemoryLayout | None:
    """What "any" is: as the first such input comes, if all such tensors have one shape; None for row order."""
    tensors = [*zip(config.inputs, op.inputs, incoming, strict=True)]
    inputs = [(o, i) for t, o, i in tensors if t is not None and t.layout is None and o is not None]
    outputs = [o for t, o in zip(config.outputs, op.outputs, strict=True) if t.layout is None]
    shapes = {o.tensor_type.shape for o in (*(o for o, _ in inputs), *outputs)}
    return inputs[0][1] if inputs and len(shapes) == 1 else None


def _settle_tensor(
    tensor: TensorConfig, operand: CpuOperand, any_layout: MemoryLayout | None, which: str
) -> TensorConfig:
    own = operand.tensor_type
    if tensor.needs_constant and not operand.is_constant:
        raise ValueError(f"{which} is no constant")
    if tensor.element_type is not own.element_type and not (
        tensor.element_type in _FLOATS and own.element_type in _FLOATS
    ):
        raise ValueError(f"{which} is {own.element_type.name}, not {tensor.element_type.name}")
    rows = MemoryLayout.row_order(len(own.shape))  # what a network's other layers work in
    return replace(tensor, layout=tensor.layout or any_layout or rows)


def _cost(config: CpuConfig, op: CpuOp, incoming: Sequence[MemoryLayout | None]) -> tuple[int, int]:
    """Bytes that are moved for it; then those of its inputs, so that a layout is kept while it can be."""
    layouts = (*incoming, *(None for _ in op.outputs))
    costs = [
        0 if tensor is None or operand is None else _tensor_cost(tensor, operand, layout)
        for tensor, operand, layout in zip(config.tensors, op.operands, layouts, strict=True)
    ]
    return sum(costs), sum(costs[: len(op.inputs)])


def _tensor_cost(tensor: TensorConfig, operand: CpuOperand, incoming: MemoryLayout | None) -> int:
    cost = 0
    if _is_reordered(tensor, incoming):
        cost += _REORDER * operand.tensor_type.size_bytes
    if tensor.element_type is not operand.tensor_type.element_type:
        cost += _CONVERT * operand.tensor_type.size_bytes
    return cost


def _num_reorders(config: CpuConfig, op: CpuOp, incoming: Sequence[MemoryLayout | None]) -> int:
    layouts = (*incoming, *(None for _ in op.outputs))
    pairs = zip(config.tensors, layouts, strict=True)
    return sum(tensor is not None and _is_reordered(tensor, layout) for tensor, layout in pairs)


def _is_reordered(tensor: TensorConfig, incoming: MemoryLayout | None) -> bool:
    assert tensor.layout is not None
    if incoming is None:
        return not tensor.layout.is_row_order
    return tensor.layout != incoming
