"""Loads a model from a file: opens the file, the vendor's session and the interpreter, in this order."""

from __future__ import annotations

import logging
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from dispatch.mem_buffer import MemBuffer
from dispatch.session import Session
from litert.core.counts import count_text
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import SpanKind, measured, span
from litert.cpu_kernel_mode import CpuKernelMode
from litert.hardware_accelerator import HardwareAccelerator
from litert.model.blob import Blob, MappedFile
from litert.model.dispatch_op import is_dispatch_op, read_dispatch_options
from litert.model.file_digest import AT_LOAD_LIMIT, check_digest
from litert.model.graph import Model
from litert.model.manifest import Manifest, read_manifest
from litert.model.reader import read_model
from litert.model.stamp import STAMP_KEY
from litert.model.stock_checks import check_for_stock
from litert.options import CpuOptions, Options
from litert.runtime.abi_check import check_profiler
from litert.runtime.entries import make_signatures, match_subgraphs
from litert.runtime.interpreter import GraphInterpreter
from litert.runtime.loaded_model import LoadedModel
from litert.runtime.npu_kernel import NpuKernel
from litert.runtime.npu_parts import NpuParts, open_session, read_npu_parts
from litert.runtime.process_exit import model_lock
from litert.runtime.subgraph import InterpreterSubgraph, NodeView
from litert.runtime.timing_code import Profiler
from litert.runtime.trial_opening import check_opens

_LOG = logging.getLogger(__name__)

_COMPILE_IT = "To use the NPU, compile the model with apply_plugin."
_GIVE_ASSET = (
    "Give the file that implements the op with --npu_custom_op_info=<op>,<file>; in Python, with "
    "custom_op_infos."
)
_NOT_COMPILED = f"The model is not compiled for an NPU. {_GIVE_ASSET}"
_NPU_NOT_ALLOWED = (
    "The model was not compiled when it was loaded, because the options do not allow the NPU. To allow the NPU, "
    "use"
)
_NOT_TAKEN = f"The model was compiled when it was loaded, but the vendor did not compile the op. {_GIVE_ASSET}"
_SELECTION = (
    "HardwareAccelerator.NPU | HardwareAccelerator.CPU in Python, "
    "--accelerator=npu,cpu on the command line."
)
_LEFT_ON_CPU = (
    "apply_plugin left the op on the CPU; the report of apply_plugin says why. To make apply_plugin fail "
    "in such a case, use --require_npu=<op> or --require_runnable."
)


class _OpenedModel(NamedTuple):
    """A model that was read, and its source.

    Attributes:
      model: Model whose constants are views of the source.
      source: File of the model, or its bytes.
      manifest: Manifest of the file; None if another compiler made the file.
      is_checked: Whether the whole file was compared with its digest.
      why_not_compiled: Sentences with the reasons why compiling at load failed; "" if it was not tried.
    """

    model: Model
    source: MappedFile | bytes
    manifest: Manifest | None
    is_checked: bool = False
    why_not_compiled: str = ""

    @property
    def has_npu_calls(self) -> bool:
        return any(map(is_dispatch_op, self.model.ops()))

    @property
    def is_compiled(self) -> bool:
        """Whether a compiler has made the model, even if all ops stayed on the CPU."""
        return self.model.find_metadata(STAMP_KEY) is not None or self.has_npu_calls

    def why_on_cpu(self, advice: str) -> str:
        """Returns the advice, with the reason why compiling at load failed."""
        if self.why_not_compiled:
            return (
                f"{advice} No vendor compiled the model when it was loaded. {self.why_not_compiled}"
            )
        return advice


TakeKernels: TypeAlias = Callable[[Sequence[str]], object]
"""Function that receives the source code of NPU calls' kernels, in exactly the form that is compiled."""


