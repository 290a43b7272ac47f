"""The file format of binary layers (`.bin`): a description, sources or their digests, and machine code.

| bytes | what |
|---|---|
| 0-7 | magic |
| 8-11 | version; all numbers are little-endian |
| 12-15 | 0 |
| 16-23 | size of the header in bytes |
| 24-31 | size of the whole file in bytes |
| 32-63 | SHA-256 of all bytes that follow |
| 64- | header: one JSON object, UTF-8 |
| from the next multiple of 64 | data: files and machine code, each aligned to 64 bytes; offsets count from the
start of the data |

The header is `{description, files: [{path, sha256, size, offset}], codes: [{program, device, kernels, sizes, size,
offset}]}`; a source file that the author keeps private is omitted, so it has no size and no offset.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from litert.core.checked_json import JsonNode
from litert.core.codec import SHA256
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.executable.executable import ALIGNMENT, Program, align
from vendor_reference.executable.kernel_signature import SIGNATURES, KernelSignature
from vendor_reference.executable.size_arguments import without_sizes

MAGIC = b"LRT-LYR\n"
VERSION = 1
_PREFIX = struct.Struct("<8sIxxxxQQ32s")
_INIT_DEFINE = re.compile(r"#define \w+_INIT ")
_HINT = "Create the file again with litert-npu layer build."


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A description, source or header file in a binary layer.

    Attributes:
      path: Path relative to the description's folder, with `/` as separator.
      sha256: SHA-256 of the file's bytes, in hex.
      data: Bytes of the file; None if the binary layer contains only the file's digest.
    """

    path: str
    sha256: str
    data: memoryview | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """A program's machine code for one device.

    Attributes:
      program: Digest of the program, as `program_digest` computes it.
      device: Identity of the device and driver for which the machine code was compiled.
      kernels: Declarations of the kernels by name, without the extra arguments for `sizes`.
      sizes: Defines whose values the kernels take as extra arguments, so that the machine code works for all
        shapes (see `size_arguments.py`); None if the machine code is for fixed shapes.
    """

    program: str
    device: Sequence[str]
    kernels: Mapping[str, KernelSignature]
    binary: bytes | memoryview = field(repr=False)
    sizes: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class BinaryLayer:
    """A layer that was compiled ahead of time: its files by path, including `description`, and machine code."""

    description: str
    files: Mapping[str, PackedFile]
    codes: Sequence[DeviceCode]

    def find_codes(self, program: Program) -> Sequence[DeviceCode]:
        """Lists a program's machine code for each device; machine code for the program's shapes comes first."""
        for_shapes, for_all = program_digest(program), open_digest(program)
        return [
            *(code for code in self.codes if code.program == for_shapes and code.sizes is None),
            *(code for code in self.codes if code.program == for_all and code.sizes is not None),
        ]

    @property
    def open_sizes(self) -> Sequence[str] | None:
        """Returns the defines whose values are arguments of the machine code for all shapes.

        Returns None if there is no such machine code.
        """
        sizes = [code.sizes for code in self.codes if code.sizes is not None]
        return list(dict.fromkeys(name for names in sizes for name in names)) if sizes else None


