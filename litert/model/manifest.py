"""The manifest of a compiled file: what made it, and digests of what was put in.

JSON under the metadata key `litert_npu_manifest`. It holds no paths and no times: the same input, flags and
versions give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType

from litert.core.checked_json import JsonNode
from litert.core.codec import ANY_TEXT, BOOLEAN, SHA256, entries, frozen_array, integer, record
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.version import SDK_VERSION
from litert.model.assets import Asset
from litert.model.blob import Blob
from litert.model.graph import Model

MANIFEST_KEY = "litert_npu_manifest"
_VERSION = 1
_MAX_SIZE = 16 << 20
_MOST = 2**63 - 1
_PIECE = 16 << 20
_NO_FLAGS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Digest:
    """What bytes must be.

    Attributes:
      size: in bytes.
      sha256: in lower-case hex.
    """

    size: int
    sha256: str

    @classmethod
    def of(cls, blob: Blob) -> Digest:
        """Reads all of a blob once, without a copy, and without keeping it in memory."""
        import hashlib  # here, since it loads OpenSSL

        digest = hashlib.sha256()
        for start in range(0, blob.size, _PIECE):
            digest.update(blob.view[start : start + _PIECE])
            if blob.size > _PIECE and blob.file is not None:
                blob.file.release_pages()
        return cls(blob.size, digest.hexdigest())

    def __str__(self) -> str:
        return f"{self.size} {'byte' if self.size == 1 else 'bytes'}, sha256 {self.sha256[:16]}"


@dataclass(frozen=True, slots=True)
class ShapeOutput:
    """An output of dynamic shape of an NPU call.

    Attributes:
      call_name: of the call's function.
      output: its index among the call's outputs.
      shape_output: index of the int32 output that holds its shape.
    """

    call_name: str
    output: int
    shape_output: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a compiled file says about itself.

    Attributes:
      soc_manufacturer, soc_model: as in the stamp.
      plugin_sdk_version: of the vendor's compiler.
      flags: those that were given, by name, without any that hold a path.
      assets: by name, as `register_asset` has it.
      modules: byte code, in the order in which it lies in the file (`Model.byte_code`).
      shape_outputs: of all calls.
      native_assets: names of those whose machine code the calls run; it runs only where it is allowed.
      sdk_version: of this project, as it wrote the file.
      has_digest: whether the file has a place for the digest of all of it.
    """

    soc_manufacturer: str
    soc_model: str
    plugin_sdk_version: str = ""
    flags: Mapping[str, str] = field(default_factory=lambda: _NO_FLAGS)
    assets: Mapping[str, Digest] = field(default_factory=dict)
    modules: Sequence[Digest] = ()
    shape_outputs: Sequence[ShapeOutput] = ()
    native_assets: Sequence[str] = ()
    sdk_version: str = SDK_VERSION
    has_digest: bool = False

    def to_json(self) -> bytes:
        """The manifest as it lies in the file: one line of UTF-8, keys sorted."""
        document = _MANIFEST.dump(self)
        assert isinstance(document, dict)
        return json.dumps(
            {"version": _VERSION, **document}, sort_keys=True, separators=(",", ":")
        ).encode()

    @classmethod
    def from_json(cls, data: bytes | memoryview, where: str = "") -> Manifest:
        """Reads what `to_json` wrote; keys that it does not know are left out.

        Raises:
          LiteRtError: INVALID_FLATBUFFER, or WRONG_VERSION for a version that is not known.
        """
        try:
            if len(data) > _MAX_SIZE:
                raise LiteRtError(Status.INVALID_FLATBUFFER, f"it has {len(data)} bytes", where)
            root = JsonNode.parse(data, where, Status.INVALID_FLATBUFFER)
            version = root.fields(("version",), is_open=True)["version"].integer(0, _MOST)
            if version == _VERSION:
                return _MANIFEST.read(root)
        except LiteRtError as error:
            raise LiteRtError(
                Status.INVALID_FLATBUFFER,
                f"the manifest is damaged: {error.what}{error.where.removeprefix(where)}",
                where,
                "Compile the model again.",
            ) from None
        raise LiteRtError(
            Status.WRONG_VERSION,
            f"a manifest of version {version}, not {_VERSION}",
            where,
            "Read the file with the version of this project that wrote it.",
        )


