"""A model in memory: its file, its interpreter, and the vendor's session for its NPU calls."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from dispatch.call import Call
from dispatch.event import Event
from dispatch.mem_buffer import MemBuffer
from dispatch.session import Session
from dispatch.tensor_buffer import TensorBuffer
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob, MappedFile
from litert.model.dispatch_op import is_dispatch_op, read_dispatch_options
from litert.model.graph import Model, Signature, Subgraph, Tensor
from litert.model.reader import read_model
from litert.runtime.interpreter import CpuSettings, GraphInterpreter
from litert.runtime.metrics import CallMeter, CallMetrics
from litert.runtime.npu_kernel import NpuKernel
from litert.runtime.npu_parts import open_session, read_npu_parts
from litert.runtime.planned_subgraph import PlannedSubgraph
from litert.runtime.signature import Argument, Direction, SignatureRunner, wait_for_all
from litert.runtime.subgraph import InterpreterSubgraph, NodeView

_LOG = logging.getLogger(__name__)

PLACEHOLDER_SIGNATURE = "<placeholder signature>"
"""Stock's key for the main subgraph of a model that has no signatures."""


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How a model is loaded.

    Attributes:
      environment: where dispatch tables are.
      dispatch_options: the vendor's own, by name.
      cpu: how the CPU runs its part.
      is_cpu_allowed: whether ops may run on the CPU at all.
      is_npu_wanted: whether it is worth a word when none runs on the NPU.
      check_all_digests: also of parts so large that reading them is felt.
    """

    environment: EnvironmentOptions
    dispatch_options: Mapping[str, str] = field(default_factory=dict)
    cpu: CpuSettings = field(default_factory=CpuSettings)
    is_cpu_allowed: bool = True
    is_npu_wanted: bool = False
    check_all_digests: bool = False


class LoadedModel:
    """Owns all of it. Any thread may use it; its runs follow each other.

    Attributes:
      lock: to be held while a signature is used.
      signatures: in the file's order.
      is_fully_delegated: whether a delegate runs every op: ours, or XNNPACK.
    """

    def __init__(self, source: str | bytes, settings: LoadSettings) -> None:
        """Loads a model.

        Args:
          source: a path, or the model's bytes.
          settings: how.

        Raises:
          LiteRtError: what is wrong with the file, that its vendor is not there, or what that one raised.
            Nothing is left open.
        """
        self.lock = threading.RLock()
        self._where = source if isinstance(source, str) else "model from a buffer"
        self._kernels: list[NpuKernel] = []
        self._kernels_of: dict[int, list[NpuKernel]] = {}  # by their subgraph's context
        self._meters: list[CallMeter] | None = None
        self._events: Sequence[Event] = ()
        self._session: Session | None = None
        with ExitStack() as stack:
            if isinstance(source, str):
                file = stack.enter_context(MappedFile(source))
                model, whole = read_model(file), file.blob()
            else:
                model, whole = read_model(source), Blob(source)
            self._check_accelerators(model, settings)
            self._parts = read_npu_parts(
                model, whole, self._where, check_all_digests=settings.check_all_digests
            )
            if self._parts is not None:
                session = open_session(self._parts, settings.environment, settings.dispatch_options)
                self._session = stack.enter_context(session)
            self._interpreter = GraphInterpreter(source, settings.cpu, self._make_kernel)
            stack.callback(self._interpreter.close)
            self.signatures = self._make_signatures(model)
            self._interpreter.allocate()
            self.is_fully_delegated = all(
                node.is_delegated
                for subgraph in self._interpreter.subgraphs
                for node in subgraph.nodes()
            )
            _release_graph(model)
            self._resources = stack.pop_all()

    def run(
        self,
        signature: SignatureRunner,
        inputs: Sequence[TensorBuffer | None],
        outputs: Sequence[TensorBuffer | None],
    ) -> None:
        """Runs a signature; arguments and errors as `SignatureRunner.run`."""
        for buffer in inputs:
            if buffer is not None and buffer.event is not None:
                buffer.wait()
        with self.lock:
            if self._events:
                self._wait_for_run()
            signature.run(inputs, outputs)

    def is_all_npu(self, signature: SignatureRunner) -> bool:
        """Whether the CPU has no part in a signature, so that `start` can be used.

        Raises:
          LiteRtError: as `PlannedSubgraph.plan`.
        """
        with self.lock:
            return signature.is_all_npu()

    def start(
        self,
        signature: SignatureRunner,
        inputs: Sequence[TensorBuffer | None],
        outputs: Sequence[TensorBuffer],
    ) -> Sequence[Event]:
        """Starts a run that the NPU does alone, without waiting; the buffers of its outputs have its events.

        Returns:
          The events of all its calls.

        Raises:
          LiteRtError: as `SignatureRunner.run`.
        """
        with self.lock:
            self._wait_for_run()
            self._events = signature.start(inputs, outputs)
            return self._events

    def start_metrics(self, detail_level: int) -> None:
        """Measures each NPU call from now on.

        Args:
          detail_level: for the vendor; one without metrics is measured from outside alone.

        Raises:
          LiteRtError: ALREADY_EXISTS, if that was started before; the vendor's.
        """
        with self.lock:
            self._wait_for_run()
            if self._meters is not None:
                raise LiteRtError(
                    Status.ALREADY_EXISTS, "metrics are being collected already", self._where
                )
            meters = [CallMeter(kernel.call, detail_level) for kernel in self._kernels]
            for kernel, meter in zip(self._kernels, meters, strict=True):
                kernel.meter = meter
            self._meters = meters

    def stop_metrics(self) -> list[CallMetrics]:
        """What was measured since the start, one for each NPU call.

        Raises:
          LiteRtError: NOT_FOUND, if that was not started; the vendor's.
        """
        with self.lock:
            self._wait_for_run()
            if self._meters is None:
                raise LiteRtError(Status.NOT_FOUND, "no metrics are being collected", self._where)
            meters, self._meters = self._meters, None
            for kernel in self._kernels:
                kernel.meter = None
            return [meter.stop() for meter in meters]

    def close(self) -> None:
        """Waits for a run under way, and releases all; what goes wrong in that is logged."""
        with self.lock:
            self._wait_for_run()
            self.signatures = []
            self._kernels.clear()
            self._resources.close()

    def _wait_for_run(self) -> None:
        """Waits for a run that was started; who has its events gets its errors."""
        events, self._events = self._events, ()
        with suppress(LiteRtError):
            wait_for_all(events)

    def _check_accelerators(self, model: Model, settings: LoadSettings) -> None:
        cpu_ops = [op.name for op in model.ops() if not is_dispatch_op(op)]
        has_npu_calls = any(map(is_dispatch_op, model.ops()))
        if cpu_ops and not settings.is_cpu_allowed:
            names = ", ".join(dict.fromkeys(cpu_ops[:3]))
            raise LiteRtError(
                Status.COMPILATION,
                f"{len(cpu_ops)} ops are not for the NPU ({names}{', ...' if cpu_ops[3:] else ''})",
                self._where,
                "Add HardwareAccelerator.CPU, so that the CPU runs those."
                if has_npu_calls
                else "Compile the model with apply_plugin, or add HardwareAccelerator.CPU.",
            )
        if settings.is_npu_wanted and not has_npu_calls:
            _LOG.warning(
                "%s was not compiled for an NPU: all of it runs on the CPU. Compile it with apply_plugin.",
                self._where,
            )

    def _make_kernel(self, subgraph: InterpreterSubgraph, node: NodeView) -> NpuKernel:
        assert self._session is not None and self._parts is not None
        session = self._session
        options = read_dispatch_options(node.custom_options, self._where)
        byte_code = MemBuffer.from_blob(self._parts.byte_code(options))

        def open_call(
            input_types: Sequence[RankedTensorType], output_types: Sequence[RankedTensorType]
        ) -> Call:
            return session.open_call(byte_code, options.name, input_types, output_types)

        kernel = NpuKernel(
            options.name,
            subgraph,
            node.inputs,
            node.outputs,
            self._parts.shape_outputs(options.name),
            open_call,
        )
        self._kernels.append(kernel)
        self._kernels_of.setdefault(subgraph.context, []).append(kernel)
        return kernel

    def _make_signatures(self, model: Model) -> list[SignatureRunner]:
        """One for each signature; signatures of one subgraph share it."""
        found = _match(model.subgraphs, self._interpreter.subgraphs, self._where)
        planned: dict[int, PlannedSubgraph] = {}
        runners = []
        for entry in _entries(model):
            index = next(i for i, s in enumerate(model.subgraphs) if s is entry.subgraph)
            subgraph = planned.get(index)
            if subgraph is None:
                tensors = found[index]
                kernels = self._kernels_of.get(tensors.context, [])
                subgraph = PlannedSubgraph(index, self._interpreter, tensors, kernels)
                planned[index] = subgraph
            places = {id(t): i for i, t in enumerate(entry.subgraph.tensors)}
            runners.append(
                SignatureRunner(
                    entry.key,
                    subgraph,
                    _arguments(Direction.INPUT, entry.inputs, entry.subgraph.inputs, places),
                    _arguments(Direction.OUTPUT, entry.outputs, entry.subgraph.outputs, places),
                )
            )
        for index, tensors in found.items():
            tensors.is_called = index not in planned
        return runners


def _release_graph(model: Model) -> None:
    """Takes the graph apart, whose circles would keep the mapped file until the next garbage collection."""
    for op in model.ops():
        op.release()


def _entries(model: Model) -> list[Signature]:
    """The model's signatures; for a model without one, stock's placeholder."""
    if model.signatures or not model.subgraphs:
        return model.signatures
    main = model.subgraphs[0]
    inputs = [(tensor.name, tensor) for tensor in main.inputs]
    outputs = [(tensor.name, tensor) for tensor in main.outputs]
    return [Signature(PLACEHOLDER_SIGNATURE, main, inputs, outputs)]


def _arguments(
    direction: Direction,
    named: Sequence[tuple[str, Tensor]],
    order: Sequence[Tensor],
    places: Mapping[int, int],
) -> list[Argument]:
    """A signature's inputs or outputs, in the subgraph's order as stock has them."""
    ranks: dict[int, int] = {}
    for rank, tensor in enumerate(order):
        ranks.setdefault(id(tensor), rank)
    ordered = sorted(named, key=lambda item: ranks.get(id(item[1]), len(ranks)))
    return [Argument(direction, name, places[id(tensor)]) for name, tensor in ordered]


def _match(
    subgraphs: Sequence[Subgraph], shown: Sequence[InterpreterSubgraph], where: str
) -> dict[int, InterpreterSubgraph]:
    """Which subgraph of the model is which of the interpreter, which leaves out those for validation."""
    found = {}
    rest = list(shown)
    for index, subgraph in enumerate(subgraphs):
        if rest and _is_same(subgraph, rest[0]):
            found[index] = rest.pop(0)
    if rest:
        raise LiteRtError(
            Status.UNSUPPORTED_RUNTIME_VERSION, "the interpreter has other subgraphs", where
        )
    return found


def _is_same(subgraph: Subgraph, shown: InterpreterSubgraph) -> bool:
    if len(subgraph.tensors) > shown.num_tensors:
        return False
    return all(tensor.name == shown.tensor_name(i) for i, tensor in enumerate(subgraph.tensors))
