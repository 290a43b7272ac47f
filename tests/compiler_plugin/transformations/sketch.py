"""Builds small models in one line each; all values are float32 of one shape, and stock LiteRT runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.partial_inference import PartialInference
from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor
from litert.model.writer import write_model

SHAPE = (1, 2, 2, 4)


class Sketch:
    """Builds a model: `s = Sketch(); x = s.input(); s.graph(s("RELU", x))`."""

    def __init__(self) -> None:
        self.builder = ModelBuilder()
        self._count = 0

    def input(self, name: str = "x") -> Tensor:
        return self.builder.input(name, "float32", SHAPE)

    def __call__(self, op: str, *inputs: Any, name: str = "", **options: Any) -> Tensor:
        """Adds an op; a number or array among its inputs becomes a constant."""
        self._count += 1
        name = name or f"{op.lower()}_{self._count}"
        output = [(name, "float32", SHAPE)]
        tensors = [self._as_tensor(value, f"{name}/c{i}") for i, value in enumerate(inputs)]
        if op.isupper():
            made: Tensor = self.builder.op(op, tensors, output, **options)
        else:
            made = self.builder.custom(op, tensors, output, options=options or None)
        return made

    def several(self, op: str, *inputs: Any, outputs: int, name: str, **options: Any) -> Any:
        """Adds a builtin op with several outputs; SPLIT divides the last axis among them."""
        shape = (*SHAPE[:-1], SHAPE[-1] // outputs) if op == "SPLIT" else SHAPE
        tensors = [self._as_tensor(value, f"{name}/c{i}") for i, value in enumerate(inputs)]
        made = [(f"{name}_{i}", "float32", shape) for i in range(outputs)]
        return self.builder.op(op, tensors, made, **options)

    def graph(self, *outputs: Tensor, stage: Phase = Phase.MIDDLE) -> Graph:
        """Completes the model and returns its graph."""
        self.builder.output(*outputs)
        model = self.builder.build()
        subgraph = model.subgraphs[0]
        return Graph(model, subgraph, PartialInference(subgraph), stage=stage)

    def _as_tensor(self, value: Any, name: str) -> Tensor | None:
        if value is None or isinstance(value, Tensor):
            return value
        data = np.asarray(value)
        kind = np.float32 if data.dtype.kind == "f" else np.int32
        return self.builder.constant(name, data.astype(kind))


def run_stock(graph: Graph, path: Path, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Runs stock LiteRT on random inputs, after removing tensors that nothing uses; returns the outputs."""
    from ai_edge_litert.interpreter import Interpreter

    graph.infer()
    graph.topological_sort()
    subgraph = graph.subgraph
    known = {*subgraph.inputs, *subgraph.outputs}
    known.update(t for op in subgraph.ops for t in (*op.inputs, *op.outputs) if t is not None)
    subgraph.tensors = [tensor for tensor in subgraph.tensors if tensor in known]
    write_model(graph.model, path)
    interpreter = Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    random = np.random.default_rng(seed)
    for detail in interpreter.get_input_details():
        value = random.normal(size=detail["shape"]).astype(detail["dtype"])
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