def read_manifest(model: Model, where: str = "") -> Manifest | None:
    """A model's manifest; None where it has none.

    Raises:
      LiteRtError: as `Manifest.from_json`; INVALID_FLATBUFFER, where manifest and file do not agree whether there
        is a digest of all.
    """
    blob = model.find_metadata(MANIFEST_KEY)
    manifest = None if blob is None else Manifest.from_json(blob.view, where)
    if model.has_digest != bool(manifest and manifest.has_digest):
        what = (
            "a digest of the file, and no" if model.has_digest else "no digest of the file, and a"
        )
        raise LiteRtError(
            Status.INVALID_FLATBUFFER,
            f"the file is not as it was compiled: it has {what} manifest that says so",
            where,
            "Get it again from where it came, or compile the model again.",
        )
    return manifest


def set_manifest(model: Model, manifest: Manifest) -> None:
    """Puts a manifest into a model, in place of one that it had, and what it says of the file's digest."""
    model.set_metadata(MANIFEST_KEY, Blob(manifest.to_json()))
    model.has_digest = manifest.has_digest


def find_mismatches(
    manifest: Manifest,
    assets: Sequence[Asset],
    modules: Sequence[Blob],
    size_limit: int | None = None,
) -> list[str]:
    """What a file's assets and byte code are that its manifest does not say, in sentences; none if all is well.

    What has more bytes than `size_limit` is not read for its digest: only sizes are compared.
    """
    known = {f"asset '{name}'": digest for name, digest in manifest.assets.items()}
    known |= {f"byte code module {i}": digest for i, digest in enumerate(manifest.modules)}
    found = {f"asset '{asset.name}'": asset.blob for asset in assets}
    found |= {f"byte code module {i}": module for i, module in enumerate(modules)}
    problems = []
    for name, blob in found.items():
        if name not in known:
            problems.append(f"{name} is not in the manifest")
        elif change := _change(known[name], blob, size_limit):
            problems.append(f"{name} has changed: {change}")
    missing = [name for name in known if name not in found]
    return problems + [f"{name} is in the manifest, and not in the file" for name in missing]


def _change(expected: Digest, blob: Blob, size_limit: int | None) -> str:
    """How a blob differs from its digest; "" where it does not."""
    if blob.size != expected.size:
        return f"{blob.size} bytes, not {expected.size}"
    if size_limit is not None and blob.size > size_limit:
        return ""
    actual = Digest.of(blob)
    return "" if actual == expected else f"sha256 {actual.sha256}, not {expected.sha256}"


_COUNT = integer(0, _MOST)
_DIGEST = record(Digest, size=_COUNT, sha256=SHA256, is_open=True)
_OUTPUT = record(ShapeOutput, call_name=ANY_TEXT, output=_COUNT, shape_output=_COUNT, is_open=True)
_NAMES = tuple(part.name for part in fields(Manifest))

_MANIFEST = record(
    Manifest,
    soc_manufacturer=ANY_TEXT,
    soc_model=ANY_TEXT,
    plugin_sdk_version=ANY_TEXT,
    flags=entries(ANY_TEXT),
    assets=entries(_DIGEST),
    modules=frozen_array(_DIGEST),
    shape_outputs=frozen_array(_OUTPUT),
    native_assets=frozen_array(ANY_TEXT),
    sdk_version=ANY_TEXT,
    has_digest=BOOLEAN,
    always=lambda _: _NAMES,
    # Files were written before there were these.
    required=[name for name in _NAMES if name not in ("native_assets", "has_digest")],
    is_open=True,
)
