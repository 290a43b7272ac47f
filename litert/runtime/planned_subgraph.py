"""A subgraph that callers run: its shapes, its memory plan, and the memory requirements of its tensors."""

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
"""Number of bytes that a buffer for all shapes has beyond the bytes of its current shape."""


class PlannedSubgraph:
    """Plans a subgraph's memory, and plans again after a resize.

    Attributes:
      run: Function that runs the subgraph.
      on_plan: Function that is called after each plan; None if there is none.
      tensors: The subgraph in the interpreter.
      kernels: NPU calls in the subgraph.
      cpu_tensors: Tensors that the CPU reads or writes.
      has_dynamic_tensors: Whether only the run knows some shapes; the interpreter may then move all
        its memory in a run.
      is_all_npu: Whether no op of the subgraph runs on the CPU.
      generation: Number that changes with each plan.
      has_run: Whether a run of this plan has determined all shapes.
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
        """Prepares the subgraph for a run, unless it is prepared; raises errors about the shapes."""
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
        """Records that a run has shown shapes that only a run knows."""
        if not self.has_dynamic_tensors:
            self.has_dynamic_tensors = True
            self.generation += 1

    def tensor_type(self, tensor: int) -> RankedTensorType:
        """Returns the current element type and shape.

        A dimension that only a run knows is -1 until a run has ended.
        """
        now = self.tensors.tensor_type(tensor)
        if tensor not in self._untold or self.has_run:
            return now
        return RankedTensorType.of(now.element_type, self._pattern(tensor))

    def requirements(self, tensor: int, where: str) -> TensorBufferRequirements:
        """Returns the memory requirements of a tensor for all its readers and writers, for its current shape.

        Raises:
          LiteRtError: UNSUPPORTED, if only a run knows the tensor's shape, and no vendor knows its
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
        """Makes a buffer for a tensor in which all readers and writers can work, as far as that is possible.

        If only a run knows the shape, the buffer has the largest size; otherwise the size from
        `requirements`. A `former` buffer in host memory that is large enough gets the new shape:
        the pages of a new buffer cost more than a run. A buffer for all shapes has room for larger
        shapes: for all that the vendor foresees, or for twice the bytes of the former buffer.
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
        """Makes a buffer in the runtime's own memory for a tensor of the current shape."""
        tensor_type, size = self.tensors.tensor_type(tensor), self.tensors.tensor(tensor).bytes
        for kernel in self.kernels:
            made = kernel.allocate(tensor, tensor_type, size)
            if made is not None:
                return made
        return allocate(tensor_type, size)

    def resize(self, tensor: int, shape: Sequence[int], where: str, *, strict: bool) -> None:
        """Sets an input's shape; tensors no longer use the memory of callers.

        Args:
          tensor: Index of the input tensor.
          shape: New shape of the input.
          where: Name of the input, for errors.
          strict: Whether only dimensions that the model leaves open may change.
        """
        import numpy as np

        if self.tensors.tensor_type(tensor).shape == tuple(shape):
            return
        if strict:
            self._check_foreseen(tensor, shape, where)
        if not shape or min(shape) < 1:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the shape is {list(shape)}, but dimensions must be positive",
                where,
            )
        self._interpreter.resize(self._index, tensor, np.array(shape, np.int32))
        self._is_planned = False
        self.tensors.give_back_memory(self.tensors.memory.keys() - self.cpu_tensors)

    @contextmanager
    def collect_events(self) -> Iterator[list[Event]]:
        """Lets NPU calls continue after `run`: the list gets their events."""
        events: list[Event] = []
        for kernel in self.kernels:
            kernel.pending = events
        try:
            yield events
        finally:
            for kernel in self.kernels:
                kernel.pending = None

    def _find_untold(self, nodes: Sequence[NodeView]) -> Iterator[int]:
        """Returns the tensors whose shapes only a run knows.

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
        """Returns the shape of a tensor that only a run knows, with -1 for open dimensions."""
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
                f"only a run knows the shape {self.tensor_type(tensor)}",
                where,
                "Run the model with arrays (CompiledModel.run), or on your own buffer that is "
                "large enough.",
            )

    def _check_foreseen(self, tensor: int, shape: Sequence[int], where: str) -> None:
        """Refuses a shape that contradicts the file."""
        signature = self.tensors.shape_signature(tensor)
        if -1 not in signature or min(shape, default=1) < 1 or not is_of_pattern(shape, signature):
            element_type = self.tensors.tensor_type(tensor).element_type
            foreseen = RankedTensorType.of(element_type, signature)
            hint = "Give unknown dimensions (?) a number, and keep the others unchanged."
            if -1 not in signature:
                hint = "The model fixes the shape: give data of that shape, or convert the model again."
            if 0 in shape:
                hint = "A tensor without elements cannot run: each dimension must be at least 1."
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the shape is {list(shape)}, but the model has {foreseen}",
                where,
                hint,
            )
