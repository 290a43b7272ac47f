"""Null's compiler plugin: takes custom ops for which the user gives assets that are not kernels."""

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
from litert_npu_null.byte_code import write_byte_code

_KERNELS = (".bin", ".cl", ".json", ".so", ".xml")


class NullPlugin(CompilerPlugin):
    """Takes custom ops by name."""

    def __init__(self, compiler_options: CompilerOptions) -> None:
        infos = compiler_options.custom_op_infos
        self._ops = {info.op_name for info in infos if _is_read(info.asset_path)}

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        for op in subgraph.ops:
            if op.code.custom_code not in self._ops:
                continue
            if op.inputs and op.inputs[0] and op.inputs[0].type == op.outputs[0].type:
                op_list.push(op, partition_index=len(op_list.selected))  # one call for each op
            else:
                op_list.refuse(op, "input 0 and output 0 differ in type")

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        names = [f"copy_{index}" for index in range(len(partitions))]
        return CompiledResult([Blob(write_byte_code(names))], [CallInfo(name) for name in names])

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        return ()

    def custom_layers(
        self, paths: Sequence[str], op_names: Collection[str]
    ) -> Sequence[CustomOpInfo]:
        """Returns Null's custom layers, which are files in the folders that are named like their ops."""
        found: dict[str, CustomOpInfo] = {}
        for folder in paths:
            for file_name in sorted(os.listdir(folder)):
                op_name = os.path.splitext(file_name)[0]
                if op_name in op_names and _is_read(file_name):
                    found.setdefault(
                        op_name, CustomOpInfo(op_name, os.path.join(folder, file_name))
                    )
        self._ops |= found.keys()
        return list(found.values())

    def close(self) -> None:
        pass


def _is_read(path: str) -> bool:
    """Returns whether an asset is for Null. Kernels are for other vendors, also if the user names no vendor."""
    return os.path.splitext(path)[1] not in _KERNELS


class NullPluginFactory(CompilerPluginFactory):
    """Describes Null."""

    soc_manufacturer = "Null"
    soc_models = ("NULL1",)
    sdk_version = "0.1.0"

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        return NullPlugin(compiler_options)


PLUGIN = NullPluginFactory()
