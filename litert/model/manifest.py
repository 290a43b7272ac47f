"""The manifest of a compiled file: what made it, and digests of what was put in.

JSON under the metadata key `litert_npu_manifest`. It holds no paths and no times: the same input, flags and
versions give the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.version import SDK_VERSION
from litert.model.assets import Asset
from litert.model.blob import Blob
from litert.model.graph import Model

MANIFEST_KEY = "litert_npu_manifest"
DIGEST_AT_LOAD_LIMIT = 16 << 20
"""Greatest size in bytes of what has its digest checked whenever a file is loaded."""

_VERSION = 1
_MAX_SIZE = 16 << 20
_PIECE = 16 << 20
_NO_FLAGS: Mapping[str, str] = MappingProxyType({})
_Value = TypeVar("_Value")


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
    """An output of dynamic shape of an NPU call, and the int32 output that holds its shape.

    Attributes:
      call_name: the call's function name.
      output, shape_output: indices of the dispatch op's outputs.
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

    def to_json(self) -> bytes:
        """The manifest as it lies in the file: one line of UTF-8, keys sorted."""
        plain = replace(self, flags=dict(self.flags), assets=dict(self.assets))
        document = {"version": _VERSION, **asdict(plain)}
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, data: bytes | memoryview, where: str = "") -> Manifest:
        """Reads what `to_json` wrote; keys that it does not know are left out.

        Raises:
          LiteRtError: INVALID_FLATBUFFER, or WRONG_VERSION for a version that is not known.
        """
        try:
            document = _Object(_parse(data), "the manifest")
            version = document.get("version", _integer)
            if version != _VERSION:
                raise LiteRtError(
                    Status.WRONG_VERSION,
                    f"a manifest of version {version}, not {_VERSION}",
                    where,
                    "Read the file with the version of this project that wrote it.",
                )
            return _manifest(document)
        except (ValueError, RecursionError) as error:
            what = str(error) if isinstance(error, ValueError) else "nested too deeply"
            raise LiteRtError(
                Status.INVALID_FLATBUFFER,
                f"the manifest is damaged: {what}",
                where,
                "Compile the model again.",
            ) from None


def read_manifest(model: Model, where: str = "") -> Manifest | None:
    """A model's manifest; None where it has none.

    Raises:
      LiteRtError: as `Manifest.from_json`.
    """
    blob = model.find_metadata(MANIFEST_KEY)
    return None if blob is None else Manifest.from_json(blob.view, where)


def set_manifest(model: Model, manifest: Manifest) -> None:
    """Puts a manifest into a model, in place of one that it had."""
    model.set_metadata(MANIFEST_KEY, Blob(manifest.to_json()))


def find_mismatches(
    manifest: Manifest,
    assets: Sequence[Asset],
    modules: Sequence[Blob],
    size_limit: int | None = None,
) -> list[str]:
    """What a file holds that is not what its manifest says, in sentences; empty where all is well.

    Args:
      manifest: of the file.
      assets: of the file.
      modules: its byte code, in the file's order.
      size_limit: of what is read for its digest, in bytes; above it only sizes are compared.
    """
    found = [(f"asset '{asset.name}'", manifest.assets.get(asset.name), asset.blob)
             for asset in assets]  # fmt: skip
    for index, module in enumerate(modules):
        known = manifest.modules[index] if index < len(manifest.modules) else None
        found.append((f"byte code module {index}", known, module))
    problems = [
        f"{name} is not in the manifest" if digest is None else f"{name} has changed: {change}"
        for name, digest, blob in found
        if digest is None or (change := _change(digest, blob, size_limit))
    ]
    present = {asset.name for asset in assets}
    missing = [f"asset '{name}'" for name in manifest.assets if name not in present]
    missing += [f"byte code module {i}" for i in range(len(modules), len(manifest.modules))]
    return problems + [f"{name} is in the manifest, and not in the file" for name in missing]


def _change(expected: Digest, blob: Blob, size_limit: int | None) -> str:
    """How a blob differs from its digest; "" where it does not."""
    if blob.size != expected.size:
        return f"{blob.size} bytes, not {expected.size}"
    if size_limit is not None and blob.size > size_limit:
        return ""
    actual = Digest.of(blob)
    return "" if actual == expected else f"sha256 {actual.sha256}, not {expected.sha256}"


class _Object:
    """A JSON object whose members are checked as they are asked for."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{where} is not an object")
        self.members: dict[str, Any] = value
        self.where = where

    def get(self, key: str, check: Callable[[Any, str], _Value]) -> _Value:
        if key not in self.members:
            raise ValueError(f"{self.where} has no '{key}'")
        return check(self.members[key], f"'{key}' of {self.where}")

    def list_of(self, key: str, check: Callable[[Any, str], _Value]) -> tuple[_Value, ...]:
        values = self.get(key, lambda value, _: value)
        if not isinstance(values, list):
            raise ValueError(f"'{key}' of {self.where} is not a list")
        return tuple(check(value, f"'{key}' number {i}") for i, value in enumerate(values))

    def map_of(self, key: str, check: Callable[[Any, str], _Value]) -> dict[str, _Value]:
        members = self.get(key, _Object).members
        return {
            _text(name, "a name"): check(value, f"'{key}' of '{name}'")
            for name, value in members.items()
        }


def _manifest(document: _Object) -> Manifest:
    return Manifest(
        sdk_version=document.get("sdk_version", _text),
        soc_manufacturer=document.get("soc_manufacturer", _text),
        soc_model=document.get("soc_model", _text),
        plugin_sdk_version=document.get("plugin_sdk_version", _text),
        flags=document.map_of("flags", _text),
        assets=document.map_of("assets", _digest),
        modules=document.list_of("modules", _digest),
        shape_outputs=document.list_of("shape_outputs", _shape_output),
        native_assets=_native_assets(document),
    )


def _native_assets(document: _Object) -> Sequence[str]:
    if "native_assets" not in document.members:  # as files were written before there were any
        return ()
    return document.list_of("native_assets", _text)


def _digest(value: Any, where: str) -> Digest:
    members = _Object(value, where)
    return Digest(members.get("size", _integer), members.get("sha256", _sha256))


def _shape_output(value: Any, where: str) -> ShapeOutput:
    members = _Object(value, where)
    return ShapeOutput(
        members.get("call_name", _text),
        members.get("output", _integer),
        members.get("shape_output", _integer),
    )


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{where} is not text")
    value.encode()  # JSON can hold half of a surrogate pair, which nothing could print
    return value


def _integer(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{where} is not a whole number")
    return value


def _sha256(value: Any, where: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", _text(value, where)):
        raise ValueError(f"{where} is not a SHA-256 in hex")
    return _text(value, where)


def _parse(data: bytes | memoryview) -> Any:
    if len(data) > _MAX_SIZE:
        raise ValueError(f"it has {len(data)} bytes")
    return json.loads(bytes(data), object_pairs_hook=_unique)  # a JSONDecodeError is a ValueError


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object has a key twice")
    return members
