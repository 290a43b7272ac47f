"""From a file to a model that runs: file, vendor's session, interpreter, in that order."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from dispatch.call import Call
from dispatch.mem_buffer import MemBuffer
from dispatch.session import Session
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import MappedFile
from litert.model.dispatch_op import is_dispatch_op, read_dispatch_options
from litert.runtime.entries import make_signatures
from litert.runtime.interpreter import CpuSettings, GraphInterpreter
from litert.runtime.jit_settings import JitSettings
from litert.runtime.loaded_model import LoadedModel
from litert.runtime.npu_kernel import NpuKernel
from litert.runtime.npu_parts import NpuParts, open_session, read_npu_parts
from litert.runtime.opened_model import OpenedModel, open_model
from litert.runtime.subgraph import InterpreterSubgraph, NodeView

_LOG = logging.getLogger(__name__)

_COMPILE_IT = "Compile it with apply_plugin."
_NOT_COMPILED = "Compile the model with apply_plugin and an asset for the op."
_LEFT_ON_CPU = (
    "apply_plugin has left the op on the CPU, which has no kernel for it: its report says why, and "
    "--require_npu=<op> makes that an error."
)


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
      jit: how a model that is not compiled is compiled; None where it is not.
    """

    environment: EnvironmentOptions
    dispatch_options: Mapping[str, str] = field(default_factory=dict)
    cpu: CpuSettings = field(default_factory=CpuSettings)
    is_cpu_allowed: bool = True
    is_npu_wanted: bool = False
    check_all_digests: bool = False
    jit: JitSettings | None = None


def load_model(source: str | bytes, settings: LoadSettings) -> LoadedModel:
    """Loads a model.

    Args:
      source: a path, or the model's bytes.
      settings: how.

    Raises:
      LiteRtError: what is wrong with the file, that its vendor is not there, or what that one raised. Nothing is
        left open.
    """
    where = source if isinstance(source, str) else "model from a buffer"
    with ExitStack() as resources, ExitStack() as graph:
        given = resources.enter_context(ExitStack())
        opened = open_model(MappedFile(source) if isinstance(source, str) else source, given, graph)
        if settings.jit is not None and not opened.is_compiled:
            # Here, since it is the compiler: most programs load what is compiled.
            from litert.runtime.jit import compiled_at_load
            from litert.runtime.jit_cache import Nothing

            jit = compiled_at_load(opened.source, where, settings.jit, settings.environment)
            found = graph.enter_context(jit)
            if isinstance(found, Nothing):
                opened = replace(opened, why_not_compiled=found.why)
            else:
                opened = open_model(found, resources, graph)
                graph.callback(given.close)
        _check_accelerators(opened, settings, where)
        model, whole = opened.model, opened.whole
        digests = settings.check_all_digests
        parts = read_npu_parts(model, whole, where, check_all_digests=digests)
        kernels = _Kernels(where)
        if parts is not None:
            session = open_session(parts, settings.environment, settings.dispatch_options)
            kernels.use(parts, resources.enter_context(session))
        interpreter = GraphInterpreter(
            opened.stock_source,
            where,
            settings.cpu,
            kernels.make,
            custom_op_hint=_LEFT_ON_CPU if opened.is_compiled else opened.why_on_cpu(_NOT_COMPILED),
        )
        resources.callback(interpreter.close)
        resources.callback(
            kernels.close
        )  # before that: the vendor knows memory of the interpreter's
        signatures = make_signatures(model, interpreter, kernels.by_context)
        interpreter.allocate()
        is_fully_delegated = all(
            node.is_delegated for subgraph in interpreter.subgraphs for node in subgraph.nodes()
        )
        return LoadedModel(
            where,
            signatures,
            kernels.all,
            resources.pop_all(),
            is_fully_delegated=is_fully_delegated,
        )


class _Kernels:
    """Makes the kernels for a model's dispatch ops.

    Attributes:
      all: in the order of their ops.
      by_context: those of each subgraph, by its context's address.
    """

    def __init__(self, where: str) -> None:
        self.all: list[NpuKernel] = []
        self.by_context: dict[int, list[NpuKernel]] = {}
        self._where = where
        self._parts: NpuParts
        self._session: Session

    def use(self, parts: NpuParts, session: Session) -> None:
        """Says where byte code is, and who runs it."""
        self._parts, self._session = parts, session

    def close(self) -> None:
        """Closes all calls."""
        for kernel in reversed(self.all):
            kernel.call.close()

    def make(self, subgraph: InterpreterSubgraph, node: NodeView) -> NpuKernel:
        """Opens a call, as `MakeKernel`."""
        options = read_dispatch_options(node.custom_options, self._where)
        byte_code = MemBuffer.from_blob(self._parts.byte_code(options))
        session = self._session

        def open_call(
            input_types: Sequence[RankedTensorType], output_types: Sequence[RankedTensorType]
        ) -> Call:
            return session.open_call(byte_code, options.name, input_types, output_types)

        shapes = self._parts.shape_outputs(options.name)
        kernel = NpuKernel(options.name, subgraph, node.inputs, node.outputs, shapes, open_call)
        self.all.append(kernel)
        self.by_context.setdefault(subgraph.context, []).append(kernel)
        return kernel


def _check_accelerators(opened: OpenedModel, settings: LoadSettings, where: str) -> None:
    """Refuses what may not run on the CPU; says where nothing runs on the NPU."""
    cpu_ops = [op for op in opened.model.ops() if not is_dispatch_op(op)]
    if cpu_ops and not settings.is_cpu_allowed:
        count = "1 op is" if len(cpu_ops) == 1 else f"{len(cpu_ops)} ops are"
        names = ", ".join(dict.fromkeys(op.name for op in cpu_ops[:3]))
        raise LiteRtError(
            Status.COMPILATION,
            f"{count} not for the NPU ({names}{', ...' if cpu_ops[3:] else ''})",
            where,
            "Add HardwareAccelerator.CPU, so that the CPU runs those."
            if opened.is_compiled
            else f"{opened.why_on_cpu(_COMPILE_IT)} HardwareAccelerator.CPU would run it.",
        )
    if settings.is_npu_wanted and not opened.has_npu_calls:
        _LOG.warning(
            "%s has no op for the NPU, as apply_plugin has reported: all of it runs on the CPU."
            if opened.is_compiled
            else "%s was not compiled for an NPU: all of it runs on the CPU. %s",
            where,
            *([] if opened.is_compiled else [opened.why_on_cpu(_COMPILE_IT)]),
        )