def load_model(
    source: str | bytes | MappedFile,
    environment: EnvironmentOptions,
    options: Options,
    take_kernels: TakeKernels | None = None,
) -> LoadedModel:
    """Loads a model. If the model is not compiled yet and the options allow the NPU, the model is compiled first.

    Args:
      source: Path, bytes, or open file of the model; the file is closed with the model.
      environment: Options that name the folders of plugins and dispatch tables.
      options: Options of the program. Options that this runtime does not support raise an error, or are ignored
        with a warning.
      take_kernels: Function that receives the source code of kernels before they are built; if given, the source
        code is not written to the directory in the options.

    Raises:
      LiteRtError: INVALID_ARGUMENT or UNSUPPORTED, if options are invalid or not supported; other errors, if the
        file is damaged, if the vendor is missing, or if the vendor's code fails. If an error is raised, all opened
        objects are closed.
    """
    loaded = load_unplanned(source, environment, options, take_kernels=take_kernels)
    try:
        with loaded.hold(), span(SpanKind.LOAD, "prepare ops"):
            loaded.interpreter.allocate()
    except BaseException:
        loaded.close()
        raise
    return loaded


def load_unplanned(
    source: str | bytes | MappedFile,
    environment: EnvironmentOptions,
    options: Options,
    stock_arguments: Mapping[str, Any] | None = None,
    take_kernels: TakeKernels | None = None,
) -> LoadedModel:
    """Loads a model like `load_model`, but does not prepare the ops; the caller prepares them later.

    Args:
      source: Path, bytes, or open file of the model; see `load_model`.
      environment: Options that name the folders of plugins and dispatch tables.
      options: Options of the program; see `load_model`.
      stock_arguments: Further arguments for the constructor of stock LiteRT's interpreter.
      take_kernels: Function that receives the source code of kernels; see `load_model`.
    """
    accelerators, kernel_mode = _accelerators(options), _kernel_mode(options.cpu_options)
    num_threads = max(1, operator.index(options.cpu_options.num_threads))
    if HardwareAccelerator.NPU in accelerators:
        _check_compiler_options(options)
    where = "model from a buffer" if isinstance(source, bytes) else _path_of(source)
    lock = model_lock()
    with (
        lock,
        span(SpanKind.LOAD, where),
        ExitStack() as resources,
        ExitStack() as graph,
    ):
        given = resources.enter_context(ExitStack())
        limit = None if options.verify else AT_LOAD_LIMIT
        file = MappedFile(source) if isinstance(source, str) else source
        opened = _open(file, where, limit, given, graph)
        is_compiled_here = False
        if HardwareAccelerator.NPU in accelerators and not opened.is_compiled:
            raw, opened = opened, _compile(opened, where, environment, options, resources, graph)
            is_compiled_here = opened.source is not raw.source
            if is_compiled_here:
                graph.callback(given.close)
        check_for_stock(opened.model, where)
        if options.verify and opened.is_compiled:
            check_opens(opened.source, where)
        _check_accelerators(opened, accelerators, where)
        warns = HardwareAccelerator.NPU in accelerators and not opened.has_npu_calls
        model, file = opened.model, opened.source
        whole = Blob(file) if isinstance(file, bytes) else file.blob()
        part_limit = 0 if opened.is_checked else limit
        parts = read_npu_parts(model, opened.manifest, whole, where, part_limit)
        session = None
        if parts is not None:
            limits = options.device_limits() if options.isolated else None
            dispatch_options = options.all_dispatch_options()
            session = open_session(parts, environment, dispatch_options, limits, resources)
        if take_kernels is None and options.dump_kernels:
            # Imported here, because few programs use it
            from litert.model.kernel_files import dump_at_load

            take_kernels = partial(dump_at_load, options.dump_kernels)
        if take_kernels is not None:
            take_kernels(_read_kernels(parts, session))
        kernels = _Kernels(where, parts, session)
        interpreter = GraphInterpreter(
            file if isinstance(file, bytes) else file.data or _path_of_open(file),
            where,
            num_threads,
            kernel_mode,
            kernels.make,
            custom_op_hint=_custom_op_hint(opened, accelerators, options, is_compiled_here),
            stock_arguments=stock_arguments or {},
            profiler=_open_profiler() if options.enable_profiling else None,
            warning=_cpu_only_warning(opened, where) if warns else "",
        )
        resources.callback(interpreter.close)
        # This happens first, because the vendor has mapped the interpreter's memory.
        resources.callback(kernels.close)
        subgraphs = match_subgraphs(model.subgraphs, interpreter.subgraphs)
        signatures = make_signatures(model, interpreter, subgraphs, kernels.by_context)
        return LoadedModel(
            where, lock, signatures, kernels.all, subgraphs, interpreter, resources.pop_all()
        )


