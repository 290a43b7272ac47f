"""Descriptions of custom layers, `.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.fuzz.mutation import damage_json
from tests.fuzz.target import Target, write_input
from tests.vendor_reference.test_json_reader import FULL
from vendor_reference.custom_layers.asset_reader import read_layer

_BESIDE = {"k.cl": b'#include "h.h"\n__kernel void run() {}', "h.h": b"#define H 1\n"}


def _seeds() -> Sequence[bytes]:
    one = {key: value for key, value in FULL.items() if key not in ("$schema", "version", "name")}
    several = {"version": 1, "layers": [{"name": "Full", **one}, {"name": "Other", **one}]}
    return [json.dumps(document).encode() for document in (FULL, several)]


def _run(data: bytes) -> None:
    read_layer("Full", write_input("layer.json", data, _BESIDE), memoryview(data))


TARGET = Target(_seeds, _run, damage_json, test_runs=500)
