"""A compiler plugin that plants an error in one op; PLANTED_ERROR is `<error>@<tensor>`, the op's result.

The plugin itself makes errors in the weights' layout and in the order of inputs. For other errors, it marks the op
in the byte code, and the driver computes the op wrongly.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from compiler_plugin.plugin import CompiledResult, CompilerPlugin, CompilerPluginFactory, OpList
from litert.core.compiler_options import CompilerOptions
from litert.core.environment_options import EnvironmentOptions
from litert.model.blob import Blob
from litert.model.graph import Subgraph
from tests.conformance.numeric.LiteRtCompilerPlugin_Numeric import NumericPlugin


class PlantedPlugin(NumericPlugin):
    """The plugin for one compilation."""

    def __init__(self, taps: bool) -> None:
        self._taps = taps

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        super().partition(soc_model, subgraph, op_list)
        for op in subgraph.ops:
            if op.name in ("QUANTIZE", "DEQUANTIZE"):
                op_list.push(op)

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        result = super().compile(soc_model, partitions)
        code = json.loads(bytes(result.byte_code[0].view))
        error, _, tensor = os.environ.get("PLANTED_ERROR", "").partition("@")
        for function, subgraph in zip(code["functions"].values(), partitions, strict=True):
            names = [each.name for each in subgraph.tensors]
            if self._taps:
                function["names"] = names
            for op in function["ops"]:
                if names[op["output"]] == tensor:
                    _plant(error, op, function, code["constants"])
        return CompiledResult([Blob(json.dumps(code).encode())], result.calls)


def _plant(
    error: str, op: dict[str, Any], function: dict[str, Any], constants: dict[str, str]
) -> None:
    if error == "inputs":
        op["inputs"].reverse()
    elif error == "channel":  # shifts the weights by one channel
        weights = dict(function["tensors"][op["inputs"][1]])
        stored = np.frombuffer(base64.b64decode(constants[weights["data"]]), weights["type"])
        moved = np.roll(stored.reshape(weights["shape"]), 1, axis=0).tobytes()
        weights["data"] = sha256(moved).hexdigest()
        constants[weights["data"]] = base64.b64encode(moved).decode()
        op["inputs"][1] = len(function["tensors"])
        function["tensors"].append(weights)
        function.get("names", []).append("")
    else:
        op["planted"] = error


class PlantedPluginFactory(CompilerPluginFactory):
    """The factory of the vendor Planted."""

    soc_manufacturer = "Planted"
    soc_models = ("P1",)

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        return PlantedPlugin(compiler_options.taps)


PLUGIN = PlantedPluginFactory()
