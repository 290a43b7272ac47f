"""Writes a `Model` as a TFLite flatbuffer: all tables anew, then the data, each copied once.

The file is laid out before a byte is written. In this order: tables; data in the flatbuffer; data behind it
(`Buffer.offset`, large custom options); byte code; trailing bytes. Offsets from the start of the file are
made anew. The same model gives the same bytes.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import ConstantTensor
from litert.core.status import Status
from litert.model import schema
from litert.model.absent import AbsentList, AbsentText, AbsentVector
from litert.model.assembler import Assembler, Ref
from litert.model.blob import Blob, Progress
from litert.model.dispatch_op import DispatchOptions, write_dispatch_options
from litert.model.graph import (
    Appended,
    Buffer,
    Model,
    Op,
    OperatorCode,
    Signature,
    Subgraph,
    Tensor,
)
from litert.model.output import plan_bytes, write_plan
from litert.model.placement import (
    ALIGNMENT,
    Placed,
    Plan,
    place_behind,
    place_in_flatbuffer,
    plan_file,
)
from litert.model.quantization_table import quantization_table, with_indices
from litert.model.table import Table

__all__ = ["Appended", "WriteResult", "to_bytes", "write_model"]

_MAX_FLATBUFFER = 2**31 - 1

_TENSOR_TYPES = {ElementType[name]: number for number, name in schema.ENUMS["TensorType"].items()}
_OPTIONS = {name: number for number, name in schema.UNIONS["BuiltinOptions"].items()}
_OPTIONS_2 = {name: number for number, name in schema.UNIONS["BuiltinOptions2"].items()}

_Fields = list[tuple[int, str, "int | float | bool"]]


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What was written.

    Attributes:
      path: of the file.
      size: of the file, in bytes.
      flatbuffer_size: of the flatbuffer at its start.
      byte_code: offset and size of each byte code module: the model's own, then those appended.
    """

    path: str
    size: int
    flatbuffer_size: int
    byte_code: Sequence[tuple[int, int]]


def write_model(
    model: Model,
    path: str | os.PathLike[str],
    *,
    appended: Sequence[Appended] = (),
    progress: Progress | None = None,
) -> WriteResult:
    """Writes a model to a file, which appears when it is complete.

    Args:
      model: not changed, but for the custom options of dispatch ops.
      path: of the file; what was there stays until then.
      appended: byte code modules beside the model's own.
      progress: called while data are copied.

    Raises:
      LiteRtError: FILE_IO; INVALID_GRAPH_INVARIANT, if the graph does not hold together; INVALID_FLATBUFFER, if
        a table that was not looked at before turns out to be damaged.
    """
    file = _Writer(model, appended).file()
    target = os.fspath(path)
    write_plan(file.plan, target, progress)
    return WriteResult(target, file.plan.size, file.flatbuffer_size, file.byte_code)


def to_bytes(model: Model, *, appended: Sequence[Appended] = ()) -> bytes:
    """The bytes that `write_model` writes, in memory.

    Raises:
      LiteRtError: as `write_model`, but FILE_IO.
    """
    return plan_bytes(_Writer(model, appended).file().plan)


@dataclass(frozen=True, slots=True)
class _File:
    plan: Plan
    flatbuffer_size: int
    byte_code: list[tuple[int, int]]


