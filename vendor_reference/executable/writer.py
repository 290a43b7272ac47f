"""An `Executable` becomes a byte code module (`format.py`)."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob, MappedFile
from vendor_reference.executable.cpu_op_json import dump_config, dump_op, dump_type
from vendor_reference.executable.executable import (
    Argument,
    Constant,
    CpuPlace,
    CpuTask,
    Dequantization,
    Executable,
    Function,
    KernelTask,
    Program,
    Source,
)
from vendor_reference.executable.format import MAGIC, PREFIX, VERSION, align
from vendor_reference.executable.shape_value import ShapeKind, ShapeValue
from vendor_reference.executable.size_json import dump_size

_SPOOLED_SIZE = 8 << 20


def executable_parts(executable: Executable) -> list[Blob]:
    """The module in pieces that follow each other; constants are the executable's own blobs, not copies."""
    offsets, data_size = [], 0
    for constant in executable.constants:
        offsets.append(data_size)
        data_size += align(constant.data.size)
    header = _header(executable, offsets)
    data_start = align(PREFIX.size + len(header))
    prefix = PREFIX.pack(MAGIC, VERSION, len(header), data_start + data_size)
    parts = [Blob((prefix + header).ljust(data_start, b"\0"))]
    for constant in executable.constants:
        parts.append(constant.data)
        gap = align(constant.data.size) - constant.data.size
        if gap:
            parts.append(Blob(bytes(gap)))
    return parts


def write_executable(executable: Executable) -> Blob:
    """The module: in memory, or, where its constants are large and lie in files, in a file without a name."""
    parts = executable_parts(executable)
    if sum(part.size for part in parts if part.file) >= _SPOOLED_SIZE:
        return _spool(parts)
    return Blob(b"".join(part.view for part in parts))


def _spool(parts: Sequence[Blob]) -> Blob:
    """The parts in one file, gone when the last view of it is; those in files are copied by the kernel."""
    import tempfile  # here: few modules are so large

    try:
        with tempfile.NamedTemporaryFile(prefix="litert-npu-") as stream:
            for part in parts:
                if part.file is None:
                    stream.write(part.view)
                    stream.flush()
                else:
                    _send(part.file.fd, part.offset, part.size, stream.fileno())
            return MappedFile(stream.name).blob()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LiteRtError(
            Status.FILE_IO, f"cannot write the byte code: {reason}", tempfile.gettempdir()
        ) from error


def _send(source: int, offset: int, size: int, target: int) -> None:
    while size:
        sent = os.sendfile(target, source, offset, size)
        if not sent:
            raise OSError(errno.EIO, "the model's file has been cut")
        offset, size = offset + sent, size - sent


def _header(executable: Executable, offsets: Sequence[int]) -> bytes:
    header = {
        "soc_model": executable.soc_model,
        "functions": [_function(f) for f in executable.functions],
        "programs": [_program(p) for p in executable.programs],
        "constants": [
            _constant(c, offset) for c, offset in zip(executable.constants, offsets, strict=True)
        ],
    }
    return json.dumps(header, separators=(",", ":"), allow_nan=False).encode("ascii")


def _function(function: Function) -> Mapping[str, object]:
    fields: dict[str, object] = {
        "name": function.name,
        "inputs": [dump_type(t) for t in function.inputs],
        "outputs": [dump_type(t) for t in function.outputs],
        "ddr_size": function.ddr_size,
        "cmx_size": function.cmx_size,
        "tasks": [_task(t) for t in function.tasks],
    }
    if function.shapes:
        fields["shapes"] = [_shape(s) for s in function.shapes]
    if function.dynamic_outputs:
        fields["dynamic_outputs"] = [
            [d.output, d.shape_output, d.shape] for d in function.dynamic_outputs
        ]
    if function.needs_fp16:
        fields["needs_fp16"] = True
    return fields


def _shape(shape: ShapeValue) -> Mapping[str, object]:
    fields: dict[str, object] = {
        "name": shape.name,
        "kind": shape.kind.value,
        "pattern": list(shape.pattern),
        "bound": list(shape.bound),
        "offset": shape.offset,
    }
    if shape.kind is ShapeKind.COMPUTED:
        fields["sizes"] = [dump_size(size) for size in shape.sizes]
    else:
        fields["index"] = shape.index
    if shape.kind is ShapeKind.ASKED:
        fields["output"] = shape.output
    return fields


def _task(task: KernelTask | CpuTask) -> Mapping[str, object]:
    return _cpu_task(task) if isinstance(task, CpuTask) else _kernel_task(task)


def _kernel_task(task: KernelTask) -> Mapping[str, object]:
    fields: dict[str, object] = {
        "op_name": task.op_name,
        "program": task.program,
        "entry": task.entry,
        "arguments": [_argument(a) for a in task.arguments],
        "global_size": [dump_size(size) for size in task.global_size],
    }
    if task.local_size is not None:
        fields["local_size"] = [dump_size(size) for size in task.local_size]
    if task.num_shaves:
        fields["num_shaves"] = task.num_shaves
    return fields


def _cpu_task(task: CpuTask) -> Mapping[str, object]:
    return {
        "op_name": task.op_name,
        "asset": _source(task.asset),
        "op": dump_op(task.op),
        "implementation": task.implementation,
        "config": dump_config(task.config),
        "inputs": [None if place is None else _place(place) for place in task.inputs],
        "outputs": [_place(place) for place in task.outputs],
    }


def _place(place: CpuPlace) -> Mapping[str, object]:
    fields: dict[str, object] = {"argument": _argument(place.argument)}
    if place.strides:
        fields["strides"] = list(place.strides)
    if place.offset:
        fields["offset"] = place.offset
    if place.shape is not None:
        fields["shape"] = place.shape
    return fields


def _argument(argument: Argument) -> Mapping[str, object]:
    fields: dict[str, object] = {"kind": argument.kind.value}
    if argument.index:
        fields["index"] = argument.index
    if argument.offset:
        fields["offset"] = argument.offset
    if argument.size_bytes:
        fields["size_bytes"] = argument.size_bytes
    if argument.scalar:
        fields["scalar"] = argument.scalar.hex()
    return fields


def _program(program: Program) -> Mapping[str, object]:
    fields: dict[str, object] = {
        "prelude": program.prelude,
        "sources": [_source(s) for s in program.sources],
    }
    if program.build_options:
        fields["build_options"] = program.build_options
    if program.headers:
        fields["headers"] = [_source(s) for s in program.headers]
    if program.holes:
        fields["holes"] = [dump_size(size) for size in program.holes]
    return fields


def _source(source: Source) -> Mapping[str, object]:
    return {"asset": source.asset, "file_name": source.file_name, "sha256": source.sha256}


def _constant(constant: Constant, offset: int) -> Mapping[str, object]:
    fields: dict[str, object] = {"type": dump_type(constant.tensor_type), "offset": offset}
    if constant.dequantization is not None:
        fields["dequantization"] = _dequantization(constant.dequantization)
    if constant.order:
        fields["order"] = list(constant.order)
    return fields


def _dequantization(dequantization: Dequantization) -> Mapping[str, object]:
    if not dequantization.scale:
        return {}
    return {
        "scale": [float(s) for s in dequantization.scale],
        "zero_point": [int(z) for z in dequantization.zero_point],
        "dimension": dequantization.dimension,
    }
