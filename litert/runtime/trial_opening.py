"""Opens a model in a child process, so that a crash of stock LiteRT's interpreter does not end this process.

No driver is loaded, and the NPU calls do not run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from litert.core.errors import PRINTED, ChildEndedError, LiteRtError
from litert.core.status import Status
from litert.cpu_kernel_mode import CpuKernelMode
from litert.model.blob import MappedFile
from litert.runtime.subgraph import InterpreterSubgraph, NodeView

_TARGET = "litert.runtime.trial_opening:open_once"
_TIMEOUT_S = 60


def check_opens(source: MappedFile | bytes, where: str) -> None:
    """Opens a model once, in a child process.

    The function ignores errors that stock LiteRT reports: stock LiteRT reports them again when this process
    opens the model.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, if the model crashes the interpreter, or takes too long to open.
    """
    # Imported here and below, because few models are opened in a trial
    from litert.host.child import call_in_child
    from litert.model.atomic_file import temporary_file

    with ExitStack() as stack:
        if isinstance(source, MappedFile):
            path = source.path
        else:
            copy = stack.enter_context(temporary_file("model.tflite"))
            copy.write(source)
            copy.flush()
            path = copy.name
        try:
            for _ in call_in_child(
                _TARGET,
                path,
                timeout_s=_TIMEOUT_S,
                subject="stock LiteRT's interpreter",
            ):
                pass
        except ChildEndedError as error:
            raise LiteRtError(
                Status.INVALID_FLATBUFFER,
                f"{error.what.partition(PRINTED)[0]} while it opened the model",
                where,
                "The file is damaged or malicious: copy the file again from its source.",
            ) from None


def open_once(path: str) -> Iterator[None]:
    """Prepares all ops of a model; runs in the child process."""
    from litert.runtime.interpreter import GraphInterpreter

    try:
        interpreter = GraphInterpreter(
            path,
            path,
            1,
            CpuKernelMode.DELEGATE,
            _make_kernel,
            custom_op_hint="",
            stock_arguments={},
        )
        interpreter.allocate()
        interpreter.close()
    except LiteRtError:  # the model has not crashed the interpreter
        pass
    yield None


class _NoKernel:
    """Stands for an NPU call, and does nothing."""

    def prepare(self) -> None:
        """Keeps the shapes of the file."""

    def run(self) -> None:
        """Does nothing."""


def _make_kernel(subgraph: InterpreterSubgraph, node: NodeView) -> _NoKernel:
    return _NoKernel()
