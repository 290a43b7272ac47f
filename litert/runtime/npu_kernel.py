"""One NPU call in the interpreter's graph: a delegate kernel that hands its tensors to the dispatch table.

Tensors are handed over where they lie. Only where their memory does not meet the vendor's requirements
(alignment, size), or may be freed while the vendor knows it, a buffer of the call's own stands between.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from dispatch.call import Call
from dispatch.event import Event
from dispatch.tensor_buffer import ALIGNMENT, TensorBuffer, TensorBufferRequirements
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.runtime.host_memory import allocate
from litert.runtime.metrics import CallMeter
from litert.runtime.subgraph import OPTIONAL, InterpreterSubgraph
from litert.runtime.tflite_abi import Allocation

OpenCall = Callable[[Sequence[RankedTensorType], Sequence[RankedTensorType]], Call]
"""Opens the call for these types of inputs and outputs; -1 stands for dimensions known only after a run."""

_NOWHERE = -1  # no address: what is bound there must be bound anew
_IN_ARENA = (Allocation.ARENA_RW, Allocation.CUSTOM)


@dataclass(slots=True)
class _Port:
    """An input or output of the call.

    Attributes:
      index: among the call's inputs, or among its outputs.
      tensor: its index in the subgraph.
      compiled_shape: what the call was compiled for, with -1 for any dimension.
      shape_output: for an output of dynamic shape, the output that holds the shape.
      data: the pointer to the tensor's memory, as a view.
      address: of the memory that is bound.
      staging: memory between the tensor and the vendor; None where the tensor's own is bound.
    """

    kind: Literal["input", "output"]
    index: int
    tensor: int
    compiled_shape: tuple[int, ...]
    shape_output: int | None = None
    data: memoryview[int] = field(default_factory=lambda: memoryview(b""))
    address: int = _NOWHERE
    staging: TensorBuffer | None = None


class NpuKernel:
    """Binds one call's tensors, and runs it.

    Attributes:
      name: of the function in the byte code.
      call: the open call.
      meter: measures runs; None where nobody asked.
      pending: takes the events of a run that need not be waited for; None for runs that wait.
    """

    def __init__(
        self,
        name: str,
        subgraph: InterpreterSubgraph,
        inputs: Sequence[int],
        outputs: Sequence[int],
        shape_outputs: Mapping[int, int],
        open_call: OpenCall,
    ) -> None:
        """Opens the call for the shapes that the file has.

        Args:
          name: of the function in the byte code.
          subgraph: that the call is in.
          inputs: tensors, in the order in which the vendor has them.
          outputs: as the inputs.
          shape_outputs: for outputs of dynamic shape, the output that holds the shape, by index.
          open_call: opens the call.

        Raises:
          LiteRtError: INVALID_FLATBUFFER, for inputs and outputs that cannot be; the vendor's.
        """
        self.name = name
        self.meter: CallMeter | None = None
        self.pending: list[Event] | None = None
        self._subgraph = subgraph
        self._open_call = open_call
        self._check_indices(inputs, outputs, shape_outputs)
        self._inputs = [self._port("input", i, tensor) for i, tensor in enumerate(inputs)]
        self._outputs = [self._port("output", i, tensor) for i, tensor in enumerate(outputs)]
        for output, shape_output in shape_outputs.items():
            self._outputs[output].shape_output = shape_output
        self._dynamic = [port for port in self._outputs if port.shape_output is not None]
        self._watched = [
            *self._inputs, *(port for port in self._outputs if port.shape_output is None)
        ]  # fmt: skip
        self._copies_in: list[tuple[int, int, int]] = []  # arguments of memmove
        self._copies_out: list[tuple[int, int, int]] = []
        self._tensors_address = _NOWHERE
        self._input_types = self._current_input_types()
        self.call = open_call(self._input_types, self._output_types())

    def prepare(self) -> None:
        """Gets ready for the shapes as they are now; the arena is planned after it.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for shapes that the call was not compiled for; the vendor's.
        """
        input_types = self._current_input_types()
        if input_types != self._input_types:
            self._reopen(input_types)
        self._tensors_address = _NOWHERE
        self._subgraph.forget_arena()
        for port in self._dynamic:
            self._subgraph.set_dynamic(port.tensor)
        for port in self._watched:
            port.address = _NOWHERE
            self._provide_memory(port)

    def run(self) -> None:
        """Runs the call on the tensors.

        Raises:
          LiteRtError: the vendor's; RUNTIME_FAILURE, for a dynamic shape that cannot be. It can be run again.
        """
        if self._subgraph.tensors_field[0] != self._tensors_address:
            self._look_up_tensors()
        for port in self._watched:
            if port.data[0] != port.address:
                self._bind(port)
        if self.pending is not None:
            if self._is_direct:
                self.pending += self.call.invoke_async()
                return
            for event in self.pending:  # calls before this one, which may write what is copied now
                event.wait()
        for destination, source, size in self._copies_in:
            ctypes.memmove(destination, source, size)
        if self.meter is None:
            self.call.invoke()
        else:
            with self.meter:
                self.call.invoke()
        for destination, source, size in self._copies_out:
            ctypes.memmove(destination, source, size)
        for port in self._dynamic:
            self._write_dynamic(port)

    def requirements(self, tensor: int) -> list[TensorBufferRequirements]:
        """What the vendor wants of a tensor's memory, once for each place where the call has it."""
        return [
            self._requirements(p) for p in (*self._inputs, *self._outputs) if p.tensor == tensor
        ]

    @property
    def _is_direct(self) -> bool:
        """Whether the tensors' own memory is bound, so that nothing is left to do after a run."""
        return not self._copies_in and not self._copies_out and not self._dynamic

    def _port(self, kind: Literal["input", "output"], index: int, tensor: int) -> _Port:
        subgraph = self._subgraph
        shape = subgraph.shape_signature(tensor) or subgraph.tensor_type(tensor).shape
        return _Port(kind, index, tensor, shape)

    def _check_indices(
        self, inputs: Sequence[int], outputs: Sequence[int], shape_outputs: Mapping[int, int]
    ) -> None:
        missing = [i for i in (*inputs, *outputs) if i == OPTIONAL]
        bad = [i for pair in shape_outputs.items() for i in pair if not 0 <= i < len(outputs)]
        if missing or bad:
            raise LiteRtError(
                Status.INVALID_FLATBUFFER,
                "an NPU call leaves out an input"
                if missing
                else f"shape output {bad[0]} of an NPU call with {len(outputs)} outputs",
                self._where,
                "Compile the model again.",
            )

    @property
    def _where(self) -> str:
        return f"NPU call '{self.name}'"

    def _current_input_types(self) -> list[RankedTensorType]:
        return [self._subgraph.tensor_type(port.tensor) for port in self._inputs]

    def _output_types(self) -> list[RankedTensorType]:
        return [self._output_type(port) for port in self._outputs]

    def _output_type(self, port: _Port) -> RankedTensorType:
        now = self._subgraph.tensor_type(port.tensor)
        if port.shape_output is None:
            return now
        return RankedTensorType.of(now.element_type, port.compiled_shape)

    def _reopen(self, input_types: list[RankedTensorType]) -> None:
        """Opens the call anew for other shapes; if that fails, the next `prepare` tries again."""
        for port, now in zip(self._inputs, input_types, strict=True):
            if not _is_of_shape(now.shape, port.compiled_shape):
                compiled = RankedTensorType.of(now.element_type, port.compiled_shape)
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"input {port.index} is {now} now, and was compiled as {compiled}",
                    self._where,
                    "Compile the model for that shape.",
                )
        for port in self._outputs:
            if port.shape_output is None and -1 in port.compiled_shape:
                raise LiteRtError(
                    Status.UNSUPPORTED,
                    f"output {port.index} has unknown dimensions, and no other output for its shape",
                    self._where,
                    "Keep the shapes that the file has.",
                )
        if self.meter is not None:
            self.meter.collect()
        self.call.close()
        self._input_types = []
        for port in (*self._inputs, *self._outputs):
            port.staging = None
        self.call = self._open_call(input_types, self._output_types())
        self._input_types = input_types
        if self.meter is not None:
            self.meter.follow(self.call)

    def _provide_memory(self, port: _Port) -> None:
        """Puts a tensor into memory of ours where the arena's will not do."""
        subgraph = self._subgraph
        tensor = subgraph.tensor(port.tensor)
        if tensor.allocation_type not in _IN_ARENA or tensor.is_variable:
            return
        wanted = self._requirements(port)
        held = subgraph.memory.get(port.tensor)
        if held is not None:
            if held.size < max(wanted.size, tensor.bytes) or held.address % wanted.alignment:
                held = None
        elif (
            wanted.alignment <= ALIGNMENT
            and wanted.size <= tensor.bytes
            and not (subgraph.is_called and port.kind == "output")  # its arena comes and goes
        ):
            return
        tensor_type = subgraph.tensor_type(port.tensor)
        subgraph.set_memory(
            port.tensor, held or allocate(tensor_type, max(wanted.size, tensor.bytes))
        )

    def _look_up_tensors(self) -> None:
        """Finds the tensors' structs, whose array has moved."""
        for port in self._watched:
            port.data = self._subgraph.data_field(port.tensor)
        self._tensors_address = self._subgraph.tensors_field[0]
        for port in self._dynamic:
            self._bind(port)

    def _bind(self, port: _Port) -> None:
        """Binds the memory that a tensor has now, or a buffer of the call's own in its place."""
        subgraph = self._subgraph
        tensor = subgraph.tensor(port.tensor)
        wanted = self._requirements(port)
        if (
            port.shape_output is None
            and tensor.data
            and tensor.allocation_type != Allocation.DYNAMIC
            and tensor.data % wanted.alignment == 0
            and subgraph.buffer_of(port.tensor).size >= wanted.size
        ):
            port.staging = None
            buffer = subgraph.buffer_of(port.tensor)
        else:
            buffer = port.staging = port.staging or self._allocate_staging(port, wanted)
        if port.kind == "input":
            self.call.bind_input(port.index, buffer)
        else:
            self.call.bind_output(port.index, buffer)
        if port.shape_output is None:
            port.address = port.data[0]
        self._copies_in = [self._copy(p) for p in self._inputs if p.staging]
        self._copies_out = [
            (source, destination, size)
            for destination, source, size in (
                self._copy(p)
                for p in self._outputs
                if p.staging and p.shape_output is None and p.data[0]  # NULL: nobody reads it
            )
        ]

    def _allocate_staging(self, port: _Port, wanted: TensorBufferRequirements) -> TensorBuffer:
        tensor_type = self._subgraph.tensor_type(port.tensor)
        if port.shape_output is not None:
            shape = _largest_shape(port.compiled_shape, wanted.size, tensor_type)
            tensor_type = RankedTensorType.of(tensor_type.element_type, shape)
        return allocate(tensor_type, max(wanted.size, tensor_type.size_bytes))

    def _copy(self, port: _Port) -> tuple[int, int, int]:
        """Arguments of `memmove` from a tensor to its staging buffer."""
        assert port.staging is not None
        return port.staging.address, port.data[0], self._subgraph.tensor(port.tensor).bytes

    def _write_dynamic(self, port: _Port) -> None:
        """Gives an output the shape that the call has found, and its data."""
        assert port.staging is not None and port.shape_output is not None
        shape_buffer = self._shape_buffer(port.shape_output)
        shape = tuple(int(d) for d in shape_buffer.array().reshape(-1))
        element_type = port.staging.tensor_type.element_type
        size = (prod(shape) * element_type.bits + 7) // 8
        if (
            not _is_of_shape(shape, port.compiled_shape)
            or min(shape, default=0) < 0
            or size > port.staging.tensor_type.size_bytes
        ):
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                f"the shape {list(shape)} of output {port.index} is none of "
                f"{RankedTensorType.of(element_type, port.compiled_shape)} "
                f"in {port.staging.tensor_type.size_bytes} bytes",
                self._where,
                "This is the vendor's to repair.",
            )
        self._subgraph.resize(port.tensor, shape)
        data = self._subgraph.tensor(port.tensor).data
        if data and size:
            ctypes.memmove(data, port.staging.address, size)

    def _shape_buffer(self, index: int) -> TensorBuffer:
        port = self._outputs[index]
        return port.staging or self._subgraph.buffer_of(port.tensor)

    def _requirements(self, port: _Port) -> TensorBufferRequirements:
        if port.kind == "input":
            return self.call.input_requirements[port.index]
        return self.call.output_requirements[port.index]


def _is_of_shape(shape: Sequence[int], pattern: Sequence[int]) -> bool:
    """Whether a shape is of a pattern, in which -1 stands for any dimension."""
    return len(shape) == len(pattern) and all(
        p in (-1, d) for d, p in zip(shape, pattern, strict=True)
    )


def _largest_shape(
    pattern: Sequence[int], size: int, tensor_type: RankedTensorType
) -> tuple[int, ...]:
    """A shape of a pattern that fills a buffer: the first unknown dimension takes what there is."""
    known = prod(d for d in pattern if d >= 0)
    elements = size * 8 // (tensor_type.element_type.bits * known) if known else 0
    first = pattern.index(-1) if -1 in pattern else 0
    return tuple((elements if i == first else 1) if d < 0 else d for i, d in enumerate(pattern))
