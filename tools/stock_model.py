"""A model in stock LiteRT on the CPU, for comparison in a benchmark."""

from __future__ import annotations

from collections.abc import Mapping

from litert.core.errors import LiteRtError
from litert.core.quoting import stock_text
from litert.core.status import Status
from litert.model.graph import Model
from litert.model.reader import read_model

from .pictures import Array


class StockModel:
    """Runs a signature of a model's main subgraph with `ai_edge_litert.interpreter.Interpreter`.

    Inputs and outputs stay in the interpreter's memory, so that a run copies no data.
    """

    def __init__(
        self, path: str, signature: str, inputs: Mapping[str, Array], threads: int
    ) -> None:
        """Loads a model in stock LiteRT, and runs one of its signatures once.

        Raises:
          LiteRtError: UNSUPPORTED, if stock LiteRT cannot run the model, or if the signature belongs to a subgraph
            that is not the main subgraph; NOT_FOUND, if the model does not have the signature or an input.
        """
        from ai_edge_litert.interpreter import Interpreter

        with read_model(path) as model:
            input_indices, self._outputs = _find_tensors(model, signature, path)
        try:
            self._interpreter = Interpreter(path, num_threads=threads)
            for name, index in input_indices.items():
                if name not in inputs:
                    raise LiteRtError(
                        Status.NOT_FOUND,
                        f"input '{name}' of the model of --stock_model has no value, because the measured "
                        "model has no input with this name",
                        path,
                        "With --stock_model, give the model from which the file was compiled.",
                    )
                self._interpreter.resize_tensor_input(index, inputs[name].shape)
            self._interpreter.allocate_tensors()
            for name, index in input_indices.items():
                self._interpreter.set_tensor(index, inputs[name])
            self.run()
        except (RuntimeError, ValueError) as error:
            if isinstance(error, LiteRtError):
                raise
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"stock LiteRT cannot run the model: {stock_text(str(error))}",
                path,
            ) from error

    def run(self) -> None:
        """Runs the model once."""
        self._interpreter.invoke()

    def outputs(self) -> Mapping[str, Array]:
        """Returns copies of the outputs of the last run, by name."""
        return {name: self._interpreter.get_tensor(index) for name, index in self._outputs.items()}


def _find_tensors(model: Model, key: str, path: str) -> tuple[dict[str, int], dict[str, int]]:
    """Indices of the inputs and outputs of a signature, by name."""
    entry = next((s for s in model.entries(key) if s.key == key), None)
    if entry is None:
        raise LiteRtError(Status.NOT_FOUND, f"the model has no signature '{key}'", path)
    if entry.subgraph is not model.subgraphs[0]:
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"the times of signature '{key}' cannot be compared, because this signature does not belong to "
            "the main subgraph. In runs of other subgraphs, stock LiteRT spends additional time on copies of the "
            "inputs and outputs",
            path,
            "With --signature, choose a signature of the main subgraph.",
        )
    places = {tensor: index for index, tensor in enumerate(entry.subgraph.tensors)}
    inputs = {name: places[tensor] for name, tensor in entry.inputs}
    return inputs, {name: places[tensor] for name, tensor in entry.outputs}
