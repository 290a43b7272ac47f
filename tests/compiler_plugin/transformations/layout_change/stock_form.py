"""The reference for the layout change: rewrites an NCHW graph so that stock LiteRT can run it, and runs it.

Relies only on the contract in `layout.py`, and has its own list of ops that are bound to a layout. Each of these
ops gets a TRANSPOSE before its image input and one after its output, and its filter in TFLite's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from litert.model.builtin_options import make_builtin_options
from litert.model.graph import Buffer, Model, Op, Subgraph, Tensor
from litert.model.schema import BUILTIN_OPERATORS
from litert.model.tensor_data import decode_constant, encode_constant
from litert.model.writer import to_bytes

_CODES = {name: code for code, name in BUILTIN_OPERATORS.items()}
_BACK = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
_FORTH = {4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}

# For each op: the index of the image input, the index of the filter input with the permutation
# back to TFLite's order, and the index of the output shape input.
_IMAGES: dict[str, tuple[int, tuple[int, tuple[int, ...]] | None, int | None]] = {
    "CONV_2D": (0, (1, (0, 2, 3, 1)), None),
    "DEPTHWISE_CONV_2D": (0, (1, (1, 2, 3, 0)), None),
    "TRANSPOSE_CONV": (2, (1, (0, 2, 3, 1)), 0),
    "CONV_3D": (0, (1, (2, 3, 4, 1, 0)), None),
    "CONV_3D_TRANSPOSE": (2, (1, (2, 3, 4, 0, 1)), 0),
    "AVERAGE_POOL_2D": (0, None, None),
    "MAX_POOL_2D": (0, None, None),
    "L2_POOL_2D": (0, None, None),
    "RESIZE_BILINEAR": (0, None, None),
    "RESIZE_NEAREST_NEIGHBOR": (0, None, None),
    "DEPTH_TO_SPACE": (0, None, None),
    "SPACE_TO_DEPTH": (0, None, None),
    "SPACE_TO_BATCH_ND": (0, None, None),
    "BATCH_TO_SPACE_ND": (0, None, None),
    "LOCAL_RESPONSE_NORMALIZATION": (0, None, None),
}


def to_stock_form(model: Model) -> None:
    """Adds TRANSPOSE ops around the layout-bound ops of an NCHW model, in place."""
    for subgraph in model.subgraphs:
        _Wrapper(model, subgraph).run()


def run_stock(
    model: Model, inputs: Sequence[np.ndarray[Any, Any]], *, delegates: bool = False
) -> list[np.ndarray[Any, Any]]:
    """Runs stock LiteRT, by default without XNNPACK, so that an op computes the same at any place in the model."""
    resolver = (
        OpResolverType.AUTO if delegates else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    interpreter = Interpreter(
        model_content=to_bytes(model), experimental_op_resolver_type=resolver, num_threads=1
    )
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.resize_tensor_input(detail["index"], value.shape)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


class _Wrapper:
    def __init__(self, model: Model, subgraph: Subgraph) -> None:
        self.model = model
        self.subgraph = subgraph
        self.ops: list[Op] = []
        self.filters: dict[tuple[Tensor, tuple[int, ...]], Tensor] = {}

    def run(self) -> None:
        for op in self.subgraph.ops:
            place = _IMAGES.get(op.name)
            image = None if place is None else op.inputs[place[0]]
            if place is None or image is None or len(image.shape) not in _BACK:
                self.ops.append(op)
                continue
            _, filters, shape = place
            op.set_input(place[0], self.transposed(image, _BACK[len(image.shape)]))
            if filters is not None:
                tensor = op.inputs[filters[0]]
                assert tensor is not None
                op.set_input(filters[0], self.filter(tensor, filters[1]))
            if shape is not None:
                vector = op.inputs[shape]
                assert vector is not None
                order = self.constant(np.array(_BACK[len(image.shape)], np.int32))
                gathered = self.tensor(vector, vector.shape)
                if vector.is_constant:
                    values = decode_constant(vector.element_type, vector.shape, vector.data)
                    gathered = self.constant(values[list(_BACK[len(image.shape)])])
                else:
                    self.add("GATHER", [vector, order], gathered, axis=0)
                op.set_input(shape, gathered)
            self.ops.append(op)
            output = op.outputs[0]
            back = _BACK[len(output.shape)]
            inner = self.tensor(output, [output.shape[axis] for axis in back])
            op.set_output(0, inner)
            order = self.constant(np.array(_FORTH[len(output.shape)], np.int32))
            self.add("TRANSPOSE", [inner, order], output)
        self.subgraph.ops = self.ops

    def transposed(self, tensor: Tensor, order: tuple[int, ...]) -> Tensor:
        result = self.tensor(tensor, [tensor.shape[axis] for axis in order])
        _move_quantization(result, order)
        self.add("TRANSPOSE", [tensor, self.constant(np.array(order, np.int32))], result)
        return result

    def filter(self, tensor: Tensor, order: tuple[int, ...]) -> Tensor:
        key = (tensor, order)
        if key not in self.filters:
            producer = tensor.producer
            if tensor.is_constant and tensor.sparsity is None:
                values = decode_constant(tensor.element_type, tensor.shape, tensor.data)
                made = self.constant(values.transpose(order), tensor)
                _move_quantization(made, order)
            elif producer is not None and producer.name == "DEQUANTIZE":
                source = producer.inputs[0]
                assert source is not None
                made = self.tensor(tensor, [tensor.shape[axis] for axis in order])
                self.ops.append(Op(producer.code, [self.filter(source, order)], [made]))
            else:
                made = self.transposed(tensor, order)
            self.filters[key] = made
        return self.filters[key]

    def constant(self, values: np.ndarray[Any, Any], like: Tensor | None = None) -> Tensor:
        kind, blob = encode_constant(values, None if like is None else like.element_type)
        buffer = Buffer(blob)
        self.model.buffers.append(buffer)
        made = Tensor("constant", kind.element_type, tuple(values.shape), buffer)
        if like is not None:
            made.quantization = like.quantization
        self.subgraph.tensors.append(made)
        return made

    def tensor(self, like: Tensor, shape: Sequence[int]) -> Tensor:
        made = like.clone()
        made.name = f"{like.name}_stock"
        made.shape, made.shape_signature = tuple(shape), None
        self.subgraph.tensors.append(made)
        return made

    def add(self, name: str, inputs: Sequence[Tensor], output: Tensor, **options: object) -> None:
        op = Op(self.model.operator_code(_CODES[name]), inputs, [output])
        op.options, op.options_2 = make_builtin_options(name, options)
        self.ops.append(op)


def _move_quantization(tensor: Tensor, order: tuple[int, ...]) -> None:
    from dataclasses import replace

    quantization = tensor.quantization
    if quantization is not None and len(quantization.scale) > 1:
        place = order.index(quantization.quantized_dimension)
        tensor.quantization = replace(quantization, quantized_dimension=place)
