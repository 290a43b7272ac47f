"""A model in memory: stock LiteRT's interpreter, and the vendor's session that runs the NPU calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TypeAlias

from dispatch.event import Event, wait_for_all
from dispatch.tensor_buffer import TensorBuffer
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.core.tracing import RECORDINGS, SpanKind, is_recording, span
from litert.runtime.collection import Collection
from litert.runtime.interpreter import GraphInterpreter
from litert.runtime.metrics import RunMetrics
from litert.runtime.npu_kernel import NpuKernel
from litert.runtime.signature import PLACEHOLDER_SIGNATURE, SignatureRunner
from litert.runtime.subgraph import InterpreterSubgraph

REOPEN = "Load the model again, or close it only after its last use."
"""Hint for a call of a closed model."""

ReceiveFromCall: TypeAlias = Callable[[str, str, RankedTensorType, memoryview], None]


class LoadedModel:
    """A loaded model, which owns all objects that were opened for it.

    Any thread may use the model, but only one run takes place at a time.

    Attributes:
      signatures: Signatures in the file's order.
      subgraphs: The interpreter's subgraphs, by their index in the file.
      interpreter: Stock LiteRT's interpreter, which runs the subgraphs.
    """

    def __init__(
        self,
        where: str,
        lock: threading.RLock,
        signatures: Sequence[SignatureRunner],
        kernels: Sequence[NpuKernel],
        subgraphs: Mapping[int, InterpreterSubgraph],
        interpreter: GraphInterpreter,
        resources: ExitStack,
    ) -> None:
        """Takes ownership of the objects that `load_model` opened.

        `where` is the file's name, for error messages; every call into the model acquires `lock`.
        """
        self._lock = lock
        self.signatures = signatures
        self.subgraphs = subgraphs
        self.interpreter = interpreter
        self._where = where
        self._kernels = kernels
        self._resources = resources
        self._is_open = True
        self._collection: Collection | None = None
        self._events: Sequence[Event] = ()

    @property
    def is_fully_delegated(self) -> bool:
        """Whether every op is run by a delegate: this project's delegate, or XNNPACK."""
        with self.hold():
            subgraphs = self.subgraphs.values()
            return all(node.is_delegated for subgraph in subgraphs for node in subgraph.nodes())

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Locks the model while a signature is used, so that no other thread can run or close the model.

        Raises:
          LiteRtError: RUNTIME_FAILURE, if the model is closed, or was closed while this thread waited for the
            lock.
        """
        with self._lock:
            self._check_open()
            yield

    def run(
        self,
        signature: SignatureRunner,
        inputs: Sequence[TensorBuffer | None],
        outputs: Sequence[TensorBuffer | None],
    ) -> None:
        """Runs a signature; the arguments and errors are the same as in `SignatureRunner.run`."""
        for buffer in inputs:
            if buffer is not None and buffer.event is not None:
                buffer.wait()
        for buffer in outputs:
            if buffer is not None and buffer.event is not None:
                with suppress(LiteRtError):  # buffers of a failed run are written again
                    buffer.wait()
        with self._lock:
            self._check_open()
            if self._events:
                self._wait_for_run()
            if self._collection is not None or (RECORDINGS and is_recording()):
                self._run_measured(signature, partial(signature.run, inputs, outputs))
            else:
                signature.run(inputs, outputs)

    def start(
        self,
        signature: SignatureRunner,
        inputs: Sequence[TensorBuffer | None],
        outputs: Sequence[TensorBuffer],
    ) -> Sequence[Event]:
        """Starts a run that consists only of NPU calls.

        Returns the events of all calls; the output buffers have these events, too.
        """
        with self._lock:
            self._check_open()
            self._wait_for_run()
            self._events = signature.start(inputs, outputs)
            return self._events

    def start_metrics(self, detail_level: int, warm_up: int = 0) -> None:
        """Starts to measure runs and their NPU calls; a high level of detail also includes ops."""
        with self.hold():
            self._wait_for_run()
            if self._collection is not None:
                raise LiteRtError(
                    Status.ALREADY_EXISTS,
                    "a metrics collection is already active",
                    self._where,
                    "Call stop_metrics_collection first.",
                )
            planned = list({signature.subgraph: None for signature in self.signatures})
            self._collection = Collection(
                self._kernels,
                self.subgraphs,
                planned,
                self.interpreter.profiler,
                detail_level,
                warm_up,
            )

    def stop_metrics(self) -> RunMetrics:
        """Ends the measurement, and returns the measurements since its start."""
        with self.hold():
            self._wait_for_run()
            if self._collection is None:
                raise LiteRtError(
                    Status.NOT_FOUND,
                    "no metrics collection is active",
                    self._where,
                    "Call start_metrics_collection first.",
                )
            collection, self._collection = self._collection, None
            return collection.stop()

    @contextmanager
    def tapped(self, receive: ReceiveFromCall) -> Iterator[None]:
        """Makes runs pass the tensors inside NPU calls to a function; its first argument is the call's name.

        Runs raise UNSUPPORTED if the vendor does not support taps.
        """
        with self.hold():
            for kernel in self._kernels:
                kernel.tap = partial(receive, kernel.call.function_name)
        try:
            yield
        finally:
            for kernel in self._kernels:
                kernel.tap = None

    def close(self) -> None:
        """Waits until no run is active, and releases the model's objects; errors of the release are logged."""
        with self._lock:
            self._wait_for_run()
            self._is_open = False
            self.signatures = self._kernels = ()
            self._resources.close()

    def _run_measured(self, signature: SignatureRunner, run: Callable[[], None]) -> None:
        """Runs a signature for a recording, a collection, or both."""
        name = "run" if signature.key == PLACEHOLDER_SIGNATURE else signature.key

        def recorded() -> None:
            with span(SpanKind.RUN, name, model=self._where):
                run()

        if self._collection is not None:
            self._collection.run(recorded)
        else:
            recorded()

    def _check_open(self) -> None:
        if not self._is_open:
            raise LiteRtError(Status.RUNTIME_FAILURE, "the model is closed", self._where, REOPEN)

    def _wait_for_run(self) -> None:
        """Waits for a run that was started; the holder of its events gets its errors."""
        events, self._events = self._events, ()
        with suppress(LiteRtError):
            wait_for_all(events)
