"""Runs an unchanged compiled file for a vendor with taps, which make tensors inside NPU calls visible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from litert.analysis.source_graph import SourceGraph, exposed_name, find_entry
from litert.analysis.stock_run import Array
from litert.analysis.trial import ShownTensor, call_of, find_unique
from litert.core.environment_options import EnvironmentOptions
from litert.core.tensor_type import RankedTensorType
from litert.model.reader import read_model
from litert.options import Options
from litert.runtime.array_run import ArrayRunner
from litert.runtime.loading import load_model


class TappedTrial:
    """A trial that makes visible the tensors outside NPU calls, and the tensors that the vendor's taps show.

    Attributes:
      shown: Tensors that the first run made visible, in the source's execution order.
      inside: Places of the tensors that taps make visible.
    """

    def __init__(
        self,
        path: str,
        source: SourceGraph,
        outside: Sequence[ShownTensor],
        options: Options,
        environment: EnvironmentOptions,
        inputs: Mapping[str, Array],
    ) -> None:
        """Loads a file whose outputs have their names from `exposed_name`, and runs the file once.

        Raises:
          LiteRtError: UNSUPPORTED, if the vendor does not support taps.
        """
        self._source, self._outside = source, outside
        self._calls = _find_calls(path, source.key)
        self._places = find_unique((source.tensor(p).name, p) for p in source.results)
        self._model = load_model(path, environment, options)
        try:
            signature = next(s for s in self._model.signatures if s.key == source.key)
            self._runner = ArrayRunner(self._model, signature)
            tapped: dict[int, str] = {}
            self._run(inputs, tapped)
        except BaseException:
            self._model.close()
            raise
        calls = tapped | {shown.place: shown.call for shown in outside}
        self.inside = tapped.keys() - {shown.place for shown in outside}
        self.shown = [ShownTensor(p, calls[p]) for p in source.results if p in calls]

    def run(self, inputs: Mapping[str, Array]) -> dict[int, Array]:
        return self._run(inputs, {})

    def close(self) -> None:
        self._model.close()

    def _run(self, inputs: Mapping[str, Array], tapped: dict[int, str]) -> dict[int, Array]:
        """Runs and returns the tensors; `tapped` gets the call of each tensor that a tap showed."""
        found: dict[int, Array] = {}

        def receive(call: str, name: str, tensor_type: RankedTensorType, data: memoryview) -> None:
            place = self._places.get(name)
            if place is None or call not in self._calls:
                return
            tensor, dtype = self._source.tensor(place), tensor_type.element_type.numpy_dtype
            array = np.frombuffer(bytes(data), dtype).reshape(tensor_type.shape)
            found[place] = array.astype(tensor.element_type.numpy_dtype)  # an NPU's own float
            tapped[place] = call

        with self._model.tapped(receive):
            outputs = self._runner.run(inputs)
        return found | {each.place: outputs[exposed_name(each.place)] for each in self._outside}


def _find_calls(path: str, key: str) -> set[str]:
    """Lists the names of the NPU calls in a signature's subgraph."""
    with read_model(path) as model:
        return {call_of(op) for op in find_entry(model, key, path).subgraph.ops} - {""}
