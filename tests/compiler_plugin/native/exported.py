"""Drives an exported plugin as a host does, call by call; and plugins to export."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from compiler_plugin.native.export import export_plugin
from compiler_plugin.plugin import (
    CallInfo,
    Companion,
    CompiledResult,
    CompilerPlugin,
    CompilerPluginFactory,
    OpList,
)
from litert.abi.definitions import ffi
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.assets import Asset
from litert.model.blob import Blob
from litert.model.byte_code_container import unpack
from litert.model.graph import Subgraph
from tests.compiler_plugin.native.stock_host import StockHost, StockModel

NULL = ffi.NULL
OP_LIST = ffi.cast("LiteRtOpList", 16)


@dataclass(frozen=True, slots=True)
class Module:
    """A byte code module that came out."""

    byte_code: bytes
    assets: Sequence[Asset]


class Exported:
    """An exported plugin that has been created; a context manager that destroys it.

    Attributes:
      functions: by name.
      host: that it was created by.
      plugin: the handle.
    """

    def __init__(
        self,
        factory: CompilerPluginFactory,
        host: StockHost | None = None,
        options: Any = NULL,
    ) -> None:
        self.functions: Mapping[str, Any] = export_plugin(factory)
        self.host = host or StockHost()
        answer = ffi.new("LiteRtCompilerPlugin*")
        self.created = self.call("CreateCompilerPlugin", self.host.context, answer, NULL, options)
        self.plugin = answer[0]

    def __enter__(self) -> Exported:
        assert self.created == 0
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.call("DestroyCompilerPlugin", self.plugin)

    def call(self, name: str, *arguments: Any) -> int:
        """Calls a function; its name without `LiteRt`."""
        status = self.functions[f"LiteRt{name}"](*arguments)
        return int(status or 0)

    def partition(self, path: Path, soc_model: Any = NULL) -> tuple[int, list[tuple[int, int]]]:
        """Status, and what was pushed of the main subgraph: positions of ops, and partition indices."""
        model = StockModel(path)
        subgraph = model.subgraph(self.host)
        self.host.pushed.clear()
        status = self.call("CompilerPluginPartition", self.plugin, soc_model, subgraph, OP_LIST)
        op = ffi.new("LiteRtOp*")
        count = ffi.new("size_t*")
        self.host.context.get_num_subgraph_ops(subgraph, count)
        places: dict[int, int] = {}
        for index in range(count[0]):
            self.host.context.get_subgraph_op(subgraph, index, op)
            places[int(ffi.cast("uintptr_t", op[0]))] = index
        return status, [(places[op], index) for op, index in self.host.pushed]

    def compile(self, path: Path, soc_model: Any = NULL) -> tuple[int, Any]:
        """Status and result, with each subgraph of a file as a partition."""
        answer = ffi.new("LiteRtCompiledResult*")
        model = StockModel(path).handle
        status = self.call("CompilerPluginCompile", self.plugin, soc_model, model, answer)
        return status, answer[0]

    def modules(self, result: Any) -> list[Module]:
        """What a result's modules hold."""
        number, data, size = ffi.new("size_t*"), ffi.new("void**"), ffi.new("size_t*")
        assert self.call("CompiledResultNumByteCodeModules", result, number) == 0
        found: list[Module] = []
        for index in range(number[0]):
            assert self.call("GetCompiledResultByteCode", result, index, data, size) == 0
            byte_code, assets = unpack(Blob(bytes(ffi.buffer(data[0], size[0]))))
            found.append(Module(bytes(byte_code), assets))
        return found

    def calls(self, result: Any) -> list[tuple[str, int]]:
        """Names and modules of a result's calls."""
        number, name, size = ffi.new("size_t*"), ffi.new("void**"), ffi.new("size_t*")
        module = ffi.new("size_t*")
        assert self.call("GetNumCompiledResultCalls", result, number) == 0
        found: list[tuple[str, int]] = []
        for index in range(number[0]):
            assert self.call("GetCompiledResultCallInfo", result, index, name, size, module) == 0
            found.append((bytes(ffi.buffer(name[0], size[0])).decode(), int(module[0])))
        return found


@dataclass(eq=False)
class TakingPlugin(CompilerPlugin):
    """Takes ops of some names; its byte code says what it was compiled from.

    Attributes:
      names: of the ops.
      refuse: raises for partitions that it does not compile.
      shape_outputs: of each call.
      options: that it was created with.
      seen: what its functions were called with.
    """

    names: Sequence[str] = ("RELU",)
    refuse: Callable[[Sequence[Subgraph]], None] = lambda partitions: None
    shape_outputs: Sequence[int] = ()
    options: CompilerOptions = field(default_factory=CompilerOptions)
    seen: list[str] = field(default_factory=list)

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        self.seen.append(f"partition {soc_model}")
        for op in subgraph.ops:
            if op.name in self.names:
                op_list.push(op)
            else:
                op_list.refuse(op, f"no {op.name} here")

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        self.seen.append(f"compile {soc_model} {[p.name for p in partitions]}")
        self.refuse(partitions)
        text = ";".join(" ".join(op.name for op in p.ops) for p in partitions)
        calls = [CallInfo(p.name, shape_outputs=self.shape_outputs) for p in partitions]
        return CompiledResult([Blob(text.encode())], calls, ["a note of the compiler"])

    def custom_layers(
        self, paths: Sequence[str], op_names: Collection[str]
    ) -> Sequence[CustomOpInfo]:
        found = [CustomOpInfo(n, f"{p}/{n}.cl") for p in paths for n in sorted(op_names)]
        self.names = (*self.names, *(info.op_name for info in found))
        return found

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        return [Companion("part.h", Blob(b"companion of " + op_name.encode()))]

    def close(self) -> None:
        self.seen.append("close")


class TakingFactory(CompilerPluginFactory):
    """Makes one plugin again and again.

    Attributes:
      plugin: that it makes.
    """

    soc_manufacturer = "Taking"
    soc_models = ("T1", "T2")
    sdk_version = "1.2"

    def __init__(self, plugin: TakingPlugin | None = None) -> None:
        self.plugin = plugin or TakingPlugin()

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        self.plugin.seen.append("create")
        self.plugin.options = compiler_options
        return self.plugin


def refuse_together(partitions: Sequence[Subgraph]) -> None:
    """A vendor that compiles one partition at a time."""
    if len(partitions) > 1:
        raise LiteRtError(Status.UNSUPPORTED, "one at a time")
