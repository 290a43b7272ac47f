"""Test's compiler plugin: takes custom ops and makes one call of each; the op's name is the function's name.

If an output has an unknown dimension, a further output holds its shape. The option test_name=F names all
functions F. An asset contains the name of its companion, or is empty. A file named <op>.layer is a custom
layer for any model.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from compiler_plugin.plugin import (
    CallInfo,
    Companion,
    CompiledResult,
    CompilerPlugin,
    CompilerPluginFactory,
    OpList,
)
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.environment_options import EnvironmentOptions
from litert.model.blob import Blob
from litert.model.graph import Subgraph


class TestPlugin(CompilerPlugin):
    __test__ = False  # for pytest: this class is no test

    def __init__(self, options: CompilerOptions) -> None:
        self._options = options.vendor_options
        self._asset_root = options.asset_root

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        for index, op in enumerate(subgraph.ops):
            if op.is_custom:
                op_list.push(op, index)

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        calls = []
        for index, partition in enumerate(partitions):
            name = self._options.get("test_name", f"{partition.ops[0].name}@{index}")
            dynamic = [i for i, t in enumerate(partition.outputs) if not t.type.layout.is_static]
            calls.append(CallInfo(name, 0, dynamic))
        return CompiledResult([Blob(b'{"max_bytes": 256}')], calls)

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        name = bytes(data).decode()
        if not name:
            return ()
        folder = self._asset_root or os.path.dirname(asset_path)
        with open(os.path.join(folder, name), "rb") as file:
            return [Companion(name, Blob(file.read()))]

    def custom_layers(
        self, paths: Sequence[str], op_names: Collection[str]
    ) -> Sequence[CustomOpInfo]:
        found = []
        for name in op_names:
            for path in paths:
                file = os.path.join(path, f"{name}.layer") if os.path.isdir(path) else path
                if os.path.basename(file) == f"{name}.layer" and os.path.exists(file):
                    found.append(CustomOpInfo(name, file))
        return found

    def close(self) -> None:
        pass


class TestPluginFactory(CompilerPluginFactory):
    __test__ = False

    soc_manufacturer = "Test"
    soc_models = ("T1",)

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        return TestPlugin(compiler_options)


PLUGIN = TestPluginFactory()
