"""Chooses the implementation and configuration of a CPU layer that copies the fewest bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.cpu_layer.library import ConfigurationRefusedError, CpuLayerLibrary
from vendor_reference.cpu_layer.marshal import TensorPlace
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
    """The chosen implementation and configuration for an op.

    Attributes:
      name: Name of the chosen implementation.
      config: Chosen configuration, with all layouts fixed.
      reorders: Number of tensors that must be reordered for the kernel.
    """

    implementation: int
    name: str
    config: CpuConfig
    reorders: int


def choose(
    library: CpuLayerLibrary,
    op: CpuOp,
    incoming: Sequence[MemoryLayout | None] = (),
    patterns: Sequence[Sequence[int] | None] = (),
) -> Choice:
    """Chooses an implementation and a configuration that the library's function `init` accepts.

    Args:
      library: Library that contains the op's layer type.
      op: Description of the op, with its largest shapes.
      incoming: Layouts that the inputs have in memory; None for row-major order, and an empty sequence if all
        inputs have row-major order.
      patterns: Shapes of the op's inputs and outputs in the model, with -1 for sizes that are known only at run
        time; empty if all shapes are fixed.

    Raises:
      LiteRtError: UNSUPPORTED, with the library's message, if the library cannot run the op in any configuration;
        other statuses, as for `CpuLayerLibrary`.
    """
    asked = _Asked(op, incoming, patterns)
    refusals: list[str] = []
    candidates = []
    names = library.implementations(op)
    for implementation, name in enumerate(names):
        for config in library.configurations(op, implementation):
            try:
                settled = asked.settle(config)
                candidates.append((asked.cost(settled), implementation, settled))
            except ValueError as error:
                refusals.append(f"implementation '{name}' {error}")
    candidates.sort(
        key=lambda candidate: candidate[0]
    )  # stable: the library's order decides between equal costs
    for _, implementation, config in candidates:
        accepted, reasons = _negotiate(library, asked, implementation, config)
        if accepted is not None:
            reorders = asked.num_reorders(accepted)
            return Choice(implementation, names[implementation], accepted, reorders)
        refusals += [f"implementation '{names[implementation]}' {reason}" for reason in reasons]
    said = "; ".join(dict.fromkeys(refusals))
    raise LiteRtError(
        Status.UNSUPPORTED,
        f"{library} cannot run the op: {said}",
        op.place,
    )


def alike_configurations(
    library: CpuLayerLibrary, op: CpuOp, config: CpuConfig
) -> Iterator[tuple[int, CpuConfig]]:
    """Yields implementations with configurations that equal `config` if `config` fixes their open layouts."""
    layouts = [tensor.layout if tensor else None for tensor in config.tensors]
    for implementation in range(len(library.implementations(op))):
        for other in library.configurations(op, implementation):
            tensors = [
                tensor and replace(tensor, layout=tensor.layout or layout)
                for tensor, layout in zip(other.tensors, layouts, strict=True)
            ]
            settled = _with_tensors(config, tensors)
            if settled == config:
                yield implementation, settled


def _with_tensors(config: CpuConfig, tensors: Sequence[TensorConfig | None]) -> CpuConfig:
    num_inputs = len(config.inputs)
    outputs = tuple(tensor for tensor in tensors[num_inputs:] if tensor is not None)
    return replace(config, inputs=tuple(tensors[:num_inputs]), outputs=outputs)


def _negotiate(
    library: CpuLayerLibrary, asked: _Asked, implementation: int, config: CpuConfig
) -> tuple[CpuConfig | None, list[str]]:
    """Returns the configuration, or the library's own form of it, that `init` accepts.

    Else None, and the reasons.
    """
    op, reasons = asked.op, list[str]()
    inputs = [None if operand is None else TensorPlace() for operand in op.inputs]
    outputs = [TensorPlace() for _ in op.outputs]
    for _ in range(_MOST_PROPOSALS):
        try:
            library.init(op, implementation, config, inputs, outputs)
            return config, reasons
        except ConfigurationRefusedError as error:
            reasons.append(f"refuses the op{f': {error}' if str(error) else ' without a reason'}")
            if error.proposed is None:
                break
            proposed = error.proposed
        try:
            config = asked.settle(proposed)
        except ValueError as mistake:
            reasons.append(str(mistake))
            break
    return None, reasons


@dataclass(frozen=True, slots=True)
class _Port:
    """An input or output of the op: name for messages, layout outside the kernel, and pattern."""

    name: str
    operand: CpuOperand
    outside: MemoryLayout
    pattern: Sequence[int]

    def settle(self, tensor: TensorConfig, any_layout: MemoryLayout | None) -> TensorConfig:
        own = self.operand.tensor_type
        if tensor.needs_constant and not self.operand.is_constant:
            raise ValueError(f"needs a constant as {self.name}")
        if tensor.element_type is not own.element_type and not (
            tensor.element_type in _FLOATS and own.element_type in _FLOATS
        ):
            wanted, found = tensor.element_type.name, own.element_type.name
            raise ValueError(f"needs element type {wanted} for {self.name}, which is {found}")
        rows = MemoryLayout.row_order(len(own.shape))  # the layout of a network's other layers
        return replace(tensor, layout=tensor.layout or any_layout or rows)

    def cost(self, tensor: TensorConfig) -> int:
        """Returns the bytes that a change of layout moves."""
        own = self.operand.tensor_type
        is_converted = tensor.element_type is not own.element_type
        is_reordered = tensor.layout != self.outside
        return (_REORDER * is_reordered + _CONVERT * is_converted) * own.size_bytes


class _Asked:
    """An op, with the layouts of its tensors outside the kernel."""

    def __init__(
        self,
        op: CpuOp,
        incoming: Sequence[MemoryLayout | None],
        patterns: Sequence[Sequence[int] | None],
    ) -> None:
        self.op = op
        self._ports: list[_Port | None] = []
        for index, operand in enumerate(op.operands):
            if operand is None:
                self._ports.append(None)
                continue
            shape = operand.tensor_type.shape
            output = index - len(op.inputs)
            layout = incoming[index] if index < len(incoming) else None
            self._ports.append(
                _Port(
                    f"input {index}" if output < 0 else f"output {output}",
                    operand,
                    layout or MemoryLayout.row_order(len(shape)),
                    (patterns[index] if patterns else None) or shape,
                )
            )
        shapes = [port.pattern for port in self._ports if port]
        self._is_open = any(-1 in shape for shape in shapes)
        self._is_batch = self._is_open and not any(-1 in shape[1:] for shape in shapes)

    def settle(self, config: CpuConfig) -> CpuConfig:
        """Returns the configuration with a fixed layout for each tensor.

        The dynamic batch stays only if it is used: only its size changes, and no strides.

        Raises:
          ValueError: The configuration is impossible; the text says what the implementation needs.
        """
        any_layout = None if self._is_open else self._any_layout(config)
        tensors = [
            None if tensor is None or port is None else port.settle(tensor, any_layout)
            for tensor, port in zip(config.tensors, self._ports, strict=True)
        ]
        settled = _with_tensors(config, tensors)
        can_be_batch = self._is_batch
        for tensor, port in self._pairs(settled):
            if -1 in port.pattern:
                assert tensor.layout is not None
                if tensor.layout.is_blocked:
                    raise ValueError(
                        f"needs the blocked layout {tensor.layout} for {port.name}, but this tensor's shape is "
                        "known only at run time"
                    )
                can_be_batch = can_be_batch and tensor.layout.order[0] == 0
        if self._is_open and not can_be_batch:
            settled = replace(settled, dynamic_batch=False)
        return settled

    def cost(self, config: CpuConfig) -> tuple[int, int, bool]:
        """Returns the bytes that are moved.

        Then those of the inputs, so that a layout is kept as long as possible.
        """
        pairs = list(self._pairs(config))
        costs = [port.cost(tensor) for tensor, port in pairs]
        num_inputs = len(pairs) - len(self.op.outputs)
        is_made_anew = self._is_open and not config.dynamic_batch
        return sum(costs), sum(costs[:num_inputs]), is_made_anew

    def num_reorders(self, config: CpuConfig) -> int:
        return sum(tensor.layout != port.outside for tensor, port in self._pairs(config))

    def _any_layout(self, config: CpuConfig) -> MemoryLayout | None:
        """Returns the layout for "any": that of the first such tensor, if all of them have one shape.

        None for row order.
        """
        free = [port for tensor, port in self._pairs(config) if tensor.layout is None]
        shapes = {port.operand.tensor_type.shape for port in free}
        return free[0].outside if len(shapes) == 1 else None

    def _pairs(self, config: CpuConfig) -> Iterator[tuple[TensorConfig, _Port]]:
        """Yields the tensors that are present."""
        for tensor, port in zip(config.tensors, self._ports, strict=True):
            if tensor is not None and port is not None:
                yield tensor, port
