"""Stock LiteRT's interpreter with this project's delegate; errors are converted to `LiteRtError`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from litert.core.errors import LiteRtError
from litert.core.quoting import shell_word, stock_text, unknown_custom_op
from litert.core.status import Status
from litert.core.tracing import SpanKind, span
from litert.cpu_kernel_mode import CpuKernelMode
from litert.runtime.abi_check import check_abi
from litert.runtime.delegate import MakeKernel, NpuDelegate
from litert.runtime.subgraph import InterpreterSubgraph
from litert.runtime.timing_code import Profiler

_LOG = logging.getLogger(__name__)
_MOST_LETTERS = 600
_SMALL_CONSTANT = "required_bytes <= bytes was not true"
_END_OF_SENTENCE = "in schema."
_SPARSITY_IS_LOST = (
    "If another tool of LiteRT wrote the model, this tool has lost the sparsity data of the constant: "
    "compile the original model with litert-npu's apply_plugin."
)

_RESOLVERS = {  # names in stock LiteRT's `OpResolverType`
    CpuKernelMode.DELEGATE: "AUTO",
    CpuKernelMode.BUILTIN: "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    CpuKernelMode.REFERENCE: "BUILTIN_REF",
}

if TYPE_CHECKING:
    import numpy as np


class GraphInterpreter:
    """Owns the interpreter and the delegate.

    Attributes:
      subgraphs: Subgraphs in the order in which the interpreter passed them to the delegate.
      raw: Stock LiteRT's C++ interpreter.
      profiler: The profiler that was given to the constructor.
    """

    def __init__(
        self,
        source: str | bytes,
        where: str,
        num_threads: int,
        kernel_mode: CpuKernelMode,
        make_kernel: MakeKernel,
        *,
        custom_op_hint: str,
        stock_arguments: Mapping[str, Any],
        profiler: Profiler | None = None,
        warning: str = "",
    ) -> None:
        """Builds the interpreter's graph, and creates a kernel for each dispatch op.

        Args:
          source: Path of a model, or its bytes.
          where: Name of the file, for errors.
          num_threads: Number of CPU threads.
          kernel_mode: Kernels that run the ops outside of NPU calls.
          make_kernel: Function that creates the kernels for NPU calls.
          custom_op_hint: Hint in the error about a custom op that neither the NPU nor the CPU can run, with `<op>`
            in place of the op's name.
          stock_arguments: Further arguments for stock LiteRT's constructor; delegates among them get the ops after
            this project's delegate.
          profiler: Profiler to which XNNPACK reports the times of its operators.
          warning: Warning to log once the ops are prepared; if they cannot be prepared, only the error is shown.

        Raises:
          LiteRtError: An error of `make_kernel`; INVALID_FLATBUFFER, if the interpreter refuses the model;
            UNSUPPORTED_RUNTIME_VERSION, if the layout of stock LiteRT's structs is not the expected layout.
        """
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        check_abi()
        self._where = where
        self._custom_op_hint = custom_op_hint
        self._warning = warning
        self.profiler = profiler
        self._delegate = NpuDelegate(make_kernel, profiler.address if profiler else 0)
        self._old_messages = ""
        arguments: dict[str, Any] = {
            "model_path" if isinstance(source, str) else "model_content": source,
            "num_threads": num_threads,
            "experimental_op_resolver_type": OpResolverType[_RESOLVERS[kernel_mode]],
            **stock_arguments,
        }
        others = arguments.get("experimental_delegates") or ()
        arguments["experimental_delegates"] = [self._delegate, *others]
        try:
            with span(SpanKind.LOAD, "make interpreter"):
                self._interpreter = Interpreter(**arguments)
        except BaseException as error:
            self._delegate.close()
            self._raise(error, Status.INVALID_FLATBUFFER, "the model cannot be opened")
        self.raw: Any = self._interpreter._interpreter
        # Bound once and called directly, because `Interpreter.invoke` counts references.
        self._invoke: Callable[[int], None] = self.raw.Invoke
        self.subgraphs: Sequence[InterpreterSubgraph] = self._delegate.subgraphs

    def invoke(self, subgraph_index: int) -> None:
        """Runs a subgraph. After an error, the subgraph can be run again."""
        try:
            self._invoke(subgraph_index)
        except BaseException as error:
            self._raise(error, Status.RUNTIME_FAILURE, "the run failed")

    def allocate(self, subgraph_index: int | None = None) -> None:
        """Prepares the ops of a subgraph, and plans its memory.

        The first call must be for the main subgraph (None), because XNNPACK takes ops during that call.
        """
        try:
            self.raw.AllocateTensors(-1 if subgraph_index is None else subgraph_index)
        except BaseException as error:
            self._raise(error, Status.RUNTIME_FAILURE, "cannot prepare the ops on the CPU")
        if self._warning:
            _LOG.warning(self._warning)
            self._warning = ""

    def resize(self, subgraph_index: int, tensor: int, shape: np.ndarray[Any, Any]) -> None:
        """Sets an input's shape, given as an int32 array. The caller must call `allocate` afterwards."""
        try:
            self.raw.ResizeInputTensor(tensor, shape, False, subgraph_index)
        except BaseException as error:
            self._raise(error, Status.RUNTIME_FAILURE, "cannot resize the input")

    def close(self) -> None:
        """Destroys the interpreter, then the delegate."""
        del self._invoke, self.raw, self._interpreter
        self._delegate.close()

    def _raise(self, error: BaseException, status: Status, what: str) -> NoReturn:
        """Raises the error of one of this project's kernels, if any; otherwise the interpreter's own error."""
        message = str(error)
        # Stock LiteRT prepends old messages to new messages
        if message.startswith(self._old_messages):
            message, self._old_messages = message[len(self._old_messages) :], message
        own = self._delegate.take_error()
        if own is not None:
            try:
                raise own
            finally:
                del own  # the exception holds this frame
        if not isinstance(error, (RuntimeError, ValueError)):
            raise error
        hint = ""
        if op := unknown_custom_op(message):
            hint = self._custom_op_hint.replace("<op>", shell_word(op))
        if _SMALL_CONSTANT in message:
            what = f"{what}, because a constant has fewer bytes than its tensor"
            hint = _SPARSITY_IS_LOST
            first, end, _ = message.partition(
                _END_OF_SENTENCE
            )  # one sentence for each faulty tensor
            message = first + end
        reason = stock_text(message)
        if len(reason) > _MOST_LETTERS:
            reason = f"{reason[:_MOST_LETTERS]}…"
        if not op:
            reason = f'stock LiteRT reports "{reason}"'
        raise LiteRtError(status, f"{what}: {reason}", self._where, hint) from None
