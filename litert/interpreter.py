"""TensorFlow Lite's `Interpreter` for compiled models, with the names of `ai_edge_litert.interpreter`.

Replaces stock LiteRT's `Interpreter`: a program that imports `Interpreter` from this module can also run models
compiled for an NPU. This module's `Interpreter` is a subclass of stock LiteRT's `Interpreter`, and runs the NPU
calls of a compiled file on the vendor's device. The interpreter raises the same errors as stock LiteRT, but a
failing NPU call raises the vendor's `LiteRtError`, a subclass of `RuntimeError`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ai_edge_litert import interpreter as stock
from ai_edge_litert.interpreter import Delegate, OpResolverType, SignatureRunner, load_delegate

from litert.core.errors import LiteRtError
from litert.core.tracing import RECORDINGS, SpanKind, is_recording, span
from litert.cpu_kernel_mode import CpuKernelMode
from litert.environment import Environment
from litert.options import CpuOptions, Options
from litert.runtime.loaded_model import LoadedModel
from litert.runtime.loading import load_unplanned

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Delegate", "Interpreter", "OpResolverType", "SignatureRunner", "load_delegate"]

_KERNEL_MODES = {
    OpResolverType.AUTO: CpuKernelMode.DELEGATE,
    OpResolverType.BUILTIN: CpuKernelMode.DELEGATE,
    OpResolverType.BUILTIN_REF: CpuKernelMode.REFERENCE,
    OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES: CpuKernelMode.BUILTIN,
}
_OWN_REFERENCES = 2  # references by the wrapper, and by the call that counts references
_MAIN = -1  # stock LiteRT's number for the main subgraph together with all other subgraphs


class Interpreter(stock.Interpreter):  # type: ignore[misc]  # stock LiteRT has no types
    """Stock LiteRT's class `Interpreter`, which can also run models that are compiled for an NPU.

    The methods, their arguments and their errors are the same as in stock LiteRT's class: `allocate_tensors`,
    `get_input_details`, `set_tensor`, `invoke`, `get_tensor`, `tensor`, `resize_tensor_input`,
    `get_signature_runner` and the rest. Only one thread at a time may use an `Interpreter`.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[Any] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: OpResolverType = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
        *,
        environment: Environment | None = None,
        options: Options | None = None,
    ) -> None:
        """Loads a model. Stock LiteRT's `Interpreter` has the same arguments, except `environment` and `options`.

        Args:
          model_path: Path of the model file. A large file is memory-mapped instead of read.
          model_content: Bytes of the model, given instead of `model_path`.
          experimental_delegates: Delegates that `load_delegate` returned. Delegates take only ops that the NPU
            does not run.
          num_threads: Number of CPU threads; 1 by default.
          experimental_op_resolver_type: Kind of kernels that the CPU runs.
          experimental_preserve_all_tensors: Whether `get_tensor` also returns intermediate tensors of the ops on
            the CPU.
          experimental_disable_delegate_clustering: Passed on to stock LiteRT's `Interpreter`.
          experimental_default_delegate_latest_features: Passed on to stock LiteRT's `Interpreter`.
          experimental_compress_quantization_zero_points: Passed on to stock LiteRT's `Interpreter`.
          experimental_disable_delegate_node_fusion: Passed on to stock LiteRT's `Interpreter`.
          experimental_force_delegate_node_profiling: Passed on to stock LiteRT's `Interpreter`.
          environment: Environment that gives the folders of dispatch tables.
          options: Options of the model and its vendor, given instead of `num_threads` and
            `experimental_op_resolver_type`.

        Raises:
          ValueError: If the model cannot be loaded, as in stock LiteRT (the `LiteRtError` is the cause of the
            exception); if arguments contradict each other; or if the environment is closed.
        """
        given = {
            "experimental_preserve_all_tensors": experimental_preserve_all_tensors,
            "experimental_disable_delegate_clustering": experimental_disable_delegate_clustering,
            "experimental_default_delegate_latest_features": experimental_default_delegate_latest_features,
            "experimental_compress_quantization_zero_points": experimental_compress_quantization_zero_points,
            "experimental_disable_delegate_node_fusion": experimental_disable_delegate_node_fusion,
            "experimental_force_delegate_node_profiling": experimental_force_delegate_node_profiling,
            "experimental_delegates": experimental_delegates,
        }
        environment = environment or Environment.create()
        environment.check_open()
        if options is None:
            options = _options(num_threads, experimental_op_resolver_type)
        elif num_threads is not None or experimental_op_resolver_type is not OpResolverType.AUTO:
            raise ValueError(
                "Pass either options or num_threads and experimental_op_resolver_type."
            )
        try:
            self._interpreter = _Wrapper(
                load_unplanned(
                    _source(model_path, model_content),
                    environment.options,
                    options,
                    {name: value for name, value in given.items() if value},
                )
            )
        except LiteRtError as error:
            raise ValueError(str(error)) from error
        self._experimental_compress_quantization_zero_points = (
            experimental_compress_quantization_zero_points
        )
        self._signature_defs = self.get_signature_list()

    def _safe_to_run(self) -> bool:
        """Whether the program holds no array that `tensor` returned.

        Tracebacks would disturb stock LiteRT's way of counting.
        """
        return sys.getrefcount(self._interpreter.open_model) == _OWN_REFERENCES


