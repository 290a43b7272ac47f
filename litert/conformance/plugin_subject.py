"""The plugin that is checked: loaded when the first check asks for it, and the models that it is asked about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from compiler_plugin.dependencies import find_dependencies
from compiler_plugin.leftovers import find_results
from compiler_plugin.native.graph_slots import PushedOps
from compiler_plugin.native.plugin_library import (
    FUNCTIONS,
    GET_REFUSAL,
    IS_OUTPUT_DYNAMIC,
    OPTIONAL,
    open_plugin,
)
from compiler_plugin.outline import Partition, extract, make_partition, model_of
from compiler_plugin.partition import find_partitions
from litert.abi.definitions import ffi
from litert.conformance.checks import BrokenRuleError, UnseenError
from litert.conformance.plugin_host import PluginHost
from litert.conformance.vendor_calls import (
    CallTrace,
    VendorFunctions,
    VendorSubject,
    expect_ok,
    expect_status,
    expect_utf8,
    find_symbol,
)
from litert.core.status import Status
from litert.model.graph import Model, Subgraph


@dataclass(frozen=True, slots=True, eq=False)
class NamedModel:
    """A model to ask the plugin about; nobody changes it.

    Attributes:
      range: of its random float inputs.
    """

    name: str
    model: Model
    range: tuple[float, float] = (-1, 1)


def load_functions(path: str, trace: CallTrace) -> VendorFunctions:
    """Loads a plugin as the host does."""
    library = trace.call("dlopen", open_plugin, path)
    found = {name: find_symbol(library, name) for name in (*FUNCTIONS, *OPTIONAL)}
    return VendorFunctions(found, trace, library)


def text_of(pointer: Any, what: str, limit: int = 0) -> bytes:
    """Text that `what` gave, which must be UTF-8, of one to so many bytes; with a limit of 0 of any number."""
    if not pointer:
        raise BrokenRuleError(f"{what} gives NULL, where text belongs")
    data: bytes = ffi.string(pointer)
    expect_utf8(data, what)
    if limit and not 1 <= len(data) <= limit:
        raise BrokenRuleError(f"{what} gives {data!r:.80}, of {len(data)} bytes")
    return data


@dataclass(eq=False)
class PluginSubject(VendorSubject[VendorFunctions]):
    """A vendor's compiler plugin.

    Attributes:
      host: that it runs in.
      models: the first of which it takes something is the one that the contract is checked with.
      soc_model: to compile for; "" for the plugin's first.
    """

    host: PluginHost
    models: Sequence[NamedModel]
    soc_model: str = ""
    _taken: dict[NamedModel, list[Partition]] = field(default_factory=dict)

    @contextmanager
    def plugin(self, table: Any = None, *, options: bool = True) -> Iterator[Plugin]:
        """A plugin of its own, with another context than the host's or without options, if so wished."""
        made = ffi.new("LiteRtCompilerPlugin*")
        given = self.host.options if options else (ffi.NULL, ffi.NULL)
        self.vendor.succeed("LiteRtCreateCompilerPlugin", table or self.host.table, made, *given)
        if not made[0]:
            raise BrokenRuleError("LiteRtCreateCompilerPlugin answers OK, and makes no plugin")
        try:
            yield Plugin(self, made[0])
        finally:
            self.vendor.call_plain("LiteRtDestroyCompilerPlugin", made[0])

    def with_taps(self) -> PluginSubject:
        """The same plugin, asked to keep tensors' names in the byte code."""
        options = replace(self.host.compiler_options, taps=True)
        return replace(
            self, host=PluginHost(self.host.manufacturer, options), load=lambda: self.vendor
        )

    def each_model(self) -> Iterator[NamedModel]:
        """The models; the one in work is named where the plugin ends the process."""
        trace = self.vendor.trace
        try:
            for model in self.models:
                trace.set_model(model.name)
                yield model
        finally:
            trace.set_model("")

    def partitions(self, model: NamedModel) -> list[Partition]:
        """What becomes NPU calls of a model's main subgraph; asked once."""
        if model not in self._taken:
            with self.plugin() as plugin:
                self._taken[model] = plugin.plan(model)
        return self._taken[model]

    @property
    def taken(self) -> NamedModel:
        """The first model that the plugin takes something of; `UnseenError` where there is none."""
        for model in self.each_model():
            if self.partitions(model):
                return model
        first = self.models[0].name
        others = f" and {len(self.models) - 1} other models" if self.models[1:] else ""
        raise UnseenError(
            f"the plugin takes no op of {first}{others}: give it a model with --model"
        )

    @property
    def partition(self) -> Partition:
        """The first that the plugin makes of `taken`."""
        return self.partitions(self.taken)[0]

    @contextmanager
    def compiled(self, number: int = 1) -> Iterator[Result]:
        """What a plugin of its own makes of the first partition, so many times in one compilation."""
        partitions = [self.partition] * number
        with self.plugin() as plugin, plugin.compile(partitions) as result:
            yield result


