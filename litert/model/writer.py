"""Writes a `Model` to a TFLite file; makes new tables, and copies the data only once.

The writer lays out the whole file before it writes the first byte. The parts of the file are, in this order:
tables, data in the flatbuffer, data after the flatbuffer (`Buffer.offset`, large custom options), byte code,
trailing bytes. The writer recomputes offsets that count from the start of the file. Equal models are written as
equal bytes.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Sequence
from typing import NamedTuple

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.collector import collector_held
from litert.model.dispatch_op import DispatchOptions, write_dispatch_options
from litert.model.file_digest import ALWAYS_LIMIT, DIGEST_OFFSET, FileDigest, Seal
from litert.model.graph import Appended, Model
from litert.model.model_tables import ModelTables, all_buffers
from litert.model.output import plan_bytes, write_plan
from litert.model.placement import ALIGNMENT, PAGE, Plan, Region
from litert.model.trailing import TRAILING_ALIGNMENT, moved_archive

__all__ = ["Appended", "WriteResult", "to_bytes", "write_model"]

_MAX_FLATBUFFER = 2**31 - 1
_TABLES_SIZE = 16 << 20  # size of most models, with some reserve
_DATA_PADDING = 64
_LARGE_OPTIONS = 64 << 10  # size of custom options that are copied like constants


class WriteResult(NamedTuple):
    """The result of writing a model.

    Attributes:
      path: Path of the file.
      size: Size of the file, in bytes.
      flatbuffer_size: Size of the flatbuffer at the start of the file, in bytes.
      byte_code: Offset and size of each byte code module in the file: first the model's own modules, then the
        appended modules.
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
    seal: Seal | None = None,
    digest_weights: bool = False,
    permissions: int | None = None,
) -> WriteResult:
    """Writes a model to a file atomically, and reports progress if the file is large.

    Args:
      model: Model to write; the model does not change. In the file, each NPU call also gets custom options that
        give the place of its byte code.
      path: Path of the file; an old file at this path stays until the new file is complete.
      appended: Byte code modules to write in addition to the model's own modules.
      seal: Function that computes the file's seal, which proves who compiled the file; used only if the file gets
        a digest.
      digest_weights: Whether a file of more than 64 MiB gets a digest, too. A file gets a digest only if the
        model's `has_digest` is true.
      permissions: Mode bits that the file may have, such as 0o600. The default is 0o666. If a command or the
        function `apply_plugin` writes the file, the default contains the owner's bits (0o600), and a bit of 0o666
        for other users only if every file that was read has this bit.

    Raises:
      LiteRtError: FILE_IO, if writing fails; INVALID_GRAPH_INVARIANT, if the graph is inconsistent;
        INVALID_FLATBUFFER, if the model was read from a file with a damaged table. `read_model` does not read all
        tables, and may therefore not find the damage.
    """
    with collector_held():
        file = _lay_out_file(model, appended)
    target = os.fspath(path)
    if digest_weights or file.plan.size <= ALWAYS_LIMIT:
        file.take_digest(seal)
    write_plan(file.plan, target, permissions)
    return WriteResult(target, file.plan.size, file.flatbuffer_size, file.byte_code)


def to_bytes(model: Model, *, appended: Sequence[Appended] = ()) -> bytes:
    """Returns the bytes that `write_model` writes to a file.

    Raises:
      LiteRtError: Same as `write_model`, except for FILE_IO.
    """
    with collector_held():
        file = _lay_out_file(model, appended)
        if file.plan.size <= ALWAYS_LIMIT:
            file.take_digest(None)
        return plan_bytes(file.plan)


class _File(NamedTuple):
    plan: Plan
    tables_size: int
    flatbuffer_size: int
    byte_code: list[tuple[int, int]]
    has_digest: bool

    def take_digest(self, seal: Seal | None) -> None:
        """Plans the file's digest, if the model has one; it is computed after all other bytes are written."""
        if self.has_digest:
            size = self.plan.size
            self.plan.finish = lambda read: (
                DIGEST_OFFSET,
                b"".join(FileDigest.of(read, size, seal)),
            )


