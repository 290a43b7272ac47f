"""Copies a group of ops, called a region, into a small model for the interpreter of stock LiteRT.

The small model also contains what the ops need: the shapes of inputs, and the data of small constants. The data of
large constants are not copied. Instead, these constants refer to a hole in the file after the model, and the hole
uses no memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, BinaryIO, TypeAlias

from compiler_plugin.plugin import DataLayout
from litert.core.element_type import ElementType
from litert.core.errors import file_error
from litert.core.quantization import BlockwiseQuantization
from litert.model.atomic_file import temporary_file
from litert.model.blob import Blob
from litert.model.builtin_options import make_builtin_options
from litert.model.flatbuffer import FlatbufferBytes
from litert.model.graph import Buffer, Model, Op, Subgraph, Tensor
from litert.model.schema_types import table_schema
from litert.model.tensor_data import Array, encode_constant
from litert.model.writer import to_bytes

Shape: TypeAlias = tuple[int, ...]

_NOT_INFERRED: Shape = (104729, 0, 7919, 0, 1299709, 0, 15485863, 0, 7927)

_KEEPS_KNOWN_SHAPE = "SLICE"
"""An op whose kernel keeps the output shape that the file has, unless the shape has unknown dimensions."""

_KEEPS_SHAPE = "VAR_HANDLE"
"""An op whose kernel always keeps the output shape that the file has."""

_KEEPS_RANK = "STABLEHLO_GATHER"
"""An op whose kernel keeps the output rank that the file has."""

_ALIGNMENT = 64
_SMALL_INTEGERS = 1 << 20  # in bytes, for types of shapes, axes and indices
_SMALL = 1 << 10  # in bytes, for all other types
_INTEGERS = frozenset({
    ElementType.INT32, ElementType.INT64, ElementType.BOOL, ElementType.UINT32, ElementType.STRING
})  # fmt: skip


class StockRegion:
    """The small model of a region, and the index of each of the region's tensors in the small model.

    Attributes:
      index: Index in the small model for each tensor of the region.
      not_inferred: Initial shapes of results. A result that still has its initial shape was not inferred.
      model: Small model that contains a copy of the region.
    """

    def __init__(
        self,
        ops: Sequence[Op],
        shape_of: Callable[[Tensor], Shape],
        value_of: Callable[[Tensor], Array | None],
        *,
        outputs: Collection[Tensor] = (),
        with_all_data: bool = False,
        layout: DataLayout = "NHWC",
    ) -> None:
        """Copies ops and tensors into a small model; the graph of the ops does not change.

        `shape_of` and `value_of` must return shapes and values of tensors that none of the ops writes; `outputs`
        are the tensors to read after a run. Without `with_all_data`, the data of large constants are not copied.
        """
        self.index: dict[Tensor, int] = {}
        self.not_inferred: dict[Tensor, Shape] = {}
        self.model = Model(buffers=[Buffer()])
        self._subgraph = Subgraph("region")
        self.model.subgraphs.append(self._subgraph)
        self._shape_of, self._value_of = shape_of, value_of
        self._with_all_data = with_all_data
        self._copies: dict[Tensor, Tensor] = {}
        self._buffers: dict[int, Buffer] = {}
        self._hole_sizes: dict[int, int] = {}  # by the buffer's index
        for op in ops:
            self.not_inferred.update(dict.fromkeys(op.outputs, _NOT_INFERRED))
        for op in ops:
            self._add(op)
        self._subgraph.outputs = [self._copies[tensor] for tensor in outputs]
        self.model.operator_codes = list({id(op.code): op.code for op in ops}.values())
        self._places = dict(zip(self._subgraph.ops, ops, strict=True))
        if layout == "NCHW":
            # Here, since few graphs are.
            from compiler_plugin.transformations.layout_change.change import to_stock_form

            to_stock_form(self.model, self._subgraph, self._permuted)

    def op_of(self, node: int) -> Op | None:
        """Returns the op of the region for a node number of the interpreter; None if there is no such op."""
        following = self._subgraph.ops[node:]
        return next((self._places[op] for op in following if op in self._places), None)

    @contextmanager
    def arguments(self) -> Iterator[dict[str, Any]]:
        """Yields arguments for the interpreter: the model's bytes, or the path of a temporary file."""
        data = to_bytes(self.model)
        if not self._hole_sizes:
            yield {"model_content": data}
            return
        start = len(data) + -len(data) % _ALIGNMENT
        with _file_for_a_region() as file:
            file.write(self._with_holes(bytearray(data), start))
            file.truncate(start + max(self._hole_sizes.values()))
            file.flush()
            yield {"model_path": file.name}

    def _add(self, op: Op) -> None:
        if op.name == _KEEPS_RANK:
            for tensor in op.outputs:
                self.not_inferred[tensor] = _NOT_INFERRED[: len(tensor.shape)]
        copy = Op(
            op.code,
            [None if tensor is None else self._copy(tensor) for tensor in op.inputs],
            [self._copy(tensor) for tensor in op.outputs],
            op.options,
            op.custom_options,
        )
        copy.options_2 = op.options_2
        if op.options is None and op.options_2 is None and not op.is_custom:
            # A kernel may read options that are missing in the file.
            copy.options, copy.options_2 = make_builtin_options(op.name, {})
        copy.mutating_variable_inputs = op.mutating_variable_inputs
        if op.intermediates:
            copy.intermediates = tuple(
                None if tensor is None else self._copy(tensor) for tensor in op.intermediates
            )
        self._subgraph.ops.append(copy)

    def _copy(self, tensor: Tensor) -> Tensor:
        found = self._copies.get(tensor)
        if found is not None:
            return found
        copy = self._copies[tensor] = tensor.clone()
        copy.shape_signature = None
        copy.external_buffer = 0
        copy.buffer = self.model.buffers[0]
        if tensor.blockwise is not None:
            self._copy_blockwise(copy, tensor.blockwise)
        self.index[tensor] = len(self._subgraph.tensors)
        self._subgraph.tensors.append(copy)
        if tensor in self.not_inferred:
            producer = "" if tensor.producer is None else tensor.producer.name
            if producer != _KEEPS_SHAPE:
                copy.shape = self.not_inferred[tensor]
            if producer == _KEEPS_KNOWN_SHAPE:
                copy.shape_signature = (-1,) * len(copy.shape)
            return copy
        value = None if tensor.is_constant else self._value_of(tensor)
        copy.shape = self._shape_of(tensor) if value is None else value.shape
        if value is not None and value.size:
            copy.buffer = Buffer(encode_constant(value, tensor.element_type, value.shape)[1])
            self.model.buffers.append(copy.buffer)
        elif tensor.is_constant:
            copy.buffer = self._constant(tensor)
        elif not tensor.is_variable:
            self._subgraph.inputs.append(copy)
        return copy

    def _copy_blockwise(self, copy: Tensor, blockwise: BlockwiseQuantization) -> None:
        """Replaces the tensors in the quantization of a copied tensor by their copies."""

        def copied(tensor: object) -> Tensor | None:
            return self._copy(tensor) if isinstance(tensor, Tensor) else None

        quantization = copy.quantization
        assert quantization is not None
        scales, zero_points = copied(blockwise.scales), copied(blockwise.zero_points)
        named = replace(blockwise, scales=scales, zero_points=zero_points)
        copy.quantization = replace(quantization, blockwise=named)

    def _permuted(self, tensor: Tensor, permutation: tuple[int, ...]) -> Tensor:
        """Returns a permuted constant, which may have no data."""
        from compiler_plugin.transformations.layout_change.permuted_constants import (
            PermutedConstants,
            permute_type,
        )

        if len(tensor.shape) != len(permutation):
            return tensor.clone()  # stock LiteRT reports the error
        if tensor.buffer.blob is not _STAND_IN:
            return PermutedConstants().permute(tensor, permutation)
        copy = tensor.clone()
        permute_type(copy, permutation)
        return copy

    def _constant(self, tensor: Tensor) -> Buffer:
        old = tensor.buffer
        assert old.blob is not None
        found = self._buffers.get(id(old))
        if found is None:
            limit = _SMALL_INTEGERS if tensor.element_type in _INTEGERS else _SMALL
            if self._with_all_data or old.blob.size <= limit:
                found = Buffer(old.blob)
            else:
                found = Buffer(_STAND_IN, is_external=True)
                self._hole_sizes[len(self.model.buffers)] = old.blob.size
            self._buffers[id(old)] = found
            self.model.buffers.append(found)
        return found

    def _with_holes(self, data: bytearray, start: int) -> bytearray:
        """Returns the bytes of the model; the data of large constants refer to the beginning of the hole."""
        source = FlatbufferBytes(memoryview(bytes(data)), "a region")
        model = source.target(0)
        slot = table_schema("Model").field("buffers").slot
        buffers = source.tables(source.target(model + source.fields(model)[slot]))
        offset, size = (table_schema("Buffer").field(name).slot for name in ("offset", "size"))
        for index, hole in self._hole_sizes.items():
            position = buffers[index]
            fields = source.fields(position)
            struct.pack_into("<Q", data, position + fields[offset], start)
            struct.pack_into("<Q", data, position + fields[size], hole)
        return data


_STAND_IN = Blob(b"\0")


@contextmanager
def _file_for_a_region() -> Iterator[BinaryIO]:
    with ExitStack() as stack:
        try:
            file = stack.enter_context(temporary_file("region.tflite"))
        except OSError as error:
            path = str(error.filename or "")
            hint = "Set TMPDIR to a writable folder with a few KiB of free space."
            raise file_error(error, "cannot write a temporary file", path, hint) from error
        yield file
