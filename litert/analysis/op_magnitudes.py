"""Computes the sum of the magnitudes that an op adds up for given inputs.

Errors of ops are relative to this sum.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from litert.analysis.magnitudes import remove_signs
from litert.analysis.reference_run import ReferenceOptions, constant_value
from litert.analysis.source_graph import SourceGraph
from litert.analysis.stock_run import Array, StockRun
from litert.model.blob import Blob
from litert.model.graph import Buffer
from litert.model.reader import read_model
from litert.model.table import AbsentList
from litert.model.writer import write_model


class OpMagnitudes:
    """Computes sums of magnitudes for the ops of a model."""

    def __init__(self, source: SourceGraph, options: ReferenceOptions, folder: str) -> None:
        self._source, self._options, self._folder = source, options, folder

    def find(self, place: int, values: Mapping[int, Array]) -> Array | None:
        """Computes the sum of magnitudes for each element of an op's result; None if the op does not add floats.

        Args:
          place: Place of the result tensor.
          values: Values of the op's inputs that are not constant.
        """
        path = os.path.join(self._folder, "magnitudes.tflite")
        source = self._source
        number = source.op_places[source.producer(place)]
        with read_model(source.path) as model:
            subgraph = model.subgraphs[source.subgraph_index]
            op = subgraph.ops[number]
            for other in subgraph.ops[:number] + subgraph.ops[number + 1 :]:
                other.release()
            subgraph.ops = [op]
            read = dict.fromkeys(tensor for tensor in op.inputs if tensor is not None)
            for tensor in read:
                at = source.places[source.tensor(subgraph.tensors.index(tensor))]
                if not tensor.is_constant and at not in values:
                    value = constant_value(source, source.tensor(at))
                    tensor.buffer = Buffer(Blob(np.ascontiguousarray(value).tobytes()))
                    model.buffers.append(tensor.buffer)
            subgraph.inputs = [tensor for tensor in read if not tensor.is_constant]
            subgraph.outputs = [subgraph.tensors[place]]
            model.signatures = AbsentList()
            signs = remove_signs(subgraph)
            if signs is None:
                return None
            model.buffers += [t.buffer for t in read if t.buffer not in model.buffers]
            inputs = [subgraph.tensors.index(tensor) for tensor in subgraph.inputs]
            write_model(model, path)
        run = StockRun(path, source.subgraph_index, self._options.kernels, 1, 1)
        os.unlink(path)
        run.run({at: sign * abs(values[at]) for at, sign in zip(inputs, signs, strict=True)})
        return run.value(place)
