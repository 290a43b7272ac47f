"""Twin's plugin: writes a module of odd size for each op with an asset; refuses unknown `--twin_...` options."""

from __future__ import annotations

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
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Subgraph


class TwinPlugin(CompilerPlugin):
    """The plugin for one compilation."""

    def __init__(self, compiler_options: CompilerOptions) -> None:
        self._ops = {info.op_name for info in compiler_options.custom_op_infos}

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        for op in subgraph.ops:
            if op.name in self._ops:
                op_list.push(op, len(op_list.selected))

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        modules = [Blob(b"twin " + p.ops[0].name.encode()) for p in partitions]
        calls = [CallInfo(f"f{index}", index) for index in range(len(partitions))]
        return CompiledResult(modules, calls)

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        return ()

    def close(self) -> None:
        pass


class TwinPluginFactory(CompilerPluginFactory):
    """Twin's name and SoC models, and its plugin."""

    soc_manufacturer = "Twin"
    soc_models = ("T1",)

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        for name in compiler_options.vendor_options:
            raise LiteRtError(Status.INVALID_TOOL_CONFIG, f"no option '{name}'")
        return TwinPlugin(compiler_options)


PLUGIN = TwinPluginFactory()
