"""Configurations of sub-graph replacements."""

from __future__ import annotations

import json

from compiler_plugin.transformations.replacement_config import read_replacement_config
from tests.compiler_plugin.transformations.test_replacement_config import GENERAL, POINTS, SCOPE
from tests.fuzz.mutation import damage_json
from tests.fuzz.target import Target, write_input


def _run(data: bytes) -> None:
    read_replacement_config(write_input("config.json", data))


TARGET = Target(
    lambda: [json.dumps([SCOPE, POINTS, GENERAL]).encode()], _run, damage_json, test_runs=500
)
