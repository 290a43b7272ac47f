"""A model in stock LiteRT's interpreter on the CPU, as a comparison's reference: tensors in, any outputs out."""

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
"""Kernels of stock that a reference is run by: plain C++, or those of XNNPACK where it has some."""

_RESOLVERS = {"reference": "BUILTIN_REF", "xnnpack": "AUTO"}
_NODE = re.compile(r"Node number (\d+) \((.*?)\) failed to \w+\.?")
_SOURCE = re.compile(r"\S+\.(?:cc|h)(?::\d+)? ")


class RefusedOpError(LiteRtError):
    """Stock refuses an op.

    Attributes:
      node: the op's place among the ops of the subgraph.
    """

    def __init__(self, node: int, reason: str, where: str) -> None:
        super().__init__(Status.UNSUPPORTED, f"stock LiteRT refuses an op: {reason}", where)
        self.node, self.reason = node, reason


class StockRun:
    """A subgraph in an interpreter."""

    def __init__(
        self, path: str, subgraph_index: int, kernels: str, num_threads: int, num_ops: int
    ) -> None:
        """Loads a model.

        Raises:
          LiteRtError: UNSUPPORTED, with stock's words; a `RefusedOpError`, where it names one.
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
        """Runs it on values of inputs, by their places, each of its own shape.

        Variables begin anew.
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
        """A copy of an output of the last run."""
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
            what = f"stock LiteRT cannot run it: {reason}"
            raise LiteRtError(Status.UNSUPPORTED, what, self._where) from error
