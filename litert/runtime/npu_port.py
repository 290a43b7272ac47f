"""One input or output of an NPU call: which memory the vendor is given for it.

That is the tensor's own, where it lies; a tensor of a vendor that takes no host memory lies in the vendor's. Only
where that does not meet the vendor's requirements (alignment, size, type of memory), or the CPU's, or may be freed
while the vendor knows it, a buffer of the call's own stands between: the staging buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from dispatch.call import Call
from dispatch.device import Kind
from dispatch.tensor_buffer import (
    ALIGNMENT,
    BufferType,
    TensorBuffer,
    TensorBufferRequirements,
)
from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType
from litert.runtime.host_memory import allocate, is_fit_for_cpu
from litert.runtime.subgraph import InterpreterSubgraph
from litert.runtime.tflite_abi import Allocation

_NOWHERE = -1  # no address: what is bound there must be bound anew
_IN_ARENA = (Allocation.ARENA_RW, Allocation.CUSTOM)


class NpuPort:
    """Binds a tensor to an input or output of a call.

    Attributes:
      index: among the call's inputs, or among its outputs.
      tensor: its index in the subgraph.
      compiled_shape: what the call was compiled for, with -1 for any dimension.
      shape_output: for an output of dynamic shape, the index of the output that holds the shape.
      is_dynamic: whether its shape is known only after a run; where the vendor tells it before, it is not.
      data: the pointer to the tensor's memory, as a view.
      address: of the memory that was bound; another in `data` is to be bound.
      staging: between tensor and vendor; None where the tensor's own memory is bound.
    """

    __slots__ = (
        "_kind", "_largest", "_subgraph", "address", "compiled_shape", "data", "index", "is_dynamic",
        "shape_output", "staging", "tensor",
    )  # fmt: skip

    def __init__(
        self,
        kind: Kind,
        index: int,
        subgraph: InterpreterSubgraph,
        tensor: int,
        shape_output: int | None = None,
    ) -> None:
        """A port, as the file has it."""
        self.index = index
        self.tensor = tensor
        self.shape_output = shape_output
        self.compiled_shape = subgraph.shape_signature(tensor)
        self.data: memoryview[int] = subgraph.data_field(tensor)
        self.address = _NOWHERE
        self.staging: TensorBuffer | None = None
        self.is_dynamic = shape_output is not None
        self._kind = kind
        # For all shapes that the vendor tells before a run.
        self._largest: TensorBuffer | None = None
        self._subgraph = subgraph

    @property
    def current_type(self) -> RankedTensorType:
        """Element type and shape as they are now; -1 for dimensions of an output that inputs' do not settle."""
        now = self._subgraph.tensor_type(self.tensor)
        if self.shape_output is None:
            return now
        return RankedTensorType.of(now.element_type, self.compiled_shape)

    @property
    def buffer(self) -> TensorBuffer:
        """What the vendor has."""
        return self.staging or self._subgraph.buffer_of(self.tensor)

    def requirements(self, call: Call) -> TensorBufferRequirements:
        """What memory the vendor wants for it."""
        if self._kind == "input":
            return call.input_requirements[self.index]
        return call.output_requirements[self.index]

    def prepare(self, call: Call) -> None:
        """Puts the tensor into memory of ours, where the arena's will not do; before the arena is planned."""
        self.address = _NOWHERE
        subgraph = self._subgraph
        wanted = self.requirements(call)
        if self.shape_output is not None:
            self._settle_shape(wanted.shape)
        tensor = subgraph.tensor(self.tensor)
        if tensor.allocation_type not in _IN_ARENA or tensor.is_variable:
            return
        tensor_type = subgraph.tensor_type(self.tensor)
        held = subgraph.memory.get(self.tensor, self._largest)
        if held is not None and held.size >= tensor.bytes and call.takes(wanted, held):
            if held is self._largest:
                held.tensor_type = tensor_type
            subgraph.set_memory(self.tensor, held)
            return
        is_fleeting = subgraph.is_called and self._kind == "output"  # control flow frees it
        if (
            held is None
            and wanted.alignment <= ALIGNMENT
            and wanted.size <= tensor.bytes
            and BufferType.HOST_MEMORY in wanted.supported_types
            and not is_fleeting
            and not call.shares_memory
        ):
            return
        size = max(wanted.size, tensor.bytes)
        made: TensorBuffer | None = call.allocate(wanted, tensor_type, size)
        if made is None or not is_fit_for_cpu(made, tensor.bytes):
            made = allocate(tensor_type, size)
        if self.shape_output is not None:
            self._largest = made
        subgraph.set_memory(self.tensor, made)

    def _settle_shape(self, shape: Sequence[int] | None) -> None:
        """Gives the tensor the shape that the vendor tells before a run; without one, a run does."""
        tensor = self._subgraph.tensor(self.tensor)
        self.is_dynamic = shape is None or tensor.allocation_type == Allocation.DYNAMIC
        if shape is None or self.is_dynamic:
            self._subgraph.set_dynamic(self.tensor)
        elif self._subgraph.tensor_type(self.tensor).shape != tuple(shape):
            self._subgraph.resize(self.tensor, shape)

    def bind(self, call: Call) -> None:
        """Gives the vendor the memory that the tensor has now, or the staging buffer."""
        wanted = self.requirements(call)
        self.staging = None if self._can_be_direct(call, wanted) else self._stage(call, wanted)
        if self._kind == "input":
            call.bind_input(self.index, self.buffer)
        else:
            call.bind_output(self.index, self.buffer)
        self.address = self.data[0]

    def _can_be_direct(self, call: Call, wanted: TensorBufferRequirements) -> bool:
        tensor = self._subgraph.tensor(self.tensor)
        return (
            not self.is_dynamic
            and bool(tensor.data)
            and tensor.allocation_type != Allocation.DYNAMIC  # freed by whoever resizes it
            and call.takes(wanted, self._subgraph.buffer_of(self.tensor))
        )

    def _stage(self, call: Call, wanted: TensorBufferRequirements) -> TensorBuffer:
        """A staging buffer: the one that is there, if it will do."""
        tensor_type = self._subgraph.tensor_type(self.tensor)
        if self.is_dynamic:
            shape = largest_shape(self.compiled_shape, wanted.size, tensor_type.element_type)
            tensor_type = RankedTensorType.of(tensor_type.element_type, shape)
        size, former = max(wanted.size, tensor_type.size_bytes), self.staging
        if former is not None and former.size >= size and call.takes(wanted, former):
            former.tensor_type = tensor_type
            return former
        return call.allocate(wanted, tensor_type, size) or allocate(tensor_type, size)


def largest_shape(
    pattern: Sequence[int], size_bytes: int, element_type: ElementType
) -> tuple[int, ...]:
    """A shape of a pattern that fills a buffer: the first unknown dimension takes what there is."""
    known_bits = element_type.bits * prod(d for d in pattern if d >= 0)
    most = size_bytes * 8 // known_bits if known_bits else 0
    unknown = [i for i, d in enumerate(pattern) if d < 0]
    return tuple(d if d >= 0 else most if i == unknown[0] else 1 for i, d in enumerate(pattern))