def program_digest(program: Program) -> str:
    """Computes a digest of everything on which a program's machine code depends, except the device."""
    # `_INIT` lines depend on the sources, whose digests are included.
    lines = program.prelude.split("\n")
    parts = [
        [line for line in lines if not _INIT_DEFINE.match(line)],
        program.build_options,
        [[source.file_name, source.sha256] for source in program.sources],
        [[source.file_name, source.sha256] for source in program.headers],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def open_digest(program: Program) -> str:
    """Computes a program's digest, which does not depend on the program's shapes (unlike `program_digest`)."""
    return program_digest(without_sizes(program))


def is_binary_layer(data: bytes | memoryview) -> bool:
    """Whether bytes start with the magic of a binary layer."""
    return bytes(memoryview(data)[: len(MAGIC)]) == MAGIC


def pack_binary_layer(layer: BinaryLayer) -> bytes:
    """Packs a layer into the bytes of a `.bin` file; equal layers give equal bytes."""
    data = bytearray()

    def add(piece: bytes | memoryview) -> Mapping[str, int]:
        offset = len(data)
        data.extend(piece)
        data.extend(bytes(align(len(data)) - len(data)))
        return {"size": len(piece), "offset": offset}

    header = json.dumps(
        {
            "description": layer.description,
            "files": [
                {
                    "path": file.path,
                    "sha256": file.sha256,
                    **({} if file.data is None else add(file.data)),
                }
                for file in layer.files.values()
            ],
            "codes": [
                {
                    "program": code.program,
                    "device": list(code.device),
                    "kernels": SIGNATURES.dump(code.kernels),
                    **({} if code.sizes is None else {"sizes": list(code.sizes)}),
                    **add(code.binary),
                }
                for code in layer.codes
            ],
        },
        separators=(",", ":"),
    ).encode()
    body = header.ljust(align(len(header)), b"\0") + data
    total = _PREFIX.size + len(body)
    return _PREFIX.pack(MAGIC, VERSION, len(header), total, hashlib.sha256(body).digest()) + body


def unpack_binary_layer(data: bytes | memoryview, where: str) -> BinaryLayer:
    """Reads a `.bin` file; the result holds views of `data`.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the bytes were not written by `pack_binary_layer`, or were changed later.
    """
    view = memoryview(data).cast("B")
    if view.nbytes < _PREFIX.size or not is_binary_layer(view):
        raise _error("the file is not a binary layer", where)
    _, version, header_size, total, digest = _PREFIX.unpack_from(view)
    if version != VERSION:
        raise _error(
            f"the binary layer has version {version}, but this program reads only version {VERSION}",
            where,
        )
    if total != view.nbytes or header_size > view.nbytes - _PREFIX.size:
        raise _error(
            f"the file has {view.nbytes} bytes, but should have {total} bytes according to its header",
            where,
        )
    body = view[_PREFIX.size :]
    if hashlib.sha256(body).digest() != digest:
        raise _error("the file was changed after it was created", where)
    root = JsonNode.parse(body[:header_size], where, Status.INVALID_ARGUMENT)
    fields = root.fields(("description", "files", "codes"))
    payload = body[min(align(header_size), body.nbytes) :]
    files = {}
    for node in fields["files"].items(1):
        file = _file(node, payload)
        if file.path in files:
            raise node.error(f"the file '{file.path}' occurs twice")
        files[file.path] = file
    description = fields["description"].text(files)
    if files[description].data is None:
        raise fields["description"].error(
            f"the file does not contain the description '{description}'"
        )
    return BinaryLayer(description, files, [_code(n, payload) for n in fields["codes"].items()])


def _file(node: JsonNode, payload: memoryview) -> PackedFile:
    fields = node.fields(("path", "sha256"), ("size", "offset"))
    path, digest = fields["path"].text(), SHA256.read(fields["sha256"])
    if path.startswith("/") or not path or ".." in path.split("/") or not path.isprintable():
        raise fields["path"].error(f"{path!r} is not a relative path inside a folder")
    if "offset" not in fields:
        return PackedFile(path, digest, None)
    data = _piece(node, fields, payload)
    if hashlib.sha256(data).hexdigest() != digest:
        raise node.error(f"the content of file '{path}' has changed since the layer was built")
    return PackedFile(path, digest, data)


def _code(node: JsonNode, payload: memoryview) -> DeviceCode:
    fields = node.fields(("program", "device", "kernels", "size", "offset"), ("sizes",))
    return DeviceCode(
        SHA256.read(fields["program"]),
        [n.text() for n in fields["device"].items(1)],
        SIGNATURES.read(fields["kernels"]),
        _piece(node, fields, payload),
        [name.text() for name in fields["sizes"].items()] if "sizes" in fields else None,
    )


def _piece(node: JsonNode, fields: Mapping[str, JsonNode], payload: memoryview) -> memoryview:
    if "size" not in fields:
        raise node.error("field 'offset' is given, but field 'size' is missing")
    size = fields["size"].integer(0, payload.nbytes)
    offset = fields["offset"].integer(0, payload.nbytes)
    if offset % ALIGNMENT:
        raise node.error(f"offset {offset} is not a multiple of {ALIGNMENT}")
    if size > payload.nbytes - offset:
        raise node.error(
            f"{size} bytes at offset {offset} exceed the {payload.nbytes} bytes of data"
        )
    return payload[offset : offset + size]


def _error(what: str, where: str) -> LiteRtError:
    return LiteRtError(Status.INVALID_ARGUMENT, what, where, _HINT)
