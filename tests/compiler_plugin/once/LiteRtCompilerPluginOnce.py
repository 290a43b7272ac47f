"""Once: a vendor that writes a buffer's data once, however many tensors share the buffer.

Its byte code is a line of JSON, which lists the buffer numbers of each partition's float constants, followed by
the data of all these buffers.

once_layout=NCHW   the data layout that the vendor requires
once_refuse=A      refuses partitions that contain an op A
once_most=N        fails with more than N partitions, unless it refuses one
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from compiler_plugin.plugin import (
    CallInfo,
    Companion,
    CompiledResult,
    CompilerPlugin,
    CompilerPluginFactory,
    OpList,
)
from litert.core.compiler_options import CompilerOptions
from litert.core.element_type import ElementType
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Buffer, Subgraph


class OncePlugin(CompilerPlugin):
    def __init__(self, options: dict[str, Any]) -> None:
        self.data_layout = options.get("once_layout", "NHWC")
        self._refused = options.get("once_refuse")
        self._most = int(options.get("once_most", 9))

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        for index, op in enumerate(subgraph.ops):
            op_list.push(op, index)

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        numbers: dict[Buffer, int] = {}
        constants: dict[str, list[int]] = {}
        for partition in partitions:
            if any(op.name == self._refused for op in partition.ops):
                raise LiteRtError(Status.UNSUPPORTED, f"no {self._refused}", partition.name)
            read = [tensor for op in partition.ops for tensor in op.inputs if tensor is not None]
            constants[partition.name] = [
                numbers.setdefault(tensor.buffer, len(numbers))
                for tensor in read
                if tensor.is_constant and tensor.element_type is ElementType.FLOAT32
            ]
        if len(partitions) > self._most:
            raise LiteRtError(Status.MEMORY_ALLOCATION_FAILURE, "no memory for so many")
        data = [bytes(buffer.blob) for buffer in numbers if buffer.blob is not None]
        module = json.dumps(constants).encode() + b"\n" + b"".join(data)
        return CompiledResult([Blob(module)], [CallInfo(name) for name in constants])

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        return []

    def close(self) -> None:
        pass


class OnceFactory(CompilerPluginFactory):
    soc_manufacturer = "Once"
    soc_models = ("O1",)

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        return OncePlugin(dict(compiler_options.vendor_options))


PLUGIN = OnceFactory()
