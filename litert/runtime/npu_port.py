"""One input or output of an NPU call, and the memory that is passed to the vendor for it.

Normally, the tensor's own memory is passed to the vendor. If a vendor cannot use host memory, the tensor is placed
in the vendor's memory. A staging buffer takes the place of the tensor's memory in two cases. First, the memory may
not meet a requirement of the vendor or the CPU, such as its alignment, size or type. Second, the memory may be
freed while the vendor uses it.
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

_NOWHERE = -1  # not an address: the memory must be bound again
_IN_ARENA = (Allocation.ARENA_RW, Allocation.CUSTOM)


class NpuPort:
    """Binds a tensor to an input or output of a call.

    Attributes:
      index: Index in the list of the call's inputs or outputs.
      tensor: Index of the tensor in the subgraph.
      compiled_shape: Shape for which the call was compiled; -1 stands for a dimension of any size.
      shape_output: For an output with a dynamic shape, the index of another output, which contains this shape.
      is_dynamic: Whether the shape is known only at run time; False if the vendor knows the shape before a run.
      data: View of the struct field with the pointer to the tensor's memory.
      address: Address of the bound memory. If `data` contains a different address, the memory at that address must
        be bound before the next run.
      staging: Staging buffer that is passed to the vendor; None if the tensor's own memory is bound.
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
        """Creates a port from the facts about the tensor in the file."""
        self.index = index
        self.tensor = tensor
        self.shape_output = shape_output
        self.compiled_shape = subgraph.shape_signature(tensor)
        self.data: memoryview[int] = subgraph.data_field(tensor)
        self.address = _NOWHERE
        self.staging: TensorBuffer | None = None
        self.is_dynamic = shape_output is not None
        self._kind = kind
        # For all shapes that the vendor knows before a run.
        self._largest: TensorBuffer | None = None
        self._subgraph = subgraph

    @property
    def current_type(self) -> RankedTensorType:
        """Returns the current element type and shape of the tensor.

        A dimension is -1 if the inputs do not determine its size.
        """
        now = self._subgraph.tensor_type(self.tensor)
        if self.shape_output is None:
            return now
        return RankedTensorType.of(now.element_type, self.compiled_shape)

    @property
    def buffer(self) -> TensorBuffer:
        """Returns the buffer that the vendor uses."""
        return self.staging or self._subgraph.buffer_of(self.tensor)

    def requirements(self, call: Call) -> TensorBufferRequirements:
        """Returns the vendor's memory requirements."""
        if self._kind == "input":
            return call.input_requirements[self.index]
        return call.output_requirements[self.index]

    def prepare(self, call: Call) -> None:
        """Moves the tensor out of the arena into separate memory if the vendor cannot use the arena's memory.

        This method must be called before the arena is planned.
        """
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
        is_fleeting = subgraph.is_called and self._kind == "output"  # control flow frees the memory
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
        """Gives the tensor the shape that the vendor knows before a run; otherwise, the run determines it."""
        tensor = self._subgraph.tensor(self.tensor)
        self.is_dynamic = shape is None or tensor.allocation_type == Allocation.DYNAMIC
        if shape is None or self.is_dynamic:
            self._subgraph.set_dynamic(self.tensor)
        elif self._subgraph.tensor_type(self.tensor).shape != tuple(shape):
            self._subgraph.resize(self.tensor, shape)

    def bind(self, call: Call) -> None:
        """Passes the tensor's current memory, or the staging buffer, to the vendor."""
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
            and tensor.allocation_type != Allocation.DYNAMIC  # freed when the tensor is resized
            and call.takes(wanted, self._subgraph.buffer_of(self.tensor))
        )

    def _stage(self, call: Call, wanted: TensorBufferRequirements) -> TensorBuffer:
        """Returns a staging buffer: the existing buffer, if it qualifies."""
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
    """Returns a shape that fits a pattern and a buffer; the first unknown dimension gets the largest size."""
    known_bits = element_type.bits * prod(d for d in pattern if d >= 0)
    most = size_bytes * 8 // known_bits if known_bits else 0
    unknown = [i for i, d in enumerate(pattern) if d < 0]
    return tuple(d if d >= 0 else most if i == unknown[0] else 1 for i, d in enumerate(pattern))
