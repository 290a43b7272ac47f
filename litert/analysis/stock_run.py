"""Runs a model in stock LiteRT's interpreter on the CPU, as the reference of a comparison."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.cpu_kernel_mode import CpuKernelMode

Array: TypeAlias = "np.ndarray[Any, Any]"

KERNELS = {"reference": CpuKernelMode.REFERENCE, "xnnpack": CpuKernelMode.XNNPACK}
"""Kernels that compute the reference in stock LiteRT: plain C++ kernels, or XNNPACK's for ops that it supports."""

_RESOLVERS = {"reference": "BUILTIN_REF", "xnnpack": "AUTO"}
_NODE = re.compile(r"Node number (\d+) \((.*?)\) failed to \w+\.?")
_SOURCE = re.compile(r"\S+\.(?:cc|h)(?::\d+)? ")


class RefusedOpError(LiteRtError):
    """The error for an op that stock LiteRT refuses.

    Attributes:
      node: Index of the op in the subgraph.
    """

    def __init__(self, node: int, reason: str, where: str) -> None:
        super().__init__(Status.UNSUPPORTED, f"stock LiteRT refuses an op: {reason}", where)
        self.node, self.reason = node, reason


class StockRun:
    """A subgraph that runs in stock LiteRT's interpreter."""

    def __init__(
        self, path: str, subgraph_index: int, kernels: str, num_threads: int, num_ops: int
    ) -> None:
        """Loads a model into an interpreter.

        Raises:
          LiteRtError: UNSUPPORTED, with stock LiteRT's message. If the message mentions an op, the error is a
            `RefusedOpError`.
        """
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        self._where, self._index, self._num_ops = path, subgraph_index, num_ops
        self._interpreter = self._try(
            lambda: Interpreter(
                path,
                num_threads=num_threads,
                experimental_op_resolver_type=OpResolverType[_RESOLVERS[kernels]],
            )
        )
        self._raw: Any = self._interpreter._interpreter
        self._try(lambda: self._raw.AllocateTensors(-1))
        if subgraph_index:
            self._try(lambda: self._raw.AllocateTensors(subgraph_index))

    def run(self, values: Mapping[int, Array]) -> None:
        """Runs the subgraph; `values` contains the value of each input, by the input's place.

        The shape of each value becomes the shape of its input.

        Variables are reset before the run.
        """
        self._try(lambda: self._run(values))

    def _run(self, values: Mapping[int, Array]) -> None:
        raw, index = self._raw, self._index
        resized = [
            p for p, value in values.items() if tuple(raw.TensorSize(p, index)) != value.shape
        ]
        for place in resized:
            shape = np.array(values[place].shape, np.int32)
            raw.ResizeInputTensor(place, shape, False, index)
        if resized:
            raw.AllocateTensors(index or -1)
        for place, value in values.items():
            raw.SetTensor(place, value, index)
        raw.ResetVariableTensors()
        raw.Invoke(index)

    def value(self, place: int) -> Array:
        """Returns a copy of an output of the last run."""
        value: Array = self._raw.GetTensor(place, self._index)
        return value

    def _try(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except (RuntimeError, ValueError) as error:
            text = str(error)
            found = _NODE.search(text)
            reason = " ".join(_SOURCE.sub("", _NODE.sub("", text)).split()).rstrip(".")
            if found and int(found[1]) < self._num_ops:
                raise RefusedOpError(int(found[1]), reason, self._where) from None
            what = f'stock LiteRT cannot run the model, and reports "{reason}"'
            raise LiteRtError(Status.UNSUPPORTED, what, self._where) from error
