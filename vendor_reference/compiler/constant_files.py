"""Stores where the data of constants in dumped IR are: in the model file, or in a file in the dump folder.

For the key of each constant, `constants.json` gives the file, the offset, the type, and how the device dequantizes
the constant. Weights stay in the model file. Constants that a transformation computed are not in the model file,
so their data are in `constants.bin`, in the folder of `constants.json`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from litert.core.checked_json import JsonNode
from litert.core.codec import ANY_TEXT, array, entries, integer, record
from litert.core.counts import index_range
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.input_file import read_input
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.atomic_file import open_atomic
from litert.model.blob import Blob, MappedFile
from litert.model.output import write_at
from litert.model.schema_types import IDENTIFIER
from vendor_reference.executable.byte_code import DEQUANTIZATION
from vendor_reference.executable.cpu_op import TENSOR_TYPE
from vendor_reference.executable.executable import Constant, Dequantization, align
from vendor_reference.executable.executable_checks import check_constant

FILE_NAME = "constants.json"
_COMPUTED = "constants.bin"
_MOST_BYTES = 256 << 20
_AGAIN = (
    "Dump the model again, or pass a .npz file with one array for each constant. Name each array by "
    "the key of its constant."
)


@dataclass(frozen=True, slots=True)
class _File:
    """The absolute path of a model, or `constants.bin`, and the state of the file."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class _Place:
    """The location of a constant's data: offset `offset` in file `file`."""

    tensor_type: RankedTensorType
    file: int
    offset: int
    dequantization: Dequantization | None = None


@dataclass(frozen=True, slots=True)
class _Table:
    files: Sequence[_File]
    constants: Mapping[str, _Place]


def write_constants(folder: str, constants: Mapping[str, Constant]) -> None:
    """Writes `constants.json` and `constants.bin` to an existing folder, for the constants of a module.

    Raises:
      LiteRtError: FILE_IO, if a file cannot be written.
    """
    files: dict[str, _File] = {}
    places: dict[str, _Place] = {}
    computed: list[tuple[int, Blob]] = []
    end = 0
    for key, constant in constants.items():
        blob, path = constant.data, _path_of(constant.data)
        offset = blob.offset
        if not path:
            offset, end = end, align(end + blob.size)
            computed.append((offset, blob))
        name = path or _COMPUTED
        if name not in files:
            status = os.stat(path) if path else None
            files[name] = _File(
                name, status.st_size if status else 0, status.st_mtime_ns if status else 0
            )
        number = list(files).index(name)
        places[key] = _Place(constant.tensor_type, number, offset, constant.dequantization)
    if computed:
        files[_COMPUTED] = _File(_COMPUTED, end, 0)
        with open_atomic(os.path.join(folder, _COMPUTED)) as fd:
            os.ftruncate(fd, end)
            for offset, blob in computed:
                write_at(fd, blob.view, offset)
    text = json.dumps(_TABLE.dump(_Table(list(files.values()), places)))
    with open_atomic(os.path.join(folder, FILE_NAME)) as fd:
        write_at(fd, text.encode(), 0)


@contextmanager
def open_constants(path: str) -> Iterator[Mapping[str, Constant]]:
    """Opens the constants that `write_constants` has written to a folder.

    The files of the constants stay open until the `with` block ends.

    The table is not trusted: its entries may refer only to model files, and to `constants.bin` in the table's
    folder.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the file is not a table of constants, or a model file has changed;
        NOT_FOUND, if a file is missing.
    """
    text = read_input(path, _MOST_BYTES)
    table = _TABLE.read(JsonNode.parse(text, path, Status.INVALID_ARGUMENT))
    with ExitStack() as stack:
        files = [stack.enter_context(_open(file, path)) for file in table.files]
        constants: dict[str, Constant] = {}
        for key, place in table.constants.items():
            if place.file >= len(files):
                what = f"constant '{key}' refers to file {place.file}, but {index_range('file', len(files))}"
                raise LiteRtError(Status.INVALID_ARGUMENT, what, path, _AGAIN)
            blob = files[place.file].blob(place.offset, place.tensor_type.size_bytes)
            constants[key] = Constant(place.tensor_type, blob, place.dequantization)
        yield constants


def constants_of_arrays(
    arrays: Mapping[str, np.ndarray[Any, Any]], where: str
) -> Mapping[str, Constant]:
    """Converts arrays to constants of their element types; the keys stay unchanged.

    Raises:
      LiteRtError: UNSUPPORTED, if no tensor can have the element type of an array.
    """
    constants: dict[str, Constant] = {}
    for key, values in arrays.items():
        try:
            element_type = ElementType.from_numpy(values.dtype)
        except (LiteRtError, KeyError, ValueError) as error:
            what = f"array '{key}' has elements of type {values.dtype}, which no tensor can have"
            raise LiteRtError(Status.UNSUPPORTED, what, where) from error
        data = Blob(values.astype(values.dtype.newbyteorder("="), order="C", copy=False).tobytes())
        constants[key] = Constant(RankedTensorType.of(element_type, values.shape), data)
    return constants


def _path_of(blob: Blob) -> str:
    """Returns the absolute path of the file that contains a blob; "" if others cannot open the file."""
    file = blob.file
    if file is None or not file.is_open:
        return ""
    try:
        path = os.path.realpath(file.path)
        is_same = os.path.samestat(os.fstat(file.fd), os.stat(path))
    except OSError:
        return ""
    is_model = bytes(file.view[4:8]) == IDENTIFIER
    return path if is_same and is_model and os.path.isabs(path) else ""


@contextmanager
def _open(file: _File, table: str) -> Iterator[MappedFile]:
    is_beside = file.path == _COMPUTED
    if not is_beside and not os.path.isabs(file.path):
        what = f"the table of constants refers to '{file.path}', which is not an absolute path"
        raise LiteRtError(Status.INVALID_ARGUMENT, what, table, _AGAIN)
    path = os.path.join(os.path.dirname(table), file.path)
    try:
        opened = MappedFile(path)
    except LiteRtError as error:
        raise LiteRtError(
            error.status, error.what, f"{error.where}, named in {table}", _AGAIN
        ) from error
    with opened:
        status = os.fstat(opened.fd)
        is_as_it_was = (status.st_size, status.st_mtime_ns) == (file.size, file.mtime_ns)
        if is_beside:
            is_as_it_was = opened.size == file.size
        elif bytes(opened.view[4:8]) != IDENTIFIER:
            what = f"the table of constants refers to '{path}', which is not a model"
            raise LiteRtError(Status.INVALID_ARGUMENT, what, table, _AGAIN)
        if not is_as_it_was:
            what = f"'{path}' has changed since the constants were dumped"
            raise LiteRtError(Status.INVALID_ARGUMENT, what, table, _AGAIN)
        yield opened


_OFFSET = integer(0, 2**63 - 1)
_TABLE = record(
    _Table,
    files=array(
        record(
            _File,
            path=ANY_TEXT,
            size=_OFFSET,
            mtime_ns=integer(-(2**63), 2**63 - 1),
        )
    ),
    constants=entries(
        record(
            _Place,
            tensor_type=TENSOR_TYPE,
            file=_OFFSET,
            offset=_OFFSET,
            dequantization=DEQUANTIZATION,
            check=lambda node, c: check_constant(node, c.tensor_type, c.dequantization, (), 0),
        )
    ),
)
