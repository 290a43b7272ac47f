"""Checks that stock LiteRT's structs have the layout in `tflite_abi`; runs a tiny model once per process."""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import Any

from dispatch.tensor_buffer import TensorBuffer
from litert.core.errors import LiteRtError, describe
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.runtime.delegate import KERNEL_NAME, NpuDelegate
from litert.runtime.subgraph import InterpreterSubgraph, NodeView
from litert.runtime.timing_code import EventLog, OperatorEvent, Profiler

TINY_MODEL = os.path.join(os.path.dirname(__file__), "abi_check.tflite")
"""The model `z = x + y`, where y is an NPU call's result.

The model is stored as a file, because importing the modules that build and write models takes 10 ms.
"""

_OPTIONS = b"some options"
_SHAPE, _NEW_SHAPE = (1, 3), (2, 3)
_NOT_TOLD = "this release of ai-edge-litert does not report the operators that XNNPACK runs"
_lock = threading.Lock()
_is_checked = False


def check_abi() -> None:
    """Runs an NPU call in the installed stock LiteRT interpreter, unless this process has done so before."""
    global _is_checked
    with _lock:
        if not _is_checked:
            _run_tiny_model()
            _is_checked = True


class _DoublingKernel:
    """Checks all visible facts of its op; doubles the input into an output whose shape only the run knows."""

    def __init__(self, subgraph: InterpreterSubgraph, node: NodeView) -> None:
        _expect(subgraph.num_tensors, 3, "TfLiteContext")
        _expect((node.inputs, node.outputs), ((0,), (1,)), "TfLiteNode")
        _expect(node.custom_options, _OPTIONS, "the options in TfLiteNode")
        for index, name in enumerate(("x", "y", "z")):
            tensor = subgraph.tensor(index)
            _expect(subgraph.tensor_name(index), name, "the name in TfLiteTensor")
            _expect(subgraph.tensor_type(index).shape, _SHAPE, "the shape in TfLiteTensor")
            _expect(tensor.bytes, 12, "the size in TfLiteTensor")
            _expect(tensor.is_variable, False, "the flags in TfLiteTensor")
        _expect(subgraph.shape_signature(0), (-1, 3), "the signature in TfLiteTensor")
        self._subgraph = subgraph

    def prepare(self) -> None:
        self._subgraph.set_dynamic(1)

    def run(self) -> None:
        subgraph = self._subgraph
        shape = subgraph.tensor_type(0).shape
        subgraph.resize(1, shape)
        _expect(subgraph.tensor_type(1).shape, shape, "ResizeTensor")
        subgraph.buffer_of(1).array()[:] = 2 * subgraph.buffer_of(0).array()


class _StaticKernel(_DoublingKernel):
    """Doubles the input into an output whose shape is known before the run."""

    def prepare(self) -> None:
        pass

    def run(self) -> None:
        subgraph = self._subgraph
        subgraph.buffer_of(1).array()[:] = 2 * subgraph.buffer_of(0).array()


def check_profiler() -> None:
    """Checks, once per process, that XNNPACK reports the operator that it runs in the tiny model.

    Raises:
      LiteRtError: UNSUPPORTED, if XNNPACK does not report the operator.
    """
    check_abi()
    with _lock:
        _run_with_profiler()


@cache
def _run_with_profiler() -> None:
    from ai_edge_litert.interpreter import Interpreter

    profiler = Profiler()
    delegate = NpuDelegate(_StaticKernel)
    raw: Any = Interpreter(model_path=TINY_MODEL, experimental_delegates=[delegate])._interpreter
    (subgraph,) = delegate.subgraphs
    # A value here means that the struct has another layout, so the field must not be written
    if subgraph.profiler:
        raise LiteRtError(Status.UNSUPPORTED, _NOT_TOLD)
    subgraph.profiler = profiler.address
    raw.AllocateTensors()
    log = EventLog([])
    profiler.write_to(log)
    raw.Invoke(0)
    events, _ = log.take()
    if not any(isinstance(event, OperatorEvent) for event in events):
        raise LiteRtError(Status.UNSUPPORTED, _NOT_TOLD)


def _run_tiny_model() -> None:
    import ai_edge_litert
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    delegate = NpuDelegate(_DoublingKernel)
    try:
        made = Interpreter(model_path=TINY_MODEL, experimental_delegates=[delegate])
        raw: Any = made._interpreter
        raw.AllocateTensors()
        value = np.array([[1, 2, 3]], np.float32)
        raw.SetTensor(0, value)
        raw.Invoke(0)
        _expect(raw.GetTensor(2).tolist(), (3 * value).tolist(), "a run's result")

        (subgraph,) = delegate.subgraphs
        value = np.array([[4, 5, 6], [7, 8, 9]], np.float32)
        raw.ResizeInputTensor(0, np.array(_NEW_SHAPE, np.int32), False)
        raw.AllocateTensors()
        nodes = list(subgraph.nodes())
        _expect((nodes[0].name, len(nodes)), (KERNEL_NAME, 2), "the plan")
        _expect(subgraph.delegated_ops(nodes[0].index), (0,), "TfLiteDelegateParams")
        own = TensorBuffer.allocate(
            RankedTensorType.of(subgraph.tensor_type(0).element_type, _NEW_SHAPE)
        )
        own.array()[:] = value
        subgraph.set_memory(0, own)
        raw.Invoke(0)
        _expect(
            raw.GetTensor(2).tolist(), (3 * value).tolist(), "the result of a run in other memory"
        )
    except Exception as error:
        cause = delegate.take_error() or error
        what = cause.what if isinstance(cause, LiteRtError) else describe(cause)
        raise LiteRtError(
            Status.UNSUPPORTED_RUNTIME_VERSION,
            f"ai-edge-litert {ai_edge_litert.__version__} does not have the struct layout that "
            f"litert-npu expects: {what}",
            hint="Install a tested release: 2.1 to 2.3.",
        ) from cause


def _expect(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise LiteRtError(Status.WRONG_VERSION, f"{what} is {found!r}, but must be {expected!r}")
