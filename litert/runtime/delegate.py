"""A TensorFlow Lite delegate that takes each `DISPATCH_OP`: how NPU calls get into stock's interpreter.

The interpreter calls it for every subgraph while it is constructed, before XNNPACK, which takes the rest. Each
op becomes a kernel of its own: one replacement for several might fuse neighbours, and loses the order of
their inputs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

from litert.model.dispatch_op import DISPATCH_OP
from litert.runtime import tflite_abi as abi
from litert.runtime.subgraph import InterpreterSubgraph, NodeView

KERNEL_NAME = "LiteRtNpuCall"
"""Of the nodes that NPU calls become."""

_KERNEL_NAME = KERNEL_NAME.encode()  # C keeps its address: it must live as long as any interpreter


class DelegateKernel(Protocol):
    """What runs in an op's place."""

    def prepare(self) -> None:
        """Gets ready for the shapes as they are now; the arena is planned after it."""
        ...

    def run(self) -> None:
        """Computes the outputs."""
        ...


MakeKernel = Callable[[InterpreterSubgraph, NodeView], DelegateKernel]
"""Makes the kernel for a dispatch op."""


class NpuDelegate:
    """What `Interpreter` takes as one of its `experimental_delegates`; it must outlive the interpreter.

    Attributes:
      subgraphs: in the order in which the interpreter showed them.
    """

    def __init__(self, make_kernel: MakeKernel, profiler: int = 0) -> None:
        """Makes it; each subgraph gets the profiler, the address of an object of C++."""
        self._profiler = profiler
        self.subgraphs: list[InterpreterSubgraph] = []
        self._make_kernel = make_kernel
        self._error: BaseException | None = None
        prepare = abi.DelegateFunction(lambda context, _: self._guard(self._claim, context))
        self._callbacks: list[object] = [prepare]  # C holds their addresses alone
        self._struct = abi.Delegate(
            prepare=_address(prepare), flags=abi.ALLOW_DYNAMIC_TENSORS, copy_from_buffer_handle=None
        )

    def take_error(self) -> BaseException | None:
        """What went wrong in a callback, of which the interpreter knows only that it did; once."""
        error, self._error = self._error, None
        return error

    def close(self) -> None:
        """Lets go of the kernels. The interpreter is gone."""
        self._callbacks.clear()
        for subgraph in self.subgraphs:
            subgraph.release()
        del self._make_kernel  # which knows who has this delegate

    def _get_native_delegate_pointer(self) -> int:
        """For `Interpreter`: the address of the `TfLiteDelegate`."""
        return ctypes.addressof(self._struct)

    def _claim(self, context: int) -> None:
        subgraph = InterpreterSubgraph(context)
        self.subgraphs.append(subgraph)
        if self._profiler:
            subgraph.profiler = self._profiler
        calls = [node for node in subgraph.nodes() if node.name == DISPATCH_OP]
        for node in calls:
            kernel = self._make_kernel(subgraph, node)
            subgraph.replace(node.index, self._registration(kernel), self._struct)

    def _registration(self, kernel: DelegateKernel) -> abi.Registration:
        """C's side of a kernel. Functions of its own spare each run a look-up."""

        def invoke(_context: int, _node: int) -> int:
            try:
                kernel.run()
            except BaseException as error:  # C cannot take it: who has called the interpreter does
                self._error = error
                return abi.ERROR
            return abi.OK

        prepare = abi.KernelFunction(lambda _context, _node: self._guard(kernel.prepare))
        run = abi.KernelFunction(invoke)
        self._callbacks += [prepare, run]
        return abi.Registration(
            prepare=_address(prepare),
            invoke=_address(run),
            custom_name=_KERNEL_NAME,
            version=1,
        )

    def _guard(self, action: Callable[..., None], *arguments: int) -> int:
        try:
            action(*arguments)
        except BaseException as error:  # as in `invoke`
            self._error = error
            return abi.ERROR
        return abi.OK


def _address(function: Any) -> int:
    """Where C finds a callback. `ctypes.cast` would put it in a circle with itself."""
    return ctypes.c_size_t.from_buffer(function).value