def _source(model_path: str | os.PathLike[str] | None, model_content: bytes | None) -> str | bytes:
    if model_path and model_content:
        raise ValueError("Can't both provide `model_path` and `model_content`")
    if model_path:
        return os.fsdecode(model_path)
    if not model_content:
        raise ValueError("`model_path` or `model_content` must be specified.")
    return bytes(model_content)


def _options(num_threads: int | None, op_resolver_type: OpResolverType) -> Options:
    if op_resolver_type not in _KERNEL_MODES:
        raise ValueError(f"Unrecognized passed in op resolver type: {op_resolver_type}")
    if num_threads is not None:
        if not isinstance(num_threads, int):
            raise ValueError("type of num_threads should be int")
        if num_threads < 1:
            raise ValueError("num_threads should >= 1")
    cpu_options = CpuOptions(num_threads or 1, _KERNEL_MODES[op_resolver_type])
    return Options(cpu_options=cpu_options)


class _OpenModel:
    """Keeps a loaded model open while the interpreter or an array from `tensor` refers to this object."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded

    def __del__(self) -> None:
        self.loaded.close()


class _Wrapper:
    """Stands in for the C++ interpreter that stock LiteRT's classes call.

    All other attributes are the C++ interpreter's.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.open_model = _OpenModel(loaded)
        self._graph = loaded.interpreter
        self._subgraphs = loaded.subgraphs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph.raw, name)

    def AllocateTensors(self, subgraph_index: int = _MAIN) -> None:  # noqa: N802 (C++'s names)
        self._graph.allocate(None if subgraph_index == _MAIN else subgraph_index)

    def Invoke(self, subgraph_index: int = 0) -> None:  # noqa: N802
        if RECORDINGS and is_recording():
            with span(SpanKind.RUN, f"subgraph {subgraph_index}"):
                self._graph.invoke(subgraph_index)
        else:
            self._graph.invoke(subgraph_index)

    def ResizeInputTensor(  # noqa: N802
        self, index: int, shape: np.ndarray[Any, Any], strict: bool, subgraph_index: int = 0
    ) -> None:
        before = self._shape(index, subgraph_index)
        self._graph.raw.ResizeInputTensor(index, shape, strict, subgraph_index)
        if self._shape(index, subgraph_index) != before:
            self._subgraphs[subgraph_index].give_back_memory()

    def SetTensor(self, index: int, value: Any, subgraph_index: int = 0) -> None:  # noqa: N802
        self._hold(index, subgraph_index)
        self._graph.raw.SetTensor(index, value, subgraph_index)

    def GetTensor(self, index: int, subgraph_index: int = 0) -> Any:  # noqa: N802
        self._hold(index, subgraph_index)
        return self._graph.raw.GetTensor(index, subgraph_index)

    def tensor(self, _: object, index: int) -> Any:
        self._hold(index, 0)
        return self._graph.raw.tensor(self.open_model, index)

    def _shape(self, index: int, subgraph_index: int) -> list[int] | None:
        """Returns the present shape of a tensor; None if there is none, which stock LiteRT refuses to resize."""
        try:
            return list(self._graph.raw.TensorSize(index, subgraph_index))
        except ValueError:
            return None

    def _hold(self, index: int, subgraph_index: int) -> None:
        """Synchronizes the vendor's memory with the device before the program reads or writes the memory."""
        subgraph = self._subgraphs.get(subgraph_index)
        if subgraph is not None and subgraph.memory:
            subgraph.hold_memory(index)
