"""Calls the C functions of an exported plugin one by one, as a host does; defines plugins to export."""

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
    """A byte code module of a compiled result."""

    byte_code: bytes
    assets: Sequence[Asset]


class Exported:
    """An exported plugin that its constructor creates; as a context manager, it destroys the plugin.

    Attributes:
      functions: the exported C functions by name.
      host: the host that created the plugin.
      plugin: the plugin's handle.
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
        """Calls the function `LiteRt<name>`; returns its status."""
        status = self.functions[f"LiteRt{name}"](*arguments)
        return int(status or 0)

    def partition(self, path: Path, soc_model: Any = NULL) -> tuple[int, list[tuple[int, int]]]:
        """Returns the status and, for each pushed op of the main subgraph, its position and partition index."""
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
        """Compiles a file with each subgraph as a partition; returns the status and the result."""
        answer = ffi.new("LiteRtCompiledResult*")
        model = StockModel(path).handle
        status = self.call("CompilerPluginCompile", self.plugin, soc_model, model, answer)
        return status, answer[0]

    def modules(self, result: Any) -> list[Module]:
        """Returns the byte code and assets of the result's modules."""
        number, data, size = ffi.new("size_t*"), ffi.new("void**"), ffi.new("size_t*")
        assert self.call("CompiledResultNumByteCodeModules", result, number) == 0
        found: list[Module] = []
        for index in range(number[0]):
            assert self.call("GetCompiledResultByteCode", result, index, data, size) == 0
            byte_code, assets = unpack(Blob(bytes(ffi.buffer(data[0], size[0]))))
            found.append(Module(bytes(byte_code), assets))
        return found

    def calls(self, result: Any) -> list[tuple[str, int]]:
        """Returns the function name and module index of each of the result's calls."""
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
    """A plugin that takes ops with some names; its byte code lists the ops that it was compiled from.

    Attributes:
      names: names of the ops that it takes.
      refuse: a function that raises for partitions that the plugin does not compile.
      shape_outputs: the shape outputs of each call.
      options: the options that it was created with.
      seen: the calls of its functions, with arguments.
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
    """A factory that returns the same plugin each time.

    Attributes:
      plugin: the plugin that it returns.
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
    """Raises for more than one partition, as a vendor that compiles one at a time."""
    if len(partitions) > 1:
        raise LiteRtError(Status.UNSUPPORTED, "one at a time")