def _read_kernels(parts: NpuParts | None, session: Session | None) -> Sequence[str]:
    if parts is None or session is None:
        return ()
    return session.kernel_texts(map(MemBuffer.from_blob, parts.modules.values()))


def _open_profiler() -> Profiler | None:
    """Returns the profiler to which XNNPACK reports the times of its operators; None if it cannot."""
    try:
        check_profiler()
        return Profiler()
    except LiteRtError as error:
        _LOG.warning("cannot measure XNNPACK's operators: %s", error)
        return None


def _compile(
    raw: _OpenedModel,
    where: str,
    environment: EnvironmentOptions,
    options: Options,
    resources: ExitStack,
    graph: ExitStack,
) -> _OpenedModel:
    """Compiles a model; returns the same model, with the reason, if no vendor takes one of its ops."""
    # Imported here, because this is the compiler, and most programs load compiled models.
    from litert.runtime.compile_at_load import compiled_at_load
    from litert.runtime.compile_cache import Kept, Nothing

    found = graph.enter_context(compiled_at_load(raw.source, where, options, environment))
    if isinstance(found, Nothing):
        return raw._replace(why_not_compiled=found.why)
    if isinstance(found, Kept):
        resources.enter_context(found.file)
        graph.callback(found.model.release)
        return _OpenedModel(found.model, found.file, read_manifest(found.model), is_checked=True)
    return _open(found, where, AT_LOAD_LIMIT, resources, graph)


def _accelerators(options: Options) -> HardwareAccelerator:
    """Returns the hardware of this runtime that may run a model."""
    given = options.hardware_accelerators
    try:
        accelerators = HardwareAccelerator(operator.index(given))
    except TypeError:
        raise ValueError(  # as in stock LiteRT
            f"the hardware is {given!r:.60}, but must be a HardwareAccelerator, such as HardwareAccelerator.NPU"
        ) from None
    if not accelerators & (HardwareAccelerator.CPU | HardwareAccelerator.NPU):
        raise LiteRtError(
            Status.UNSUPPORTED if accelerators else Status.INVALID_ARGUMENT,
            "this runtime does not support GPUs"
            if accelerators
            else "the options select no hardware to run on",
            hint="Add HardwareAccelerator.CPU to Options.hardware_accelerators; on the command line, use "
            "--accelerator=cpu.",
        )
    if accelerators & HardwareAccelerator.GPU:
        _LOG.warning(
            "This runtime does not support GPUs: the model runs on the other selected hardware"
        )
    return accelerators


def _check_compiler_options(options: Options) -> None:
    if options.soc_model and not options.soc_manufacturer:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the options set the SoC model '{options.soc_model}', but no manufacturer",
            "Options.soc_model",
            "Set the manufacturer in Options.soc_manufacturer.",
        )
    if options.asks_to_compile:
        options.for_compiler()


def _kernel_mode(options: CpuOptions) -> CpuKernelMode:
    try:
        mode = CpuKernelMode(options.kernel_mode or CpuKernelMode.DELEGATE)
    except ValueError as error:
        raise LiteRtError(Status.INVALID_ARGUMENT, str(error), "CpuOptions.kernel_mode") from None
    if options.xnnpack_flags is not None or options.xnnpack_weight_cache_path:
        _LOG.warning("XNNPACK runs with stock LiteRT's own flags, and without a weight cache")
    return mode


@measured(SpanKind.LOAD, "read model")
def _open(
    source: MappedFile | bytes,
    where: str,
    limit: int | None,
    resources: ExitStack,
    graph: ExitStack,
) -> _OpenedModel:
    """Reads a model; the stacks close its file, and release its graph once it is loaded.

    Args:
      source: File of the model, or its bytes.
      where: Name of the file, for errors.
      limit: Largest size of a file that is compared with its digest, in bytes; None for any size.
      resources: Stack that closes the file.
      graph: Stack that releases the graph.
    """
    if isinstance(source, MappedFile):
        resources.enter_context(source)
    whole = source if isinstance(source, MappedFile) else memoryview(source)
    root = check_digest(whole, limit, where)
    model = read_model(source)
    graph.callback(model.release)
    return _OpenedModel(model, source, read_manifest(model, where), is_checked=bool(root))


