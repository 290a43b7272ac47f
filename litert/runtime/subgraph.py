"""A subgraph in stock LiteRT's interpreter: its tensors and nodes, accessed through `TfLiteContext`."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from dispatch.device_buffer import DeviceBuffer
from dispatch.tensor_buffer import TensorBuffer
from litert.core.element_type import ElementType
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.graph import builtin_name
from litert.runtime import tflite_abi as abi
from litert.runtime.host_memory import is_fit_for_cpu

OPTIONAL = -1
"""`kTfLiteOptionalTensor`: index that stands for an omitted input."""

_TENSOR_SIZE = ctypes.sizeof(abi.Tensor)


@dataclass(slots=True, eq=False)
class NodeView:
    """A node of the execution plan.

    Attributes:
      index: Index of the node in the subgraph, not in the execution plan.
      inputs, outputs: Indices of the node's tensors; OPTIONAL stands for an omitted tensor.
      name: Name of a custom op or of a delegate's kernel; "" for all other nodes.
      custom_options: Serialized options of a custom op.
      is_delegated: Whether a delegate runs the node.
    """

    index: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    name: str
    custom_options: bytes
    is_delegated: bool


class InterpreterSubgraph:
    """Reads and changes the interpreter's own structs.

    An `InterpreterSubgraph` must not be used after its interpreter was destroyed.

    Attributes:
      context: Address of the subgraph's `TfLiteContext`.
      is_called: Whether the subgraph is run by a control flow op, not by a caller of a signature. If so, the arena
        is released after each run, and the op may move the subgraph's inputs.
      memory: Buffers that tensors use in place of the arena, by tensor index.
      homeless: Tensors that get no memory in the arena, and must get other memory before the next run.
      tenant: Object that placed tensors in the buffers in `memory`, except for memory of NPU calls; only such
        objects set and compare this attribute.
      tensors_field: View of the field with the address of the tensor array.
    """

    def __init__(self, context: int) -> None:
        """Reads a `TfLiteContext` while the interpreter passes it to a delegate.

        Some functions in the context may only be called by delegates; later the interpreter replaces these
        functions by functions that fail. This object therefore stores the original functions.
        """
        self.context = context
        self.is_called = False
        self.memory: dict[int, TensorBuffer] = {}
        self.homeless: set[int] = set()
        self.tenant: object = None
        self._head = abi.Context.from_address(context)
        self._addresses: dict[int, int] = {}  # addresses of that memory in the tensors
        self._arena_buffers: dict[int, TensorBuffer] = {}
        self._get_plan = abi.GetExecutionPlan(self._head.get_execution_plan)
        self._get_node = abi.GetNodeAndRegistration(self._head.get_node_and_registration)
        self.tensors_field = abi.view_word(context + abi.Context.tensors.offset)

    @property
    def num_tensors(self) -> int:
        return int(self._head.tensors_size)

    def tensor(self, index: int) -> abi.Tensor:
        """Returns the struct of a tensor.

        The array that contains the struct may move whenever the interpreter prepares ops.
        """
        assert 0 <= index < self._head.tensors_size
        return abi.Tensor.from_address(self._head.tensors + index * _TENSOR_SIZE)

    def data_field(self, index: int) -> memoryview[int]:
        """Returns a view of the struct field with the pointer to a tensor's memory.

        The field may move with the tensor's struct.
        """
        offset = index * _TENSOR_SIZE + abi.Tensor.data.offset
        return abi.view_word(self._head.tensors + offset)

    def tensor_name(self, index: int) -> str:
        name: bytes | None = self.tensor(index).name
        return (name or b"").decode(errors="surrogateescape")  # as the reader of models does

    def tensor_type(self, index: int) -> RankedTensorType:
        """Returns the current element type and shape.

        Raises:
          LiteRtError: UNSUPPORTED, for an unknown element type.
        """
        tensor = self.tensor(index)
        shape = abi.read_int_array(tensor.dims)
        try:
            return _make_type(tensor.type, shape)
        except ValueError:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"element type {tensor.type} is unknown to this project",
                f"tensor '{self.tensor_name(index)}'",
            ) from None

    def shape_signature(self, index: int) -> tuple[int, ...]:
        """Returns a tensor's shape in the file, with -1 for unknown dimensions."""
        signature = abi.read_int_array(self.tensor(index).dims_signature)
        return signature or self.tensor_type(index).shape

    def nodes(self) -> Iterator[NodeView]:
        """Yields the nodes of the execution plan, in order."""
        plan = ctypes.c_void_p()
        self._check(self._get_plan(self.context, ctypes.byref(plan)), "GetExecutionPlan")
        for index in abi.read_int_array(plan.value):
            yield self.node(index)

    def node(self, index: int) -> NodeView:
        """Returns an op by its index in the subgraph, even if a delegate runs the op."""
        node, registration = self._structs(index)
        name, options = "", b""
        if registration.builtin_code in (abi.CUSTOM, abi.DELEGATE):
            name = (registration.custom_name or b"").decode(errors="replace")
        if registration.builtin_code == abi.CUSTOM and node.custom_initial_data_size > 0:
            options = ctypes.string_at(node.custom_initial_data, node.custom_initial_data_size)
        return NodeView(
            index,
            abi.read_int_array(node.inputs),
            abi.read_int_array(node.outputs),
            name,
            options,
            bool(node.delegate),
        )

    def registration(self, index: int) -> abi.Registration:
        """Returns the interpreter's own copy of a node's `TfLiteRegistration`.

        The interpreter's copy may move whenever ops are prepared.
        """
        return self._structs(index)[1]

    def op_name(self, index: int) -> str:
        """Returns the name of a node: the name of a builtin op, a custom op or a delegate's kernel."""
        return self.node(index).name or builtin_name(self.registration(index).builtin_code)

    def delegated_ops(self, index: int) -> tuple[int, ...]:
        """Returns the ops that a delegate's kernel runs, in their original order.

        The list is empty for all other nodes.
        """
        node, registration = self._structs(index)
        is_known = registration.builtin_code == abi.DELEGATE and node.delegate and node.builtin_data
        if not is_known or registration.registration_external:
            return ()
        parameters = abi.DelegateParameters.from_address(node.builtin_data)
        return abi.read_int_array(parameters.nodes_to_replace)

    @property
    def profiler(self) -> int:
        """The address of the profiler object, to which the times of ops are reported; 0 if there is none."""
        return self._head.profiler or 0

    @profiler.setter
    def profiler(self, address: int) -> None:
        self._head.profiler = address

    def set_memory(self, index: int, buffer: TensorBuffer) -> None:
        """Moves a tensor into the caller's memory; the interpreter neither allocates nor frees this memory."""
        tensor = self.tensor(index)
        tensor.allocation_type = abi.Allocation.CUSTOM
        tensor.data = self._addresses[index] = buffer.address
        self.memory[index] = buffer
        self.homeless.discard(index)

    def hold_memory(self, index: int) -> None:
        """Locks a vendor's memory for the CPU, and updates the tensor's address, which may have changed.

        Raises:
          LiteRtError: An error of the vendor; RUNTIME_FAILURE, if the CPU cannot use the memory at its new
            address.
        """
        buffer = self.memory.get(index)
        if not isinstance(buffer, DeviceBuffer) or buffer.address == self._addresses[index]:
            return
        if not is_fit_for_cpu(buffer, self.tensor(index).bytes):
            raise LiteRtError(
                Status.RUNTIME_FAILURE,
                f"the device's memory has moved to {buffer.address:#x}, where the CPU cannot use "
                "it",
                f"tensor '{self.tensor_name(index)}'",
                VENDOR_REPAIRS,
            )
        self.set_memory(index, buffer)

    def give_back_memory(self, homeless: Set[int] = frozenset()) -> None:
        """Moves tensors back into the arena, which must be planned again before the next run.

        Args:
          homeless: Tensors that need no memory in the arena, because they get other memory before the next run.
        """
        for index in self.memory:
            tensor = self.tensor(index)
            if tensor.allocation_type == abi.Allocation.CUSTOM:
                tensor.data = None
                if index in homeless:
                    self.homeless.add(index)
                else:
                    tensor.allocation_type = abi.Allocation.ARENA_RW
        self.memory.clear()
        self.forget_arena()
        self.tenant = None

    def release(self) -> None:
        """Releases the tensors' buffers and `tenant` after the interpreter was destroyed."""
        self.memory.clear()
        self.homeless.clear()
        self._arena_buffers.clear()
        self.tenant = None

    def forget_arena(self) -> None:
        """Records that the arena may have moved, so that earlier addresses are no longer valid."""
        self._arena_buffers.clear()

    def buffer_of(self, index: int) -> TensorBuffer:
        """Returns a tensor's current memory as a buffer; while the memory stays the same, so does the buffer."""
        tensor_type = self.tensor_type(index)
        tensor = self.tensor(index)
        address = tensor.data or 0  # NULL, if the tensor is empty
        given = self.memory.get(index)
        if (
            given is not None
            and self._addresses[index] == address  # the tensor is still in its place
            and given.tensor_type == tensor_type
        ):
            return given
        known = self._arena_buffers.get(index)
        if known is not None and known.address == address and known.tensor_type == tensor_type:
            return known
        buffer = TensorBuffer(tensor_type, address, tensor.bytes, self.memory.get(index))
        self._arena_buffers[index] = buffer
        return buffer

    def set_dynamic(self, index: int) -> None:
        """Declares that a tensor's shape is known only after its op has run."""
        tensor = self.tensor(index)
        if tensor.allocation_type != abi.Allocation.DYNAMIC:
            tensor.allocation_type = abi.Allocation.DYNAMIC
            tensor.data = None

    def resize(self, index: int, shape: Sequence[int]) -> None:
        """Sets a tensor's shape; if the tensor is dynamic, also allocates its memory."""
        resize_tensor = abi.ResizeTensor(self._head.resize_tensor)
        shape_array = abi.allocate_int_array(shape)  # the function frees the array
        status = resize_tensor(self.context, ctypes.addressof(self.tensor(index)), shape_array)
        self._check(status, f"ResizeTensor of '{self.tensor_name(index)}'")

    def replace(
        self, node_index: int, registration: abi.Registration, delegate: abi.Delegate
    ) -> None:
        """Assigns one node to a delegate, which creates a kernel for this node alone."""
        replace = abi.ReplaceNodeSubsets(self._head.replace_node_subsets_with_delegate_kernels)
        nodes = abi.one_int(node_index)
        status = replace(
            self.context, registration, ctypes.addressof(nodes), ctypes.addressof(delegate)
        )
        self._check(status, "ReplaceNodeSubsetsWithDelegateKernels")

    def _structs(self, index: int) -> tuple[abi.Node, abi.Registration]:
        node_address, registration_address = ctypes.c_void_p(), ctypes.c_void_p()
        status = self._get_node(
            self.context, index, ctypes.byref(node_address), ctypes.byref(registration_address)
        )
        self._check(status, "GetNodeAndRegistration")
        assert node_address.value and registration_address.value
        node = abi.Node.from_address(node_address.value)
        return node, abi.Registration.from_address(registration_address.value)

    def _check(self, status: int, call: str) -> None:
        if status != abi.OK:
            raise LiteRtError(Status.RUNTIME_FAILURE, f"the interpreter refused {call}")


@lru_cache(256)
def _make_type(element_type: int, shape: tuple[int, ...]) -> RankedTensorType:
    return RankedTensorType.of(ElementType(element_type), shape)
