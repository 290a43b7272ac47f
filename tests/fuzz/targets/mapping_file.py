"""Mapping files: ops of transformations in JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from compiler_plugin.transformations.mapping_file import read_mapping_file
from tests.fuzz.mutation import damage_json
from tests.fuzz.target import Target, write_input

_OP = {
    "op": "Upscale",
    "description": "twice as large",
    "parameters": "all",
    "output_shapes": [["B", "INPUT1_SHAPE[0]*2", "X", 3], {"input": 1}, None],
    "output_types": ["float32", {"input": 0}, None],
}


def _seeds() -> Sequence[bytes]:
    ops = [_OP, {"op": "Plain"}, *({"op": "One", key: _OP[key]} for key in _OP if key != "op")]
    return [json.dumps({"version": 1, "ops": [op]}).encode() for op in ops]


def _run(data: bytes) -> None:
    read_mapping_file(write_input("ops.json", data))


TARGET = Target(_seeds, _run, damage_json, test_runs=500)