def _path_of(source: str | MappedFile) -> str:
    return source if isinstance(source, str) else source.path


def _path_of_open(file: MappedFile) -> str:
    """Returns a path that leads to the open file, even if another file has replaced it under its name."""
    path = f"/proc/self/fd/{file.fd}"
    return path if os.path.exists(path) else file.path


class _Kernels:
    """Makes the kernels for a model's dispatch ops.

    Attributes:
      all: Kernels in the order of their ops.
      by_context: Kernels of each subgraph, by the address of its context.
    """

    def __init__(self, where: str, parts: NpuParts | None, session: Session | None) -> None:
        self.all: list[NpuKernel] = []
        self.by_context: dict[int, list[NpuKernel]] = {}
        self._where = where
        self._parts = parts
        self._session = session

    def close(self) -> None:
        """Closes all calls."""
        for kernel in reversed(self.all):
            kernel.call.close()

    def make(self, subgraph: InterpreterSubgraph, node: NodeView) -> NpuKernel:
        """Opens a call for `MakeKernel`."""
        # Exactly as many as there are calls
        assert self._parts is not None and self._session is not None
        options = read_dispatch_options(node.custom_options, self._where)
        byte_code = MemBuffer.from_blob(self._parts.byte_code(options))
        open_call = partial(self._session.open_call, byte_code, options.name)
        shapes = self._parts.shape_outputs(options.name)
        with span(SpanKind.LOAD, f"open call {options.name}"):
            kernel = NpuKernel(
                options.name, subgraph, node.index, node.inputs, node.outputs, shapes, open_call
            )
        self.all.append(kernel)
        self.by_context.setdefault(subgraph.context, []).append(kernel)
        return kernel


def _check_accelerators(
    opened: _OpenedModel, accelerators: HardwareAccelerator, where: str
) -> None:
    """Raises an error for ops on the CPU if the CPU is not allowed."""
    cpu_ops = [op for op in opened.model.ops() if not is_dispatch_op(op)]
    if cpu_ops and HardwareAccelerator.CPU not in accelerators:
        count = count_text(len(cpu_ops), "op")
        names = ", ".join(dict.fromkeys(op.name for op in cpu_ops[:3]))
        verb, needs = ("is", "needs") if len(cpu_ops) == 1 else ("are", "need")
        raise LiteRtError(
            Status.COMPILATION,
            f"{count} ({names}{', ...' if cpu_ops[3:] else ''}) {verb} not compiled for the NPU and "
            f"{needs} the CPU, but the CPU is not selected",
            where,
            f"Select the CPU too: {_SELECTION}"
            if opened.is_compiled
            else f"To run the model on the CPU, select the CPU too: {_SELECTION} "
            f"{opened.why_on_cpu(_COMPILE_IT)}",
        )


def _custom_op_hint(
    opened: _OpenedModel,
    accelerators: HardwareAccelerator,
    options: Options,
    is_compiled_here: bool,
) -> str:
    """Returns the hint for a custom op without a kernel; `<op>` stands for the op's name."""
    if is_compiled_here:
        return _NOT_TAKEN
    if opened.is_compiled:
        return _LEFT_ON_CPU
    if HardwareAccelerator.NPU not in accelerators and options.custom_op_infos:
        return f"{_NPU_NOT_ALLOWED} {_SELECTION}"
    return opened.why_on_cpu(_NOT_COMPILED)


def _cpu_only_warning(opened: _OpenedModel, where: str) -> str:
    if opened.is_compiled:
        return (
            f"{where} has no op for the NPU (see the report of apply_plugin): the CPU runs the "
            "whole model."
        )
    return (
        f"{where} was not compiled for an NPU: the CPU runs the whole model. "
        f"{opened.why_on_cpu(_COMPILE_IT)}"
    )
