"""Acme's compiler: makes an NPU call from each custom op that has an asset.

The byte code is JSON with the name of the custom op for each function. The asset says what the op computes; the
driver receives the asset when the model is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from compiler_plugin.plugin import (
    CallInfo,
    Companion,
    CompiledResult,
    CompilerPlugin,
    CompilerPluginFactory,
    OpList,
)
from litert.core.compiler_options import CompilerOptions
from litert.core.environment_options import EnvironmentOptions
from litert.model.blob import Blob
from litert.model.graph import Subgraph


class AcmePlugin(CompilerPlugin):
    """The state of one run of the compiler."""

    def __init__(self, compiler_options: CompilerOptions) -> None:
        self._ops = {info.op_name for info in compiler_options.custom_op_infos}

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        for op in subgraph.ops:
            if op.code.custom_code not in self._ops:
                continue
            if [len(op.inputs), len(op.outputs)] == [1, 1]:
                op_list.push(op, partition_index=len(op_list.selected))
            else:
                op_list.refuse(op, "Acme's NPU only supports ops with one input and one output")

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        functions = {f"f{i}": subgraph.ops[0].name for i, subgraph in enumerate(partitions)}
        byte_code = Blob(json.dumps(functions).encode())
        return CompiledResult([byte_code], [CallInfo(name) for name in functions])

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        return ()

    def close(self) -> None:
        pass


class AcmePluginFactory(CompilerPluginFactory):
    """The plugin's description: Acme's name and SoC models."""

    soc_manufacturer = "Acme"
    soc_models = ("A1",)

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        return AcmePlugin(compiler_options)


PLUGIN = AcmePluginFactory()
