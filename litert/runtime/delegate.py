"""A TensorFlow Lite delegate that takes each `DISPATCH_OP`: how NPU calls get into stock's interpreter.

The interpreter calls it for every subgraph while it is constructed, before XNNPACK, which takes the rest. Each
op becomes a kernel of its own: one replacement for several might fuse neighbours, and loses the order of
their inputs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Protocol

from _cffi_backend import FFI

from litert.model.dispatch_op import DISPATCH_OP
from litert.runtime import tflite_abi as abi
from litert.runtime.subgraph import InterpreterSubgraph, NodeView

KERNEL_NAME = "LiteRtNpuCall"
"""Of the nodes that NPU calls become."""

_FFI = FFI()  # cffi without its parser, as generated modules use it
_SIGNATURE = "int(*)(uintptr_t, uintptr_t)"
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
        self._callbacks: list[object] = []  # C holds their addresses alone
        self._struct = abi.Delegate(
            prepare=self._callback(lambda context, _: self._claim(context)),
            flags=abi.ALLOW_DYNAMIC_TENSORS,
            copy_from_buffer_handle=None,
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

    def _claim(self, context: int) -> int:
        subgraph = InterpreterSubgraph(context)
        self.subgraphs.append(subgraph)
        if self._profiler:
            subgraph.profiler = self._profiler
        calls = [node for node in subgraph.nodes() if node.name == DISPATCH_OP]
        for node in calls:
            kernel = self._make_kernel(subgraph, node)
            subgraph.replace(node.index, self._registration(kernel), self._struct)
        return abi.OK

    def _registration(self, kernel: DelegateKernel) -> abi.Registration:
        """C's side of a kernel. Functions of its own spare each run a look-up."""
        prepare, run = kernel.prepare, kernel.run

        def prepare_node(_context: int, _node: int) -> int:
            prepare()
            return abi.OK

        def invoke_node(_context: int, _node: int) -> int:
            run()
            return abi.OK

        return abi.Registration(
            prepare=self._callback(prepare_node),
            invoke=self._callback(invoke_node),
            custom_name=_KERNEL_NAME,
            version=1,
        )

    def _callback(self, function: Callable[[int, int], int]) -> int:
        """Where C finds a function. C cannot take its error: who has called the interpreter does.

        By cffi, which also tells of a `KeyboardInterrupt` that comes before the function's first statement, where
        no `try` of its own would find it; ctypes prints that, and C goes on with a status that nobody has set.
        """
        callback = _FFI.callback(_SIGNATURE, function, abi.ERROR, self._keep)
        self._callbacks.append(callback)
        return int(_FFI.cast("uintptr_t", callback))

    def _keep(self, _kind: type[BaseException], error: BaseException, _trace: object) -> None:
        self._error = error
