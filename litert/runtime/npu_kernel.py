"""An NPU call in the interpreter's graph: a delegate kernel that passes tensors to the dispatch table."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import nullcontext
from functools import partial

from dispatch.api import Receive
from dispatch.call import Call
from dispatch.device_buffer import DeviceBuffer
from dispatch.event import Event
from dispatch.requirements import is_of_pattern
from dispatch.tensor_buffer import TensorBuffer, TensorBufferRequirements
from dispatch.vendor import clean_up
from litert.core.counts import index_range
from litert.core.element_type import ElementType
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.core.tracing import RECORDINGS, SpanKind, is_recording, span
from litert.runtime.host_memory import is_fit_for_cpu
from litert.runtime.metrics import CallMeter
from litert.runtime.npu_port import NpuPort
from litert.runtime.subgraph import OPTIONAL, InterpreterSubgraph

OpenCall = Callable[[Sequence[RankedTensorType], Sequence[RankedTensorType]], Call]
"""Function that opens a call for given types of inputs and outputs.

In shapes, -1 stands for a size that is known only at run time.
"""

_NOWHERE = -1


class NpuKernel:
    """Binds tensors to the inputs and outputs of one NPU call, and runs the call.

    Attributes:
      name, subgraph, op_index: The constructor's arguments with these names.
      meter: Object that measures the runs; None if nothing is measured.
      tap: Function that receives the tensors inside the call at each run, if the vendor supports this; None for
        normal runs.
      pending: List to which asynchronous runs add their events; None if each run waits for its end.
      cpu_tensors: Tensors that the CPU reads or writes; None if the CPU may read or write any tensor.
    """

    def __init__(
        self,
        name: str,
        subgraph: InterpreterSubgraph,
        op_index: int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        shape_outputs: Mapping[int, int],
        open_call: OpenCall,
    ) -> None:
        """Opens the call for the shapes in the file.

        Args:
          name: Name of the byte code's function that the call runs.
          subgraph: Subgraph that contains the call.
          op_index: Index of the dispatch op in the subgraph.
          inputs: Input tensors, in the vendor's order.
          outputs: Output tensors, in the vendor's order.
          shape_outputs: For each output with a dynamic shape, the index of another output, which contains this
            shape.
          open_call: Function that opens the call.
        """
        self.meter: CallMeter | None = None
        self.tap: Receive | None = None
        self.pending: list[Event] | None = None
        self.cpu_tensors: Set[int] | None = None
        self.name = name
        self.subgraph = subgraph
        self.op_index = op_index
        self._where = f"NPU call '{name}'"
        self._open_call = open_call
        self._check_indices([*inputs, *outputs], len(outputs), shape_outputs)
        self._inputs = [NpuPort("input", i, subgraph, tensor) for i, tensor in enumerate(inputs)]
        self._outputs = [
            NpuPort("output", i, subgraph, tensor, shape_outputs.get(i))
            for i, tensor in enumerate(outputs)
        ]
        self._ports = [*self._inputs, *self._outputs]
        self._dynamic = [port for port in self._outputs if port.is_dynamic]
        self._watched = [port for port in self._ports if not port.is_dynamic]
        self._check_shape_outputs()
        # Staging, the tensor's address, bytes.
        self._copies_in: list[tuple[TensorBuffer, int, int]] = []
        self._copies_out: list[tuple[TensorBuffer, int, int]] = []
        self._shared: list[int] = []  # tensors in the vendor's own memory that the CPU uses
        # Tensors in another vendor's memory, which are copied both ways
        self._foreign: list[int] = []
        self._tensors_address = _NOWHERE
        self._input_types = [port.current_type for port in self._inputs]
        self.call = open_call(self._input_types, [port.current_type for port in self._outputs])

    def prepare(self) -> None:
        """Prepares the NPU call for the current shapes. The interpreter plans the arena afterwards."""
        input_types = [port.current_type for port in self._inputs]
        if input_types != self._input_types:
            self._check_shapes(input_types)
            self._change_shapes(input_types)
        self._tensors_address = _NOWHERE
        self.subgraph.forget_arena()
        for port in self._ports:
            port.prepare(self.call)
        self._dynamic = [port for port in self._outputs if port.is_dynamic]
        self._watched = [port for port in self._ports if not port.is_dynamic]

    def run(self) -> None:
        """Runs the call on the tensors; the call can run again after an error."""
        if self.subgraph.tensors_field[0] != self._tensors_address:
            self._look_up_tensors()
        for tensor in self._foreign:
            self.subgraph.hold_memory(tensor)
        moved = [port for port in self._watched if port.data[0] != port.address]
        if moved:
            self._bind(moved)
        if self.pending is not None:
            if not (self._copies_in or self._copies_out or self._dynamic):
                self.pending += self.call.invoke_async()
                return
            # Earlier calls, which may write the data that are copied now
            for event in self.pending:
                event.wait()
        if self._copies_in:
            with span(SpanKind.TRANSFER, "inputs", call=self.name):
                for staging, address, size in self._copies_in:
                    ctypes.memmove(staging.address, address, size)
        try:
            if self.tap is not None:
                self.call.invoke_tapped(self.tap)
            elif self.meter is None and not (RECORDINGS and is_recording()):
                self.call.invoke()
            else:
                with self.meter or nullcontext(), span(SpanKind.CALL, self.call.function_name):
                    self.call.invoke()
        except BaseException:
            clean_up([partial(self.subgraph.hold_memory, tensor) for tensor in self._shared])
            raise
        for tensor in self._shared:
            self.subgraph.hold_memory(tensor)
        if self._copies_out:
            with span(SpanKind.TRANSFER, "outputs", call=self.name):
                for staging, address, size in self._copies_out:
                    ctypes.memmove(address, staging.address, size)
        for port in self._dynamic:
            self._write_dynamic(port)

    def requirements(self, tensor: int) -> list[TensorBufferRequirements]:
        """Returns the vendor's memory requirements for each input or output of the call that uses a tensor."""
        return [port.requirements(self.call) for port in self._ports if port.tensor == tensor]

    def find_largest_input(self, tensor: int) -> int:
        """Returns the largest size, in bytes, of an input with a dynamic shape; 0 if this size is unknown."""
        for port in self._inputs:
            if port.tensor == tensor and -1 in port.compiled_shape and self.call.can_reshape:
                element_type = port.current_type.element_type
                pattern = RankedTensorType.of(element_type, port.compiled_shape)
                return self.call.find_largest_input(port.index, pattern)
        return 0

    def allocate(
        self, tensor: int, tensor_type: RankedTensorType, size: int
    ) -> TensorBuffer | None:
        """Allocates the vendor's own kind of memory for a tensor, if the vendor and the host can use such memory.

        Returns None if the tensor must use host memory.
        """
        for wanted in self.requirements(tensor):
            made = self.call.allocate(wanted, tensor_type, size)
            if made is not None and is_fit_for_cpu(made, size):
                return made
        return None

    def _look_up_tensors(self) -> None:
        """Looks the tensors' structs up again, because their array has moved."""
        for port in self._ports:
            port.data = self.subgraph.data_field(port.tensor)
        self._bind(self._dynamic)
        self._tensors_address = self.subgraph.tensors_field[0]

    def _bind(self, ports: Sequence[NpuPort]) -> None:
        """Binds ports, and finds out again what each run copies."""
        for port in ports:
            port.bind(self.call)
        self._copies_in = []
        self._copies_out = []
        self._shared = []
        self._foreign = []
        for staged in self._watched:
            is_device_s = isinstance(self.subgraph.memory.get(staged.tensor), DeviceBuffer)
            if staged.staging is None:
                is_on_cpu = self.cpu_tensors is None or staged.tensor in self.cpu_tensors
                if is_device_s and is_on_cpu:
                    self._shared.append(staged.tensor)
                continue
            if is_device_s:
                self._foreign.append(staged.tensor)
            if not staged.data[0]:  # NULL: no op reads that output
                continue
            size = self.subgraph.tensor(staged.tensor).bytes
            copies = self._copies_in if staged in self._inputs else self._copies_out
            copies.append((staged.staging, staged.data[0], size))

    def _write_dynamic(self, port: NpuPort) -> None:
        """Gives an output the shape that the call has computed, and its data."""
        assert port.staging is not None and port.shape_output is not None
        shape = tuple(map(int, self._outputs[port.shape_output].buffer.copy()))
        largest = port.staging.tensor_type
        if min(shape, default=0) >= 0 and is_of_pattern(shape, port.compiled_shape):
            found = RankedTensorType.of(largest.element_type, shape)
            if found.size_bytes <= largest.size_bytes:
                self.subgraph.resize(port.tensor, shape)
                data = self.subgraph.tensor(port.tensor).data
                if data:
                    ctypes.memmove(data, port.staging.address, found.size_bytes)
                return
        pattern = RankedTensorType.of(largest.element_type, port.compiled_shape)
        raise LiteRtError(
            Status.RUNTIME_FAILURE,
            f"the NPU computed the shape {list(shape)} for output {port.index}, but the output must "
            f"match {pattern} and fit into {largest.size_bytes} bytes",
            self._where,
            VENDOR_REPAIRS,
        )

    def _check_shapes(self, input_types: Sequence[RankedTensorType]) -> None:
        """Refuses shapes that the call was not compiled for, or whose output shapes are unknown."""
        for port, now in zip(self._inputs, input_types, strict=True):
            if not is_of_pattern(now.shape, port.compiled_shape):
                compiled = RankedTensorType.of(now.element_type, port.compiled_shape)
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"input {port.index} now has type {now}, but the call was compiled for {compiled}",
                    self._where,
                    "Compile the model for the new shape.",
                )
        for port in self._outputs:
            if port.shape_output is None and -1 in port.compiled_shape:
                raise LiteRtError(
                    Status.UNSUPPORTED,
                    f"output {port.index} has unknown dimensions, and no other output contains the "
                    f"shape of output {port.index}",
                    self._where,
                    "Run the model with the input shapes that the model file contains.",
                )

    def _change_shapes(self, input_types: list[RankedTensorType]) -> None:
        """Prepares the call for other shapes; after an error, the next `prepare` tries again."""
        self._input_types = []
        if self.call.can_reshape:
            self.call.reshape(input_types, [port.current_type for port in self._outputs])
        else:
            self._reopen(input_types)
        self._input_types = input_types

    def _reopen(self, input_types: Sequence[RankedTensorType]) -> None:
        if self.meter is not None:
            self.meter.collect()
        self.call.close()
        self.call = self._open_call(input_types, [port.current_type for port in self._outputs])
        if self.meter is not None:
            self.meter.follow(self.call)

    def _check_indices(
        self, tensors: Sequence[int], num_outputs: int, shape_outputs: Mapping[int, int]
    ) -> None:
        if OPTIONAL in tensors:
            raise self._damaged("an input is omitted")
        for index in (i for pair in shape_outputs.items() for i in pair):
            if not 0 <= index < num_outputs:
                raise self._damaged(
                    f"the file says that output {index} contains a shape, but "
                    f"{index_range('output', num_outputs)}"
                )

    def _check_shape_outputs(self) -> None:
        for port in self._dynamic:
            assert port.shape_output is not None
            holder = self._outputs[port.shape_output]
            expected = RankedTensorType.of(ElementType.INT32, (len(port.compiled_shape),))
            if holder.current_type != expected:
                raise self._damaged(
                    f"the shape is stored as {holder.current_type}, not as {expected}"
                )

    def _damaged(self, what: str) -> LiteRtError:
        return LiteRtError(Status.INVALID_FLATBUFFER, what, self._where, "Compile the model again.")