def _lay_out_file(model: Model, appended: Sequence[Appended]) -> _File:
    """Plans the file; puts as much data as possible into the flatbuffer.

    Raises:
      LiteRtError: SERIALIZATION, if the tables alone are too large; INVALID_GRAPH_INVARIANT, if the graph is
        inconsistent.
    """
    if not isinstance(model, Model):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"cannot write a {type(model).__name__}, only a Model",
            hint="For a ModelBuilder, pass the result of its method `build`.",
        )
    modules = [*model.byte_code, *appended]
    try:
        file = _lay_out(model, modules, _TABLES_SIZE)
        if file.flatbuffer_size > _MAX_FLATBUFFER:
            file = _lay_out(model, modules, file.tables_size)
    except struct.error as error:
        raise LiteRtError(
            Status.INVALID_GRAPH_INVARIANT,
            f"a number in the model does not fit its field in the file: {_limits(error)}",
        ) from error
    if file.flatbuffer_size > _MAX_FLATBUFFER:
        raise LiteRtError(
            Status.SERIALIZATION,
            f"the file without constants has {file.flatbuffer_size} bytes, but the limit is 2 GiB",
        )
    return file


def _limits(error: struct.error) -> str:
    """Returns the error's text; replaces the character of a format, which means nothing to a user."""
    return re.sub(r"^'.' format requires ", "the field requires ", str(error))


def _lay_out(model: Model, modules: Sequence[Appended], tables_size: int) -> _File:
    """Plans the file under the assumption that its tables take at most `tables_size` bytes."""
    inside, outside = _choose(model, tables_size)
    data = Region.in_flatbuffer(inside)
    behind = Region.behind(outside, data.end)
    code = Region(behind.end)
    calls: dict[int, DispatchOptions] = {}
    byte_code = []
    for module in modules:
        place, size = code.append(module.blob, ALIGNMENT), module.blob.size
        byte_code.append((place, size))
        for op, name in module.users:
            calls[id(op)] = DispatchOptions(place, size, name)
    trailing = Region(code.end)
    if model.trailing is not None:
        trailing.append(model.trailing, TRAILING_ALIGNMENT)

    tables = ModelTables(
        model,
        data.places,
        behind.places,
        {op: write_dispatch_options(call) for op, call in calls.items()},
    )
    head = tables.assemble(PAGE if data.has_pages or behind.has_pages else ALIGNMENT)
    start = len(head)
    for address, place in tables.absolute:
        struct.pack_into("<Q", head, start - address, start + place)
    for op_id, address in tables.calls.items():
        call = calls[op_id]
        options = write_dispatch_options(
            DispatchOptions(start + call.bytecode_offset, call.bytecode_size, call.name)
        )
        head[start - address + 4 : start - address + 4 + len(options)] = options

    size = start + trailing.end
    plan = Plan([(0, head)], size + -size % TRAILING_ALIGNMENT)
    for region in (data, behind, code, trailing):
        plan.add_region(region, start)
    if model.trailing is not None:
        old, new = model.trailing.offset, size - model.trailing.size
        moved = moved_archive(model.trailing.view, old, new)
        if moved is not None:
            plan.texts.append((new + moved[0], moved[1]))
        plan.size = size
    places = [(start + place, size) for place, size in byte_code]
    return _File(plan, start, start + data.end, places, model.has_digest)


def _choose(model: Model, tables_size: int) -> tuple[list[Blob], list[Blob]]:
    """Chooses which data are stored in the flatbuffer, and which data after the flatbuffer.

    Data are stored after the flatbuffer if they were there before, or if they would exceed the size limit.
    """
    inside: list[Blob] = []
    outside: list[Blob] = []
    for buffer in all_buffers(model):
        if buffer.blob is not None:
            (outside if buffer.is_external else inside).append(buffer.blob)
    options = []
    for op in model.ops():
        if op.custom_options is not None:
            if op.has_large_custom_options:
                outside.append(op.custom_options)
            elif op.custom_options.size >= _LARGE_OPTIONS:
                options.append(op.custom_options)

    sizes = {id(blob): blob.size + _DATA_PADDING for blob in (*inside, *options)}
    excess = sum(sizes.values()) + tables_size - _MAX_FLATBUFFER
    if excess > 0:
        moved = set()
        for blob in sorted(inside, key=lambda blob: -blob.size):
            if excess > 0 and id(blob) not in moved:
                moved.add(id(blob))
                excess -= sizes[id(blob)]
        outside += [blob for blob in inside if id(blob) in moved]
        inside = [blob for blob in inside if id(blob) not in moved]
    return [*inside, *options], outside
