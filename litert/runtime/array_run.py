"""Runs a signature on arrays; the arrays are copied to buffers that stay bound to the signature between runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dispatch.tensor_buffer import TensorBuffer
from litert.core.counts import names_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.runtime.loaded_model import LoadedModel
from litert.runtime.signature import SignatureRunner, SignatureTensor, signature_text

Array = np.ndarray[Any, Any]


class ArrayRunner:
    """Runs one signature on arrays, with buffers that are kept for the next run."""

    def __init__(self, model: LoadedModel, signature: SignatureRunner) -> None:
        self._model = model
        self._signature = signature
        self._inputs: list[tuple[TensorBuffer, Array]] = []
        self._outputs: list[tuple[TensorBuffer, Array]] = []
        self._shapes: Sequence[tuple[int, ...]] = []
        self._generation = -1
        self._names = frozenset(argument.name for argument in signature.inputs)
        with model.hold():
            self._types = [
                signature.tensor_type(argument).element_type.numpy_dtype
                for argument in signature.inputs
            ]

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Runs the signature on named arrays, or on values that NumPy converts; returns new arrays by name."""
        signature = self._signature
        try:
            if inputs.keys() != self._names:
                self._refuse_names(inputs)
        except AttributeError:  # computed here, so that a successful run pays nothing
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the inputs have type {type(inputs).__name__}, which is not a mapping from "
                "names to arrays",
                signature_text(signature.key),
                f"Give a mapping with the keys {', '.join(a.name for a in signature.inputs)}.",
            ) from None
        with self._model.hold():
            self._write_inputs([inputs[argument.name] for argument in signature.inputs])
            buffers = [buffer for buffer, _ in self._inputs]
            bound: list[TensorBuffer | None] = [buffer for buffer, _ in self._outputs]
            try:
                self._model.run(signature, buffers, bound or [None] * len(signature.outputs))
            except LiteRtError:
                if not bound or not signature.subgraph.has_dynamic_tensors:
                    raise
            # Perhaps only this run has determined the shape
            if signature.subgraph.has_dynamic_tensors:
                return {a.name: signature.read_output(a) for a in signature.outputs}
            return {
                argument.name: array.copy()
                for argument, (_, array) in zip(signature.outputs, self._outputs, strict=True)
            }

    def _refuse_names(self, inputs: Mapping[str, Any]) -> None:
        where = signature_text(self._signature.key)
        for name in inputs:
            if name not in self._names:
                known = [argument.name for argument in self._signature.inputs]
                raise LiteRtError(
                    Status.NOT_FOUND,
                    f"the model has no input '{name}'",
                    where,
                    f"{names_text('input', known)}.",
                )
        missing = next(a.name for a in self._signature.inputs if a.name not in inputs)
        raise LiteRtError(
            Status.MISSING_INPUT_TENSOR,
            f"no array was given for input '{missing}'",
            where,
            "Give an array for each input of the model.",
        )

    def _write_inputs(self, values: Sequence[Any]) -> None:
        """Copies arrays to the inputs' buffers; arrays of other shapes get other buffers."""
        arrays = [self._as_array(index, value) for index, value in enumerate(values)]
        shapes = [array.shape for array in arrays]
        generation = self._signature.subgraph.generation
        if self._generation != generation or self._shapes != shapes:
            self._make_buffers(shapes)
        for (_, own), array in zip(self._inputs, arrays, strict=True):
            np.copyto(own, array)

    def _make_buffers(self, shapes: Sequence[tuple[int, ...]]) -> None:
        signature = self._signature
        self._shapes = []
        signature.fit_shapes(shapes)
        self._inputs = self._allocate(signature.inputs, self._inputs)
        has_unknown = signature.subgraph.has_dynamic_tensors
        self._outputs = self._allocate(() if has_unknown else signature.outputs, self._outputs)
        self._shapes, self._generation = shapes, signature.subgraph.generation

    def _allocate(
        self, arguments: Sequence[SignatureTensor], former: Sequence[tuple[TensorBuffer, Array]]
    ) -> list[tuple[TensorBuffer, Array]]:
        """Returns buffers for the current shapes: existing buffers, if they are large enough."""
        buffers = [
            self._signature.allocate(
                argument, former[index][0] if former else None, is_for_all_shapes=True
            )
            for index, argument in enumerate(arguments)
        ]
        return [(buffer, buffer.array()) for buffer in buffers]

    def _as_array(self, index: int, value: Any) -> Array:
        dtype = self._types[index]
        where = self._signature.where(self._signature.inputs[index])
        if not isinstance(value, np.ndarray):
            try:
                return np.asarray(value, dtype)
            except (TypeError, ValueError, OverflowError) as error:
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"the value cannot be converted to an array of type {dtype.name}: {error}",
                    where,
                ) from None
        if value.dtype != dtype:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the array has type {value.dtype}, but the model's input has type {dtype.name}",
                where,
                f"Convert the array with array.astype({dtype.name!r}).",
            )
        return value
