"""Replaces a FULLY_CONNECTED that has large weights by smaller FULLY_CONNECTED ops and a CONCATENATION."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.replacement import OpReplacement
from litert.core.quantization import Quantization
from litert.model.blob import Blob


class SplitFullyConnected(OpReplacement):
    """Splits a FULLY_CONNECTED with over 1 MiB of weights into several ops, for NPUs with a small memory.

    Each of these ops has some of the rows of the weights.

    Attributes:
      max_bytes: Largest size of the weights of each smaller op, in bytes.
    """

    enabled = False  # only useful for NPUs with a scratchpad
    op = "FULLY_CONNECTED"
    max_bytes: ClassVar[int] = 1 << 20

    def replace_op(self, graph: Graph, node: Node) -> Node | None:
        """Returns the CONCATENATION of the smaller ops' outputs; the file does not store the weights twice."""
        weights, bias = node.in_port(1).get_source(), None
        if node.is_in_port_connected(2):
            bias = node.in_port(2).get_source()
        if weights is None or not weights.node.is_const or weights.tensor.sparsity is not None:
            return None
        if weights.tensor.blockwise is not None:
            return None
        if node.weights_format != "DEFAULT" or (bias is not None and not bias.node.is_const):
            return None
        if len(weights.tensor.shape) != 2:
            return None
        rows, columns = weights.tensor.shape
        row_bits = columns * weights.tensor.element_type.bits
        limit = self.max_bytes * 8 // max(row_bits, 1)  # in rows
        if row_bits % 8 or limit < 1 or rows <= limit:
            return None
        count = -(-rows // limit)
        starts = [rows * part // count for part in range(count + 1)]
        parts = [
            _part(graph, node, weights, bias, range(start, end)) for start, end in pairwise(starts)
        ]
        axis = len(node.out_port(0).data.get_shape() or (0, 0)) - 1
        joined = graph.create_op("CONCATENATION", parts, {"axis": axis}, name=node.name)
        joined.out_port(0).quantization = node.out_port(0).quantization
        return joined


def _part(graph: Graph, node: Node, weights: OutPort, bias: OutPort | None, rows: range) -> Node:
    """Creates the FULLY_CONNECTED for a range of rows of the weights."""
    tensor = weights.tensor
    row_size = tensor.shape[1] * tensor.element_type.bits // 8
    assert tensor.buffer.blob is not None
    kernel = graph.create_const(
        _slice(tensor.buffer.blob, rows.start * row_size, len(rows) * row_size),
        f"{tensor.name}/rows_{rows.start}",
        tensor.element_type,
        _rows_of(tensor.quantization, rows),
        (len(rows), tensor.shape[1]),
    )
    inputs: list[OutPort | Node | None] = [node.in_port(0).get_source(), kernel]
    if bias is not None:
        value = bias.data.get_value()
        assert value is not None
        inputs.append(
            graph.create_const(
                value.reshape(-1)[rows.start : rows.stop],
                f"{bias.tensor.name}/rows_{rows.start}",
                quantization=_rows_of(bias.tensor.quantization, rows),
            )
        )
    options = {
        name: node[name]
        for name in ("fused_activation_function", "keep_num_dims", "asymmetric_quantize_inputs")
    }
    part = graph.create_op(
        "FULLY_CONNECTED",
        inputs,
        options,
        name=f"{node.name}/rows_{rows.start}",
        version=node.version,
    )
    part.out_port(0).quantization = node.out_port(0).quantization
    return part


def _slice(blob: Blob, offset: int, size: int) -> Blob:
    """A range of a blob's bytes, without reading them."""
    if blob.base is None:
        return Blob(blob.view[offset : offset + size])
    return Blob.within(blob.base, blob.offset + offset, size)


def _rows_of(quantization: Quantization | None, rows: range) -> Quantization | None:
    """The quantization of a range of rows: a slice of per-row scales, or the unchanged per-tensor quantization."""
    if quantization is None or len(quantization.scale) < 2:
        return quantization
    zero_point = quantization.zero_point
    return replace(
        quantization,
        scale=tuple(quantization.scale[rows.start : rows.stop]),
        zero_point=tuple(zero_point[rows.start : rows.stop] if len(zero_point) > 1 else zero_point),
        min=(),
        max=(),
    )
