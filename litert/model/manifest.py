"""The manifest of a compiled file, which records the tools that made the file, and digests of its parts.

The manifest is JSON under the metadata key `litert_npu_manifest`. The manifest contains no paths and no times, so
that the same input, flags and versions produce the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType

from litert.core.checked_json import JsonNode
from litert.core.codec import ANY_TEXT, BOOLEAN, SHA256, entries, frozen_array, integer, record
from litert.core.counts import count_text
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
    """Size and SHA-256 of data; a comparison with them shows whether the data in a file have changed.

    Attributes:
      size: Number of bytes.
      sha256: SHA-256 in lower-case hexadecimal digits.
    """

    size: int
    sha256: str

    @classmethod
    def of(cls, blob: Blob) -> Digest:
        """Computes the digest of a blob; reads each byte once, and does not keep the data in memory."""
        import hashlib  # imported here, because it loads OpenSSL

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
    """A reference to an output of an NPU call; the output's shape is known only at run time.

    Attributes:
      call_name: Name of the NPU call's function.
      output: Index of the output among the call's outputs.
      shape_output: Index of another output of the call: an int32 tensor that holds the output's shape.
    """

    call_name: str
    output: int
    shape_output: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts that a compiled file records about itself.

    Attributes:
      soc_manufacturer, soc_model: Manufacturer and model of the NPU, which are the same as in the stamp.
      plugin_sdk_version: Version of the vendor's compiler.
      flags: Values of the flags that the user gave, by name; flags whose value is a path are omitted.
      assets: Digests of assets, by the names under which the assets are passed to `register_asset`.
      modules: Digests of byte code modules, in the order of `Model.byte_code`.
      shape_outputs: Outputs of all NPU calls whose shape is known only at run time.
      native_assets: Names of assets that contain machine code; NPU calls run this code if the user allows it.
      sdk_version: Version of this project that wrote the file.
      has_digest: Whether the file reserves bytes for a digest of the whole file.
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
        """Returns the manifest in the form for the file, which is one line of JSON in UTF-8 with sorted keys."""
        document = _MANIFEST.dump(self)
        assert isinstance(document, dict)
        return json.dumps(
            {"version": _VERSION, **document}, sort_keys=True, separators=(",", ":")
        ).encode()

    @classmethod
    def from_json(cls, data: bytes | memoryview, where: str = "") -> Manifest:
        """Parses a manifest from the output of `to_json`; ignores unknown keys.

        Raises:
          LiteRtError: INVALID_FLATBUFFER, if the manifest is damaged; WRONG_VERSION, if the manifest has an
            unknown version.
        """
        try:
            if len(data) > _MAX_SIZE:
                what = f"the manifest has {len(data)} bytes, but may have at most {_MAX_SIZE}"
                raise LiteRtError(Status.INVALID_FLATBUFFER, what, where)
            root = JsonNode.parse(data, where, Status.INVALID_FLATBUFFER)
            version = root.fields(("version",), is_open=True)["version"].integer(0, _MOST)
            if version == _VERSION:
                return _MANIFEST.read(root)
        except LiteRtError as error:
            place = error.where.removeprefix(where).removeprefix(", ")
            raise LiteRtError(
                Status.INVALID_FLATBUFFER,
                f"the file's manifest is damaged: {error.what}{f', {place}' if place else ''}",
                where,
                "Compile the model again.",
            ) from None
        raise LiteRtError(
            Status.WRONG_VERSION,
            f"the file's manifest has version {version}, but this version of litert-npu reads only "
            f"version {_VERSION}",
            where,
            "Use the version of litert-npu that compiled the file, or compile the model again.",
        )


def read_manifest(model: Model, where: str = "") -> Manifest | None:
    """Returns a model's manifest; None if the model has no manifest.

    Raises:
      LiteRtError: Same as `Manifest.from_json`; also INVALID_FLATBUFFER, if the manifest says that the file has a
        place for a digest but the file has none, or if the manifest does not mention the place that the file has.
    """
    blob = model.find_metadata(MANIFEST_KEY)
    manifest = None if blob is None else Manifest.from_json(blob.view, where)
    if model.has_digest != bool(manifest and manifest.has_digest):
        what = (
            "a digest of the file, but no" if model.has_digest else "no digest of the file, but a"
        )
        raise LiteRtError(
            Status.INVALID_FLATBUFFER,
            f"the file has changed since it was compiled: it has {what} manifest that requires a "
            "digest",
            where,
            "Copy the file again from its source, or compile the model again.",
        )
    return manifest


def set_manifest(model: Model, manifest: Manifest) -> None:
    """Stores a manifest in a model, replaces an older manifest, and copies `has_digest` to the model."""
    model.set_metadata(MANIFEST_KEY, Blob(manifest.to_json()))
    model.has_digest = manifest.has_digest


def find_mismatches(
    manifest: Manifest,
    assets: Sequence[Asset],
    modules: Sequence[Blob],
    size_limit: int | None = None,
) -> list[str]:
    """Compares a file's assets and byte code with the manifest; returns a sentence about each difference.

    The list is empty if there are no differences.

    For assets and modules with more than `size_limit` bytes, only the sizes are compared.
    """
    known = {f"asset '{name}'": digest for name, digest in manifest.assets.items()}
    known |= {f"byte code module {i}": digest for i, digest in enumerate(manifest.modules)}
    found = {f"asset '{asset.name}'": asset.blob for asset in assets}
    found |= {f"byte code module {i}": module for i, module in enumerate(modules)}
    problems = []
    for name, blob in found.items():
        if name not in known:
            problems.append(f"{name} is in the file, but not in the manifest")
        elif change := _change(known[name], blob, size_limit):
            problems.append(f"{name} has changed: {change}")
    missing = [name for name in known if name not in found]
    return problems + [f"{name} is in the manifest, but not in the file" for name in missing]


def _change(expected: Digest, blob: Blob, size_limit: int | None) -> str:
    """Returns a phrase about how a blob differs from its digest; "" if there is no difference."""
    if blob.size != expected.size:
        return f"it has {count_text(blob.size, 'byte')}, not {expected.size}"
    if size_limit is not None and blob.size > size_limit:
        return ""
    actual = Digest.of(blob)
    return (
        ""
        if actual == expected
        else f"its SHA-256 digest is {actual.sha256}, not {expected.sha256}"
    )


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
    # Older files lack these fields.
    required=[name for name in _NAMES if name not in ("native_assets", "has_digest")],
    is_open=True,
)
