"""A TensorFlow Lite delegate that runs NPU calls in stock LiteRT's interpreter, by taking each `DISPATCH_OP`.

During its construction, the interpreter calls the delegate for each subgraph, before XNNPACK takes the remaining
ops. Each op gets its own kernel, because otherwise the interpreter might fuse neighbouring ops, and the order of
their inputs would be lost.
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
"""Name of the delegate nodes that run NPU calls."""

_FFI = FFI()  # cffi without its parser, as generated modules use it
_SIGNATURE = "int(*)(uintptr_t, uintptr_t)"
_KERNEL_NAME = KERNEL_NAME.encode()  # C keeps its address: it must live as long as any interpreter


class DelegateKernel(Protocol):
    """A kernel that runs instead of an op."""

    def prepare(self) -> None:
        """Prepares the kernel for the current shapes; the interpreter plans the arena after this call."""
        ...

    def run(self) -> None:
        """Computes the outputs."""
        ...


MakeKernel = Callable[[InterpreterSubgraph, NodeView], DelegateKernel]
"""Function that creates the kernel for a dispatch op."""


class NpuDelegate:
    """A delegate for the interpreter's `experimental_delegates`; the delegate must outlive the interpreter.

    Attributes:
      subgraphs: Subgraphs in the order in which the interpreter passed them to the delegate.
    """

    def __init__(self, make_kernel: MakeKernel, profiler: int = 0) -> None:
        """Creates the delegate. `profiler` is the address of a C++ object, which is set in each subgraph."""
        self._profiler = profiler
        self.subgraphs: list[InterpreterSubgraph] = []
        self._make_kernel = make_kernel
        self._error: BaseException | None = None
        self._callbacks: list[object] = []  # C stores only their addresses
        self._struct = abi.Delegate(
            prepare=self._callback(lambda context, _: self._claim(context)),
            flags=abi.ALLOW_DYNAMIC_TENSORS,
            copy_from_buffer_handle=None,
        )

    def take_error(self) -> BaseException | None:
        """Returns and clears the exception of a callback; the interpreter reports only that a callback failed."""
        error, self._error = self._error, None
        return error

    def close(self) -> None:
        """Releases the kernels after the interpreter has been destroyed."""
        self._callbacks.clear()
        for subgraph in self.subgraphs:
            subgraph.release()
        del self._make_kernel  # the interpreter, which knows the user of this delegate

    def _get_native_delegate_pointer(self) -> int:
        """Returns the address of the `TfLiteDelegate`, for `Interpreter`."""
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
        """The C side of a kernel. Separate functions for each kernel avoid a look-up in each run."""
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
        """Returns a callback that C can call.

        C cannot handle Python exceptions, so the caller of the interpreter raises them.

        cffi makes the callback, because cffi also reports a `KeyboardInterrupt` before the
        function's first statement, outside of any `try`; ctypes prints this interrupt, and C
        continues with an undefined status.
        """
        callback = _FFI.callback(_SIGNATURE, function, abi.ERROR, self._keep)
        self._callbacks.append(callback)
        return int(_FFI.cast("uintptr_t", callback))

    def _keep(self, _kind: type[BaseException], error: BaseException, _trace: object) -> None:
        self._error = error
