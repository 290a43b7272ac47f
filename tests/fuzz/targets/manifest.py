"""A compiled file's manifest."""

from __future__ import annotations

from collections.abc import Sequence

from litert.model.assets import Asset
from litert.model.blob import Blob
from litert.model.manifest import Digest, Manifest, ShapeOutput, find_mismatches
from tests.fuzz.mutation import damage_json
from tests.fuzz.target import Target

_ASSET, _MODULE = Asset("MyOp", "", Blob(b"kernel void MyOp() {}")), Blob(b"byte code")


def _seeds() -> Sequence[bytes]:
    made = Manifest(
        "Reference",
        "EMU8",
        flags={"reference_ops": "all"},
        assets={_ASSET.name: Digest.of(_ASSET.blob)},
        modules=[Digest.of(_MODULE)],
        shape_outputs=[ShapeOutput("f", 0, 1)],
        native_assets=["MyOp"],
    )
    return [made.to_json(), Manifest("Null", "").to_json()]


def _run(data: bytes) -> None:
    manifest = Manifest.from_json(data, "a.tflite")
    find_mismatches(manifest, [_ASSET], [_MODULE])
    Manifest.from_json(manifest.to_json())


TARGET = Target(_seeds, _run, damage_json)
