"""A signature of a model, which checks the buffers for its inputs and outputs, and runs its subgraph."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from dispatch.device import Kind
from dispatch.event import Event, wait_for_all
from dispatch.tensor_buffer import TensorBuffer, TensorBufferRequirements
from litert.core.counts import count_text, names_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.runtime.binding import Binding
from litert.runtime.host_memory import is_read_only
from litert.runtime.planned_subgraph import PlannedSubgraph

if TYPE_CHECKING:
    import numpy as np

PLACEHOLDER_SIGNATURE = "<placeholder signature>"
"""Stock LiteRT's key for the main subgraph of a model without signatures."""


def signature_text(key: str) -> str:
    """Returns the text that names a signature in messages."""
    return "the main subgraph" if key == PLACEHOLDER_SIGNATURE else f"signature '{key}'"


class SignatureTensor(NamedTuple):
    """An input or output of a signature: its name in the signature, and its tensor's index in the subgraph."""

    kind: Kind
    name: str
    tensor: int


class SignatureRunner:
    """Runs one signature; callers must hold the model's lock.

    Attributes:
      key: Name of the signature.
      subgraph: Subgraph that the signature runs.
      inputs, outputs: Inputs and outputs of the signature, in the subgraph's order.
    """

    def __init__(
        self,
        key: str,
        subgraph: PlannedSubgraph,
        inputs: Sequence[SignatureTensor],
        outputs: Sequence[SignatureTensor],
    ) -> None:
        self.key = key
        self.inputs = inputs
        self.outputs = outputs
        self.subgraph = subgraph
        self._tensors = subgraph.tensors
        self._binding = Binding(subgraph, [a.tensor for a in inputs], [a.tensor for a in outputs])
        self._given: tuple[Sequence[TensorBuffer | None], Sequence[TensorBuffer | None]] = ([], [])
        self._last_inputs: list[TensorBuffer | None] = [None] * len(inputs)

    def run(
        self, inputs: Sequence[TensorBuffer | None], outputs: Sequence[TensorBuffer | None]
    ) -> None:
        """Runs the signature on buffers, without copies if the kernels can use the buffers' memory.

        Args:
          inputs: One buffer for each input; None means that the buffer of the previous run is used again.
          outputs: One buffer for each output; None means that the caller reads the output with `read_output`.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if a buffer has the wrong type, shape or size; MISSING_INPUT_TENSOR, if an
            input has no buffer; RUNTIME_FAILURE, if the run fails; or an error of a vendor. The signature can run
            again after an error.
        """
        self._rebind(inputs, outputs)
        self._binding.copy_in()
        self.subgraph.run()
        self.subgraph.has_run = True
        self._binding.copy_out()

    def is_all_npu(self) -> bool:
        """Whether the signature consists only of NPU calls, so that `start` can be used."""
        self.subgraph.plan()
        return self.subgraph.is_all_npu

    def start(
        self, inputs: Sequence[TensorBuffer | None], outputs: Sequence[TensorBuffer]
    ) -> Sequence[Event]:
        """Starts a run that consists only of NPU calls; returns the events of all active calls."""
        with self.subgraph.collect_events() as events:
            try:
                self._rebind(inputs, outputs)
                self._binding.copy_in()
                self.subgraph.run()
                self.subgraph.has_run = True
                if self._binding.has_copies_out:
                    wait_for_all(events)
                    self._binding.copy_out()
            except BaseException:
                with suppress(LiteRtError):
                    wait_for_all(events)
                raise
        return events

    def read_output(self, argument: SignatureTensor) -> np.ndarray[Any, Any]:
        """Returns a copy of an output that had no buffer in the last run."""
        return self._tensors.buffer_of(argument.tensor).copy()

    def fit_shapes(self, shapes: Sequence[Sequence[int]]) -> None:
        """Sets the shapes of the inputs, which determine the shapes of the outputs."""
        for argument, shape in zip(self.inputs, shapes, strict=True):
            self.resize(argument, shape)
        self.subgraph.plan()

    def tensor_type(self, argument: SignatureTensor) -> RankedTensorType:
        """Returns the current element type and shape of an input or output.

        A dimension that is known only at run time is -1 until a run has ended.
        """
        if argument.kind == "output":
            self.subgraph.plan()
        return self.subgraph.tensor_type(argument.tensor)

    def tensor_name(self, argument: SignatureTensor) -> str:
        """Returns the tensor's own name, which may differ from the name in the signature."""
        return self._tensors.tensor_name(argument.tensor)

    def requirements(self, argument: SignatureTensor) -> TensorBufferRequirements:
        """Returns the memory requirements of an input's or output's tensor."""
        self.subgraph.plan()
        return self.subgraph.requirements(argument.tensor, self.where(argument))

    def allocate(
        self,
        argument: SignatureTensor,
        former: TensorBuffer | None = None,
        *,
        is_for_all_shapes: bool = False,
    ) -> TensorBuffer:
        """Allocates a buffer that can be bound to an input or output without a copy.

        The other arguments are the same as in `PlannedSubgraph.allocate`.
        """
        self.subgraph.plan()
        where, tensor_type = self.where(argument), self._tensors.tensor_type(argument.tensor)
        if tensor_type.element_type.bits == 0:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"the {argument.kind} has element type {tensor_type.element_type.name}, which has no "
                "fixed size in bytes",
                where,
                "Run the model with stock LiteRT: ai_edge_litert.interpreter.Interpreter.",
            )
        stored = self._tensors.tensor(argument.tensor)
        if stored.sparsity and stored.bytes < tensor_type.size_bytes:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"the {argument.kind} is a sparse constant of the model, which cannot be stored "
                "in a buffer",
                where,
                "Make the constant dense, or remove it from the signature.",
            )
        return self.subgraph.allocate(
            argument.tensor, where, former, is_for_all_shapes=is_for_all_shapes
        )

    def find(self, kind: Kind, name: str) -> SignatureTensor:
        """Returns an input or output by its name."""
        arguments = self.inputs if kind == "input" else self.outputs
        for argument in arguments:
            if argument.name == name:
                return argument
        known = [argument.name for argument in arguments]
        raise LiteRtError(
            Status.NOT_FOUND,
            f"the model has no {kind} '{name}'",
            signature_text(self.key),
            f"{names_text(kind, known)}.",
        )

    def resize(
        self, argument: SignatureTensor, shape: Sequence[int], *, strict: bool = True
    ) -> None:
        """Sets an input's shape; with `strict`, only dynamic dimensions of the input may change."""
        self.subgraph.resize(argument.tensor, shape, self.where(argument), strict=strict)

    def _rebind(
        self, given_inputs: Sequence[TensorBuffer | None], outputs: Sequence[TensorBuffer | None]
    ) -> None:
        """Binds buffers, unless the last run used the same buffers."""
        if self._given == (given_inputs, outputs) and self._binding.is_current:
            return
        self._given = ([], [])
        self._check_count("input", len(given_inputs), len(self.inputs))
        self._check_count("output", len(outputs), len(self.outputs))
        inputs = [
            self._fit_input(argument, given or last)
            for argument, given, last in zip(
                self.inputs, given_inputs, self._last_inputs, strict=True
            )
        ]
        self.subgraph.plan()
        for argument, buffer in zip(self.outputs, outputs, strict=True):
            if buffer is not None:
                self._check_output(argument, buffer)
        self._binding.bind(inputs, outputs)
        self._last_inputs = [*inputs]
        self._given = ([*given_inputs], [*outputs])

    def _check_count(self, kind: Kind, given: int, expected: int) -> None:
        if given != expected:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the call passes {count_text(given, f'{kind} buffer')}, but the model has "
                f"{count_text(expected, kind)}",
                signature_text(self.key),
                f"Give one buffer for each {kind}, in the order of the {kind}s.",
            )

    def _fit_input(self, argument: SignatureTensor, buffer: TensorBuffer | None) -> TensorBuffer:
        """Checks an input's buffer; a buffer of another shape resizes the input, if the model allows that."""
        if buffer is None:
            raise LiteRtError(
                Status.MISSING_INPUT_TENSOR,
                "no buffer was given for the input, in this run or in an earlier run",
                self.where(argument),
                "Give a buffer for each input.",
            )
        self._check_element_type(argument, buffer)
        flat = (self._tensors.tensor_type(argument.tensor).num_elements,)
        if buffer.tensor_type.shape != flat:
            self.resize(argument, buffer.tensor_type.shape)
        self._check_size(argument, buffer)
        return buffer

    def _check_output(self, argument: SignatureTensor, buffer: TensorBuffer) -> None:
        self._check_element_type(argument, buffer)
        if is_read_only(buffer):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                "the output cannot be written: its buffer shares the memory of a read-only array",
                self.where(argument),
                "Give a buffer that can be written.",
            )
        if not self.subgraph.has_dynamic_tensors:
            self._check_size(argument, buffer)

    def _check_element_type(self, argument: SignatureTensor, buffer: TensorBuffer) -> None:
        expected = self._tensors.tensor_type(argument.tensor).element_type
        given = buffer.tensor_type.element_type
        if given is not expected:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the buffer has type {given.name}, but the model's {argument.kind} has type {expected.name}",
                self.where(argument),
                f"Create buffers with create_{argument.kind}_buffers of the model.",
            )

    def _check_size(self, argument: SignatureTensor, buffer: TensorBuffer) -> None:
        size = self._tensors.tensor(argument.tensor).bytes
        if buffer.size < size:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the buffer has {buffer.size} bytes, but the {argument.kind} of type "
                f"{self._tensors.tensor_type(argument.tensor)} needs {size} bytes",
                self.where(argument),
                f"Create buffers with create_{argument.kind}_buffers of the model, and create new buffers after a "
                "resize.",
            )

    def where(self, argument: SignatureTensor) -> str:
        """Returns a text with the name of an input or output, for errors."""
        return f"{argument.kind} '{argument.name}' of {signature_text(self.key)}"