class _Writer:
    """Writes one model."""

    def __init__(self, model: Model, appended: Sequence[Appended]) -> None:
        self._model = model
        self._modules = [*model.byte_code, *appended]
        self._out = Assembler()
        self._buffers = _all_buffers(model)
        self._buffer_index = {id(buffer): i for i, buffer in enumerate(self._buffers)}
        self._codes = _all_codes(model)
        self._code_index = {id(code): i for i, code in enumerate(self._codes)}
        self._subgraph_index = {id(s): i for i, s in enumerate(model.subgraphs)}
        self._tensor_index: dict[int, dict[int, int]] = {}
        self._places: dict[int, int] = {}  # of data, by the blob's id
        self._absolute: list[tuple[int, int]] = []  # address of a ulong, place that it is to hold
        self._calls: dict[int, DispatchOptions] = {}
        self._call_addresses: list[tuple[int, DispatchOptions]] = []

    def file(self) -> _File:
        outside = self._choose_external()
        inside_placed = place_in_flatbuffer(
            buffer.blob
            for buffer in self._buffers
            if buffer.blob is not None and id(buffer.blob) not in outside
        )
        end = inside_placed[-1].end if inside_placed else 0
        flatbuffer_end = end + -end % ALIGNMENT if inside_placed else 0
        behind = place_behind(outside.values(), flatbuffer_end)
        end = behind[-1].end if behind else flatbuffer_end
        modules = []
        for module in self._modules:
            end += -end % ALIGNMENT
            modules.append(Placed(module.blob, end))
            end += module.blob.size
        trailing = []
        if self._model.trailing is not None:
            end += -end % 4
            trailing.append(Placed(self._model.trailing, end))
            end += self._model.trailing.size
        for entry in inside_placed:
            self._places[id(entry.blob)] = entry.offset - len(entry.prefix)
        for entry in behind:
            self._places[id(entry.blob)] = entry.offset
        for module, entry in zip(self._modules, modules, strict=True):
            for op, name in module.users:
                self._calls[id(op)] = DispatchOptions(entry.offset, module.blob.size, name)

        tables = self._tables(outside)
        start = len(tables)
        for address, place in self._absolute:
            struct.pack_into("<Q", tables, start - address, start + place)
        for address, call in self._call_addresses:
            call = DispatchOptions(start + call.bytecode_offset, call.bytecode_size, call.name)
            data = write_dispatch_options(call)
            tables[start - address + 4 : start - address + 4 + len(data)] = data
        placed = [*inside_placed, *behind, *modules, *trailing]
        plan = plan_file(tables, placed, start + end)
        return _File(
            plan, start + flatbuffer_end, [(start + m.offset, m.blob.size) for m in modules]
        )

    def _choose_external(self) -> dict[int, Blob]:
        """The blobs that go behind the flatbuffer: those that were there, and what would make it too large."""
        outside: dict[int, Blob] = {}
        for buffer in self._buffers:
            if buffer.blob is not None and buffer.is_external:
                outside[id(buffer.blob)] = buffer.blob
        for op in self._model.ops():
            if op.has_large_custom_options and op.custom_options is not None:
                outside[id(op.custom_options)] = op.custom_options
        return outside

    def _tables(self, outside: dict[int, Blob]) -> bytearray:
        model, out = self._model, self._out
        buffers = [self._buffer(buffer, outside) for buffer in self._buffers]
        codes = [self._operator_code(code) for code in self._codes]
        metadata = [
            out.table(
                [*self._name(0, entry.name), (1, "I", self._buffer_of(entry.buffer, "metadata"))]
            )
            for entry in model.metadata
        ]
        subgraphs = [self._subgraph(subgraph) for subgraph in model.subgraphs]
        signatures = [self._signature(signature) for signature in model.signatures]
        fields: _Fields = [(0, "I", model.version)]
        self._list(fields, 1, codes, model.operator_codes)
        self._list(fields, 2, subgraphs, model.subgraphs)
        if model.description is not None:
            fields.append((3, "I", Ref(out.text(model.description))))
        self._list(fields, 4, buffers, model.buffers)
        if _is_there(model.metadata_buffers):
            indices = tuple(
                entry if isinstance(entry, int) else self._buffer_of(entry, "metadata_buffer")
                for entry in model.metadata_buffers
            )
            fields.append((5, "I", Ref(out.int_vector(indices))))
        self._list(fields, 6, metadata, model.metadata)
        self._list(fields, 7, signatures, model.signatures)
        for slot, tables in ((8, model.external_buffer_groups), (9, model.external_buffers)):
            self._list(fields, slot, [out.copy(table) for table in tables], tables)
        return out.finish(out.table(fields), b"TFL3")

    def _list(
        self, fields: _Fields, slot: int, addresses: Sequence[int], values: Sequence[object]
    ) -> None:
        """A field that is a vector of tables, unless the model leaves it out."""
        if addresses or _is_there(values):
            fields.append((slot, "I", Ref(self._out.ref_vector(addresses))))

    def _name(self, slot: int, name: str) -> _Fields:
        return [(slot, "I", Ref(self._out.text(name)))] if _is_there(name) else []

    def _buffer(self, buffer: Buffer, outside: dict[int, Blob]) -> int:
        blob = buffer.blob
        if blob is None:
            return self._out.table([])
        place = self._places[id(blob)]
        if id(blob) not in outside:
            return self._out.table([(0, "I", Ref(-place))])
        address = self._out.table([(1, "Q", 0), (2, "Q", blob.size)])
        self._absolute.append((address - 8, place))
        return address

    def _buffer_of(self, buffer: Buffer, what: str) -> int:
        return self._buffer_index[id(buffer)]

    def _operator_code(self, code: OperatorCode) -> int:
        deprecated, builtin = code.fields
        if max(deprecated, builtin) != code.builtin_code:
            deprecated, builtin = min(code.builtin_code, 127), code.builtin_code
        fields: _Fields = [(0, "b", deprecated), (2, "i", code.version), (3, "i", builtin)]
        if code.custom_code is not None:
            fields.append((1, "I", Ref(self._out.text(code.custom_code))))
        return self._out.table(fields)

    def _subgraph(self, subgraph: Subgraph) -> int:
        out = self._out
        index = {id(tensor): i for i, tensor in enumerate(subgraph.tensors)}
        self._tensor_index[id(subgraph)] = index
        try:
            tensors = [self._tensor(tensor, index) for tensor in subgraph.tensors]
            ops = [self._op(op, index) for op in subgraph.ops]
            inputs = tuple([index[id(tensor)] for tensor in subgraph.inputs])
            outputs = tuple([index[id(tensor)] for tensor in subgraph.outputs])
        except KeyError:
            raise _not_held_together(subgraph) from None
        fields: _Fields = []
        self._list(fields, 0, tensors, subgraph.tensors)
        if _is_there(subgraph.inputs):
            fields.append((1, "I", Ref(out.int_vector(inputs))))
        if _is_there(subgraph.outputs):
            fields.append((2, "I", Ref(out.int_vector(outputs))))
        self._list(fields, 3, ops, subgraph.ops)
        fields += self._name(4, subgraph.name)
        if subgraph.debug_metadata_index != -1:
            fields.append((5, "i", subgraph.debug_metadata_index))
        return out.table(fields)

    def _tensor(self, tensor: Tensor, index: dict[int, int]) -> int:
        out = self._out
        fields: _Fields = []
        if _is_there(tensor.shape):
            fields.append((0, "I", Ref(out.int_vector(tensor.shape))))
        fields.append((1, "b", _TENSOR_TYPES[tensor.element_type]))
        fields.append((2, "I", self._buffer_index[id(tensor.buffer)]))
        fields += self._name(3, tensor.name)
        table = self._quantization(tensor, index)
        if table is not None:
            fields.append((4, "I", Ref(out.copy(table))))
        if tensor.is_variable:
            fields.append((5, "?", True))
        if tensor.sparsity is not None:
            fields.append((6, "I", Ref(out.copy(tensor.sparsity))))
        if tensor.shape_signature is not None:
            fields.append((7, "I", Ref(out.int_vector(tensor.shape_signature))))
        if tensor.has_rank:
            fields.append((8, "?", True))
        if _is_there(tensor.variant_tensors):
            variants = out.ref_vector([out.copy(variant) for variant in tensor.variant_tensors])
            fields.append((9, "I", Ref(variants)))
        if tensor.external_buffer:
            fields.append((10, "I", tensor.external_buffer))
        return out.table(fields)

    def _quantization(self, tensor: Tensor, index: dict[int, int]) -> Table | None:
        """The table to write; block-wise quantization gets the tensors' indices of now."""

        def index_of(scales: ConstantTensor) -> int:
            return index[id(scales)]

        table = tensor.quantization_table
        if table is None:
            quantization = tensor.quantization
            return None if quantization is None else quantization_table(quantization, index_of)
        blockwise = tensor.blockwise
        return table if blockwise is None else with_indices(table, blockwise, index_of)

    def _op(self, op: Op, index: dict[int, int]) -> int:
        out = self._out
        fields: _Fields = [(0, "I", self._code_index[id(op.code)])]
        inputs = tuple([-1 if tensor is None else index[id(tensor)] for tensor in op.inputs])
        outputs = tuple([index[id(tensor)] for tensor in op.outputs])
        if _is_there(op.inputs):
            fields.append((1, "I", Ref(out.int_vector(inputs))))
        if _is_there(op.outputs):
            fields.append((2, "I", Ref(out.int_vector(outputs))))
        if op.options is not None:
            fields.append((3, "B", _OPTIONS[op.options.type_name]))
            fields.append((4, "I", Ref(out.copy(op.options))))
        call = self._calls.get(id(op))
        if call is not None:
            address = out.bytes_vector(write_dispatch_options(call))
            fields.append((5, "I", Ref(address)))
            self._call_addresses.append((address, call))
        elif op.custom_options is not None and not op.has_large_custom_options:
            fields.append((5, "I", Ref(out.bytes_vector(op.custom_options.view))))
        if op.custom_options_format:
            fields.append((6, "b", op.custom_options_format))
        if _is_there(op.mutating_variable_inputs):
            flags = op.mutating_variable_inputs
            fields.append((7, "I", Ref(out.bytes_vector(bytes(flags), 4))))
        if _is_there(op.intermediates):
            indices = tuple([-1 if t is None else index[id(t)] for t in op.intermediates])
            fields.append((8, "I", Ref(out.int_vector(indices))))
        if op.options_2 is not None:
            fields.append((11, "B", _OPTIONS_2[op.options_2.type_name]))
            fields.append((12, "I", Ref(out.copy(op.options_2))))
        if op.debug_metadata_index != -1:
            fields.append((13, "i", op.debug_metadata_index))
        if op.has_large_custom_options and op.custom_options is not None and call is None:
            fields += [(9, "Q", 0), (10, "Q", op.custom_options.size)]
            address = out.table(fields)
            self._absolute.append((address - 8, self._places[id(op.custom_options)]))
            return address
        return out.table(fields)

    def _signature(self, signature: Signature) -> int:
        subgraph = signature.subgraph
        number = self._subgraph_index.get(id(subgraph))
        if number is None:
            raise LiteRtError(
                Status.INVALID_GRAPH_INVARIANT,
                f"signature '{signature.key}' is of a subgraph that the model does not have",
            )
        fields: _Fields = []
        self._tensor_map(fields, 0, signature.inputs, subgraph)
        self._tensor_map(fields, 1, signature.outputs, subgraph)
        fields += self._name(2, signature.key)
        fields.append((4, "I", number))
        return self._out.table(fields)

    def _tensor_map(
        self, fields: _Fields, slot: int, entries: Sequence[tuple[str, Tensor]], subgraph: Subgraph
    ) -> None:
        index = self._tensor_index[id(subgraph)]
        try:
            tables = [
                self._out.table([*self._name(0, name), (1, "I", index[id(tensor)])])
                for name, tensor in entries
            ]
        except KeyError:
            raise _not_held_together(subgraph) from None
        self._list(fields, slot, tables, entries)


def _is_there(value: object) -> bool:
    return bool(value) or not isinstance(value, AbsentText | AbsentVector | AbsentList)


def _all_buffers(model: Model) -> list[Buffer]:
    """The model's buffers, then those that only a tensor or metadata entry has."""
    seen = {id(buffer) for buffer in model.buffers}
    buffers = list(model.buffers)
    used = [tensor.buffer for subgraph in model.subgraphs for tensor in subgraph.tensors]
    for buffer in (*used, *(entry.buffer for entry in model.metadata)):
        if id(buffer) not in seen:
            seen.add(id(buffer))
            buffers.append(buffer)
    return buffers


def _all_codes(model: Model) -> list[OperatorCode]:
    """The model's operator codes, then those that only an op has."""
    seen = {id(code) for code in model.operator_codes}
    codes = list(model.operator_codes)
    for op in model.ops():
        if id(op.code) not in seen:
            seen.add(id(op.code))
            codes.append(op.code)
    return codes


def _not_held_together(subgraph: Subgraph) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_GRAPH_INVARIANT,
        f"subgraph '{subgraph.name}' uses a tensor that is not among its tensors",
    )
