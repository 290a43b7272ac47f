"""Places a signature's tensors in the caller's buffers; plans copies for tensors that cannot be placed there."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from dispatch.device_buffer import DeviceBuffer
from dispatch.tensor_buffer import TensorBuffer
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.runtime.host_memory import is_fit_for_cpu, overlap
from litert.runtime.planned_subgraph import PlannedSubgraph
from litert.runtime.tflite_abi import Allocation


class Binding:
    """Binds the inputs and outputs of a signature to the caller's buffers, until the buffers change."""

    def __init__(
        self, subgraph: PlannedSubgraph, inputs: Sequence[int], outputs: Sequence[int]
    ) -> None:
        """Binds no buffers yet; `inputs` and `outputs` are the indices of tensors of the subgraph."""
        self._subgraph = subgraph
        self._tensors = subgraph.tensors
        self._inputs = inputs
        self._outputs = outputs
        # A caller's buffer, and our buffer
        self._copies_in: list[tuple[TensorBuffer, TensorBuffer]] = []
        self._copies_out: list[tuple[int, TensorBuffer]] = []
        self._in_place: list[tuple[int, TensorBuffer]] = []  # the CPU may move them during a run
        self._shared: list[int] = []  # tensors in a vendor's memory that the CPU uses

    @property
    def is_current(self) -> bool:
        """Returns whether the tensors are still at the addresses at which `bind` placed them."""
        return self._tensors.tenant is self

    @property
    def has_copies_out(self) -> bool:
        """Whether `copy_out` must copy an output."""
        return bool(self._copies_out)

    def bind(self, inputs: Sequence[TensorBuffer], outputs: Sequence[TensorBuffer | None]) -> None:
        """Places tensors in buffers that have the right types and are large enough.

        The memory of the subgraph must be planned.

        An output without a buffer stays in the interpreter's memory; callers pass None for outputs with dynamic
        shapes.
        """
        self._take_over()
        self._copies_in.clear()
        self._copies_out.clear()
        self._in_place.clear()
        self._shared.clear()
        for tensor, given in zip(self._inputs, inputs, strict=True):
            self._bind_input(tensor, given)
        for index, (tensor, wanted) in enumerate(zip(self._outputs, outputs, strict=True)):
            if wanted is not None:
                self._bind_output(tensor, wanted, [*inputs, *outputs[:index]])
        for tensor in tuple(self._tensors.homeless):
            self._use_own_memory(tensor)

    def copy_in(self) -> None:
        """Copies the inputs that kernels cannot read in place, and makes device memory accessible to the CPU."""
        for tensor in self._shared:
            self._tensors.hold_memory(tensor)
        for source, destination in self._copies_in:
            ctypes.memmove(destination.address, source.address, destination.size)

    def copy_out(self) -> None:
        """Copies those outputs that the run did not write directly into their buffers.

        The interpreter allocates memory for some outputs during the run if a delegate runs an earlier op whose
        output shape is known only at run time.
        """
        for tensor, buffer in self._copies_out:
            self._copy_out(tensor, buffer)
        for tensor, buffer in self._in_place:
            if self._tensors.tensor(tensor).allocation_type != Allocation.CUSTOM:
                self._subgraph.note_dynamic_tensors()
                self._copy_out(tensor, buffer)

    def _take_over(self) -> None:
        """Moves tensors out of memory that the caller of another signature has given."""
        former = self._tensors.tenant
        if isinstance(former, Binding) and former is not self:
            mine = {*self._inputs, *self._outputs}
            for tensor in {*former._inputs, *former._outputs} - mine:
                if tensor in self._tensors.memory:
                    self._use_own_memory(tensor)
        self._tensors.tenant = self

    def _bind_input(self, tensor: int, buffer: TensorBuffer) -> None:
        if not self._is_in_arena(tensor):
            self._check_writable(tensor)
            self._copies_in.append((buffer, self._tensors.buffer_of(tensor)))
        elif self._can_lie_in(tensor, buffer):
            self._tensors.set_memory(tensor, buffer)
        else:
            self._copies_in.append((buffer, self._use_own_memory(tensor)))

    def _bind_output(
        self, tensor: int, buffer: TensorBuffer, others: Sequence[TensorBuffer | None]
    ) -> None:
        """Binds an output, unless another tensor uses its memory, or the run writes into its tensor."""
        is_shared = (*self._inputs, *self._outputs).count(tensor) > 1
        if is_shared or self._subgraph.has_dynamic_tensors or not self._is_in_arena(tensor):
            self._copies_out.append((tensor, buffer))
        elif self._can_lie_in(tensor, buffer) and not any(o and overlap(buffer, o) for o in others):
            if -1 in self._tensors.shape_signature(tensor):
                self._fit_shape(tensor, buffer)
            self._tensors.set_memory(tensor, buffer)
            if not self._subgraph.is_all_npu:
                self._in_place.append((tensor, buffer))
        else:
            self._use_own_memory(tensor)
            self._copies_out.append((tensor, buffer))

    def _is_in_arena(self, tensor: int) -> bool:
        """Returns whether a tensor's memory is neither constant nor persistent nor allocated during a run."""
        struct = self._tensors.tensor(tensor)
        in_arena = struct.allocation_type in (Allocation.ARENA_RW, Allocation.CUSTOM)
        return in_arena and not struct.is_variable

    def _check_writable(self, tensor: int) -> None:
        """Refuses an input that is a constant of the file, as stock LiteRT does: the file is mapped read-only."""
        allocation = self._tensors.tensor(tensor).allocation_type
        if allocation in (Allocation.MMAP_RO, Allocation.PERSISTENT_RO):
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"input '{self._tensors.tensor_name(tensor)}' cannot be set, because this tensor is a "
                "constant in the model",
                hint="In the model file, remove the tensor from the model's inputs, or remove its data.",
            )

    def _can_lie_in(self, tensor: int, buffer: TensorBuffer) -> bool:
        is_on_cpu = tensor in self._subgraph.cpu_tensors
        if isinstance(buffer, DeviceBuffer):
            if not buffer.is_steady or buffer.tensor_type != self._tensors.tensor_type(tensor):
                return False
            if is_on_cpu:
                self._shared.append(tensor)
        return not is_on_cpu or is_fit_for_cpu(buffer, self._tensors.tensor(tensor).bytes)

    def _fit_shape(self, tensor: int, buffer: TensorBuffer) -> None:
        """Gives a buffer for another shape the shape of its tensor; a flat buffer may stay flat."""
        now = self._tensors.tensor_type(tensor)
        if buffer.tensor_type.shape not in (now.shape, (now.num_elements,)):
            buffer.tensor_type = now

    def _use_own_memory(self, tensor: int) -> TensorBuffer:
        buffer = self._subgraph.make_memory(tensor)
        self._tensors.set_memory(tensor, buffer)
        return buffer

    def _copy_out(self, tensor: int, buffer: TensorBuffer) -> None:
        now = self._tensors.tensor_type(tensor)
        struct = self._tensors.tensor(tensor)
        size = struct.bytes
        if size > buffer.size:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"output '{self._tensors.tensor_name(tensor)}' now has type {now} and needs {size} bytes, "
                f"but its buffer has only {buffer.size} bytes",
                hint="Give the output a larger buffer, or run the model with arrays.",
            )
        if buffer.tensor_type.shape != now.shape:
            buffer.tensor_type = RankedTensorType.of(now.element_type, now.shape)
        if size and struct.data:
            ctypes.memmove(buffer.address, self._tensors.buffer_of(tensor).address, size)