@dataclass(slots=True, eq=False)
class Plugin:
    """A plugin that has been created."""

    subject: PluginSubject
    handle: Any

    @property
    def functions(self) -> VendorFunctions:
        """The plugin's functions."""
        return self.subject.vendor

    def soc_models(self) -> list[bytes]:
        """What it compiles for."""
        count = "LiteRtGetNumCompilerPluginSupportedSocModels"
        name = "LiteRtGetCompilerPluginSupportedSocModel"
        number = int(self.functions.answer(count, "LiteRtParamIndex", self.handle))
        return [
            text_of(self.functions.answer(name, "const char*", self.handle, index), name, 123)
            for index in range(number)
        ]

    def soc_model(self) -> Any:
        """The SoC model to compile for, as C has it."""
        chosen = self.subject.soc_model.encode() or next(iter(self.soc_models()), b"")
        return ffi.new("char[]", chosen) if chosen else ffi.NULL

    def partition(self, subgraph: Subgraph, soc_model: Any = None) -> dict[int, int]:
        """Partition indices by position, of the ops that it takes, each once."""
        soc = self.soc_model() if soc_model is None else soc_model
        pushed = PushedOps()
        with self.subject.host.call() as handle_of:
            handles = handle_of("LiteRtSubgraph", subgraph), handle_of("LiteRtOpList", pushed)
            self.functions.succeed("LiteRtCompilerPluginPartition", self.handle, soc, *handles)
        positions = {op: index for index, op in enumerate(subgraph.ops)}
        found: dict[int, int] = {}
        for op, partition_index in pushed.ops:
            if op not in positions:
                raise BrokenRuleError(f"it takes {op!r}, which is of another subgraph")
            if positions[op] in found:
                raise BrokenRuleError(f"it takes op {positions[op]} ({op.name}) twice")
            found[positions[op]] = partition_index
        return found

    def refusal(self, index: int) -> bytes:
        """Why an op of the subgraph that was partitioned last was not taken; b"" for no reason."""
        reason = ffi.new("const char**")
        status = self.functions.call(GET_REFUSAL, self.handle, index, reason)
        expect_status(f"{GET_REFUSAL} of op {index}", status, Status.OK, Status.NOT_FOUND)
        return b"" if status else text_of(reason[0], GET_REFUSAL)

    def plan(self, named: NamedModel, soc_model: Any = None) -> list[Partition]:
        """The partitions of a model's main subgraph."""
        subgraph = named.model.subgraphs[0]
        selected = self.partition(subgraph, soc_model)
        ops = {subgraph.ops[position] for position in selected}
        dependencies = find_dependencies(subgraph, ops, ())
        results = find_results(named.model, subgraph)
        return [
            make_partition(f"Partition_{index}", subgraph, positions, results)
            for index, positions in enumerate(find_partitions(dependencies, selected))
        ]

    def try_compile(self, partitions: Sequence[Subgraph], soc_model: Any = None) -> tuple[int, Any]:
        """The status of a compilation, and what its out argument points at, which was NULL."""
        soc = self.soc_model() if soc_model is None else soc_model
        made = ffi.new("LiteRtCompiledResult*")
        with self.subject.host.call() as handle_of:
            model = handle_of("LiteRtModel", model_of(*partitions))
            arguments = self.handle, soc, model, made
            return self.functions.call("LiteRtCompilerPluginCompile", *arguments), made[0]

    @contextmanager
    def compile(self, partitions: Sequence[Partition], soc_model: Any = None) -> Iterator[Result]:
        """As `compile_copies`, of copies of these partitions."""
        with self.compile_copies(extract(partitions), soc_model) as result:
            yield result

    @contextmanager
    def compile_copies(
        self, partitions: Sequence[Subgraph], soc_model: Any = None
    ) -> Iterator[Result]:
        """A compiled result, which is destroyed in the end; the plugin may change what it gets."""
        status, made = self.try_compile(partitions, soc_model)
        expect_ok("LiteRtCompilerPluginCompile", status, self.functions.error)
        if not made:
            raise BrokenRuleError("LiteRtCompilerPluginCompile answers OK, and makes no result")
        try:
            yield Result(self.functions, made)
        finally:
            self.functions.call_plain("LiteRtDestroyCompiledResult", made)


@dataclass(slots=True, eq=False)
class Result:
    """What a compilation gave."""

    functions: VendorFunctions
    handle: Any

    def num_modules(self) -> int:
        """How many byte code modules there are."""
        name = "LiteRtCompiledResultNumByteCodeModules"
        return int(self.functions.answer(name, "LiteRtParamIndex", self.handle))

    def modules(self) -> list[bytes]:
        """The bytes of each module, copied."""
        return [self.module(index) for index in range(self.num_modules())]

    def num_calls(self) -> int:
        """How many calls there are."""
        name = "LiteRtGetNumCompiledResultCalls"
        return int(self.functions.answer(name, "LiteRtParamIndex", self.handle))

    def module(self, index: int) -> bytes:
        """A module's bytes, copied."""
        return self._bytes("LiteRtGetCompiledResultByteCode", index, f"module {index} is empty")

    def call_info(self, index: int) -> tuple[bytes, int]:
        """The name and the module of a call."""
        module = ffi.new("LiteRtParamIndex*")
        name = "LiteRtGetCompiledResultCallInfo"
        return self._bytes(name, index, f"call {index} has no name", module), int(module[0])

    def is_dynamic(self, call: int, output: int) -> bool:
        """Whether only a run tells the shape of a call's output."""
        return bool(self.functions.answer(IS_OUTPUT_DYNAMIC, "bool", self.handle, call, output))

    def _bytes(self, function: str, index: int, nothing: str, *more: Any) -> bytes:
        """What a function gives the address and the size of; `nothing` is the finding where there are none."""
        address, size = ffi.new("const void**"), ffi.new("size_t*")
        self.functions.succeed(function, self.handle, index, address, size, *more)
        if not address[0] or not size[0]:
            raise BrokenRuleError(f"{nothing}: {size[0]} bytes at {address[0]}")
        return bytes(ffi.buffer(address[0], size[0]))
