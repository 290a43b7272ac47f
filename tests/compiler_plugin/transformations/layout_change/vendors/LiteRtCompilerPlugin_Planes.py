"""The compiler plugin of Planes, a vendor whose NPU works in NCHW. Byte code is the partition, as a TFLite file.

Vendor options:

planes_layout=NHWC   the layout that the plugin requests instead of NCHW
planes_ops=A,B       the ops that the plugin selects; by default all builtin ops
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler_plugin.outline import model_of
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
from litert.model.writer import to_bytes


class PlanesPlugin(CompilerPlugin):
    def __init__(self, options: CompilerOptions) -> None:
        layout: Any = options.vendor_options.get("planes_layout", "NCHW")
        self.data_layout = layout
        self.ops = options.vendor_options.get("planes_ops", "").split(",")

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        for op in subgraph.ops:
            if op.name in self.ops or (self.ops == [""] and not op.is_custom):
                op_list.push(op)

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        names = [partition.name for partition in partitions]
        modules = [Blob(to_bytes(model_of(partition))) for partition in partitions]
        return CompiledResult(modules, [CallInfo(name, i) for i, name in enumerate(names)])

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        return []

    def close(self) -> None:
        pass


class PlanesFactory(CompilerPluginFactory):
    soc_manufacturer = "Planes"
    soc_models = ("P1",)

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        return PlanesPlugin(compiler_options)


PLUGIN = PlanesFactory()
