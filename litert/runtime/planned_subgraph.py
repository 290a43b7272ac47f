"""A subgraph that a signature runs: its shapes, its memory plan, and the memory requirements of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from dispatch.device_buffer import DeviceBuffer
from dispatch.event import Event
from dispatch.requirements import is_of_pattern
from dispatch.shared_memory import Block
from dispatch.tensor_buffer import ALIGNMENT, TensorBuffer, TensorBufferRequirements
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.runtime.delegate import KERNEL_NAME
from litert.runtime.host_memory import allocate
from litert.runtime.interpreter import GraphInterpreter
from litert.runtime.npu_kernel import NpuKernel
from litert.runtime.npu_port import largest_shape
from litert.runtime.subgraph import InterpreterSubgraph, NodeView
from litert.runtime.tflite_abi import Allocation

_MOST_ROOM = 64 << 20
"""Maximum number of additional bytes in a buffer that is meant for all shapes, not just for the current shape."""


class PlannedSubgraph:
    """Plans the memory of a subgraph, and plans it again after an input was resized.

    Attributes:
      run: Function that runs the subgraph.
      on_plan: Function that is called after each memory plan; None if no function is called.
      tensors: The subgraph in the interpreter.
      kernels: NPU calls in the subgraph.
      cpu_tensors: Tensors that the CPU reads or writes.
      has_dynamic_tensors: Whether some shapes are known only at run time, so that the interpreter may move all its
        memory during a run.
      is_all_npu: Whether no op of the subgraph runs on the CPU.
      generation: Number that changes with each memory plan.
      has_run: Whether a run has determined all shapes since the last memory plan.
    """

    def __init__(
        self,
        index: int,
        interpreter: GraphInterpreter,
        tensors: InterpreterSubgraph,
        kernels: Sequence[NpuKernel],
    ) -> None:
        self.run = partial(interpreter.invoke, index)
        self.on_plan: Callable[[], None] | None = None
        self.tensors = tensors
        self.kernels = kernels
        self.cpu_tensors: frozenset[int] = frozenset()
        self.has_dynamic_tensors = False
        self.is_all_npu = False
        self.generation = 0
        self.has_run = False
        self._untold: frozenset[int] = frozenset()  # tensors whose shapes only a run knows
        self._index = index
        self._interpreter = interpreter
        self._is_planned = False

    def plan(self) -> None:
        """Prepares the subgraph for a run, unless it is already prepared; raises errors from shape inference."""
        if self._is_planned:
            return
        self._interpreter.allocate(self._index)
        nodes = list(self.tensors.nodes())
        cpu_nodes = [node for node in nodes if node.name != KERNEL_NAME]
        self.cpu_tensors = frozenset(
            tensor for node in cpu_nodes for tensor in (*node.inputs, *node.outputs)
        )
        for kernel in self.kernels:
            kernel.cpu_tensors = self.cpu_tensors
        self.is_all_npu = not cpu_nodes
        self._untold = frozenset(self._find_untold(nodes))
        self.has_dynamic_tensors = bool(self._untold)
        self.has_run = False
        self.generation += 1
        self._is_planned = True
        if self.on_plan is not None:
            self.on_plan()

    def note_dynamic_tensors(self) -> None:
        """Records that a run has determined the shapes that are known only at run time."""
        if not self.has_dynamic_tensors:
            self.has_dynamic_tensors = True
            self.generation += 1

    def tensor_type(self, tensor: int) -> RankedTensorType:
        """Returns the current element type and shape of a tensor.

        A dimension that is known only at run time is -1 until a run has ended.
        """
        now = self.tensors.tensor_type(tensor)
        if tensor not in self._untold or self.has_run:
            return now
        return RankedTensorType.of(now.element_type, self._pattern(tensor))

    def requirements(self, tensor: int, where: str) -> TensorBufferRequirements:
        """Returns the memory requirements of a tensor with its current shape, combined for all its ops.

        Raises:
          LiteRtError: UNSUPPORTED, if the tensor's shape is known only at run time, and no vendor knows its
            largest size.
        """
        wanted = self._wanted(tensor)
        self._check_is_bounded(tensor, wanted, where)
        return TensorBufferRequirements(
            max([self.tensors.tensor(tensor).bytes, *(r.size for r in wanted if r.shape is None)]),
            alignment=max([ALIGNMENT, *(r.alignment for r in wanted)]),
        )

    def allocate(
        self,
        tensor: int,
        where: str,
        former: TensorBuffer | None = None,
        *,
        is_for_all_shapes: bool = False,
    ) -> TensorBuffer:
        """Allocates a buffer for a tensor; if possible, all ops can use the buffer in place.

        If the shape is known only at run time, the buffer has the largest possible size; otherwise it has the size
        from `requirements`. If `former` is in host memory and large enough, it is reused with the new shape, since
        allocating the pages of a new buffer takes longer than a run. With `is_for_all_shapes`, the buffer is also
        large enough for the largest shape that the vendor knows, or twice as large as `former`, up to a limit.
        """
        wanted = self._wanted(tensor)
        self._check_is_bounded(tensor, wanted, where)
        tensor_type = self.tensors.tensor_type(tensor)
        size = max([self.tensors.tensor(tensor).bytes, *(r.size for r in wanted)])
        if tensor in self._untold and wanted:
            shape = largest_shape(self._pattern(tensor), size, tensor_type.element_type)
            tensor_type = RankedTensorType.of(tensor_type.element_type, shape)
        if former is not None and not isinstance(former, DeviceBuffer) and former.size >= size:
            former.tensor_type = tensor_type
            return former
        foreseen = 0
        if is_for_all_shapes:
            foreseen = max([0, *(kernel.find_largest_input(tensor) for kernel in self.kernels)])
            wished = max(foreseen, 2 * former.size if former else 0)
            size += min(max(wished - size, 0), _MOST_ROOM)
        for kernel in self.kernels:
            made = kernel.allocate(tensor, tensor_type, size)
            if made is not None:
                if isinstance(made.owner, Block) and 0 < foreseen <= size:
                    made.owner.touch()
                return made
        return allocate(tensor_type, size, has_all_pages=0 < foreseen <= size)

    def make_memory(self, tensor: int) -> TensorBuffer:
        """Allocates a buffer in host memory for a tensor with its current shape."""
        tensor_type, size = self.tensors.tensor_type(tensor), self.tensors.tensor(tensor).bytes
        for kernel in self.kernels:
            made = kernel.allocate(tensor, tensor_type, size)
            if made is not None:
                return made
        return allocate(tensor_type, size)

    def resize(self, tensor: int, shape: Sequence[int], where: str, *, strict: bool) -> None:
        """Sets an input's shape. Afterwards, tensors no longer use the callers' memory.

        Args:
          tensor: Index of the input tensor.
          shape: New shape of the input.
          where: Name of the input, for errors.
          strict: Whether only those dimensions may change that are dynamic in the model's input.
        """
        import numpy as np

        if self.tensors.tensor_type(tensor).shape == tuple(shape):
            return
        if strict:
            self._check_foreseen(tensor, shape, where)
        if not shape or min(shape) < 1:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the given shape is {list(shape)}, but must have one or more dimensions, all positive",
                where,
            )
        self._interpreter.resize(self._index, tensor, np.array(shape, np.int32))
        self._is_planned = False
        self.tensors.give_back_memory(self.tensors.memory.keys() - self.cpu_tensors)

    @contextmanager
    def collect_events(self) -> Iterator[list[Event]]:
        """Makes NPU calls asynchronous: they may still run after `run` returns; a list collects their events."""
        events: list[Event] = []
        for kernel in self.kernels:
            kernel.pending = events
        try:
            yield events
        finally:
            for kernel in self.kernels:
                kernel.pending = None

    def _find_untold(self, nodes: Sequence[NodeView]) -> Iterator[int]:
        """Returns the tensors with shapes that are known only after a run.

        From the first such tensor on, the interpreter plans no op.
        """
        is_planned = True
        for node in nodes:
            for tensor in (t for t in node.outputs if t >= 0):
                is_dynamic = self.tensors.tensor(tensor).allocation_type == Allocation.DYNAMIC
                if is_dynamic or (not is_planned and -1 in self.tensors.shape_signature(tensor)):
                    is_planned = False
                    yield tensor

    def _pattern(self, tensor: int) -> tuple[int, ...]:
        """Returns the shape of a tensor that is known only after a run, with -1 for unknown dimensions."""
        signature = self.tensors.shape_signature(tensor)
        return signature if -1 in signature else (-1,) * len(signature)

    def _wanted(self, tensor: int) -> Sequence[TensorBufferRequirements]:
        return [r for kernel in self.kernels for r in kernel.requirements(tensor)]

    def _check_is_bounded(
        self, tensor: int, wanted: Sequence[TensorBufferRequirements], where: str
    ) -> None:
        if tensor in self._untold and not (self.has_run or wanted):
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"the size of the buffer is unknown, because the shape of {self.tensor_type(tensor)} is "
                "known only after a run",
                where,
                "Run the model with arrays (CompiledModel.run), or with your own buffer that is "
                "large enough.",
            )

    def _check_foreseen(self, tensor: int, shape: Sequence[int], where: str) -> None:
        """Refuses a shape that contradicts the file."""
        signature = self.tensors.shape_signature(tensor)
        if -1 not in signature or min(shape, default=1) < 1 or not is_of_pattern(shape, signature):
            element_type = self.tensors.tensor_type(tensor).element_type
            foreseen = RankedTensorType.of(element_type, signature)
            hint = "Give each unknown dimension (?) a size, and keep the known dimensions."
            if -1 not in signature:
                hint = "Give data with the model's fixed shape, or convert the model for the new shape."
            if 0 in shape:
                hint = (
                    "Tensors without elements are not supported: each dimension must be at least 1."
                )
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the given shape is {list(shape)}, but the model's input has type {foreseen}",
                where,
                hint,
            )
