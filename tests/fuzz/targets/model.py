"""TFLite models: read, dumped, and written again."""

from __future__ import annotations

from litert.model.assets import read_assets
from litert.model.dump import dump
from litert.model.manifest import read_manifest
from litert.model.reader import read_model
from litert.model.stamp import read_stamp
from litert.model.writer import to_bytes
from tests.fuzz.models import all_models
from tests.fuzz.target import Target


def _run(data: bytes) -> None:
    model = read_model(data)
    dump(model)
    read_stamp(model)
    read_assets(model)
    read_manifest(model)
    read_model(to_bytes(model))


TARGET = Target(all_models, _run)
