"""The plugin under check, and the models for the checks; the plugin is loaded when a check first needs it."""

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
    """A model for the checks; no check changes the model.

    Attributes:
      range: Lowest and highest value of the model's random float inputs.
    """

    name: str
    model: Model
    range: tuple[float, float] = (-1, 1)


def load_functions(path: str, trace: CallTrace) -> VendorFunctions:
    """Loads the shared library of a plugin as the host does."""
    library = trace.call("dlopen", open_plugin, path)
    found = {name: find_symbol(library, name) for name in (*FUNCTIONS, *OPTIONAL)}
    return VendorFunctions(found, trace, library)


def text_of(pointer: Any, what: str, limit: int = 0) -> bytes:
    """Decodes a text that `what` returned; raises unless the text is UTF-8 of 1 to `limit` bytes (0: no limit)."""
    if not pointer:
        raise BrokenRuleError(f"{what} returns NULL instead of a text")
    data: bytes = ffi.string(pointer)
    expect_utf8(data, what)
    if limit and not 1 <= len(data) <= limit:
        raise BrokenRuleError(f"{what} gives {data!r:.80}, of {len(data)} bytes")
    return data


@dataclass(eq=False)
class PluginSubject(VendorSubject[VendorFunctions]):
    """A vendor's compiler plugin under check, with the models and options for the checks.

    Attributes:
      host: The host that calls the plugin.
      models: Models for the checks; most checks use the first model of which the plugin takes an op.
      soc_model: Name of the SoC model for which the checks compile; "" for the plugin's first SoC model.
    """

    host: PluginHost
    models: Sequence[NamedModel]
    soc_model: str = ""
    _taken: dict[NamedModel, list[Partition]] = field(default_factory=dict)

    @contextmanager
    def plugin(self, table: Any = None, *, options: bool = True) -> Iterator[Plugin]:
        """Creates a plugin object, optionally with another compiler context or without options."""
        made = ffi.new("LiteRtCompilerPlugin*")
        given = self.host.options if options else (ffi.NULL, ffi.NULL)
        self.vendor.succeed("LiteRtCreateCompilerPlugin", table or self.host.table, made, *given)
        if not made[0]:
            raise BrokenRuleError("LiteRtCreateCompilerPlugin returns OK, but no plugin")
        try:
            yield Plugin(self, made[0])
        finally:
            self.vendor.call_plain("LiteRtDestroyCompilerPlugin", made[0])

    def with_taps(self) -> PluginSubject:
        """The same plugin with the option `taps`, by which byte code keeps the names of tensors."""
        options = replace(self.host.compiler_options, taps=True)
        return replace(
            self, host=PluginHost(self.host.manufacturer, options), load=lambda: self.vendor
        )

    def each_model(self) -> Iterator[NamedModel]:
        """Iterates over the models; writes the current model's name to the trace, in case of a crash."""
        trace = self.vendor.trace
        try:
            for model in self.models:
                trace.set_model(model.name)
                yield model
        finally:
            trace.set_model("")

    def partitions(self, model: NamedModel) -> list[Partition]:
        """Returns the partitions of a model's main subgraph that become NPU calls; caches the result."""
        if model not in self._taken:
            with self.plugin() as plugin:
                self._taken[model] = plugin.plan(model)
        return self._taken[model]

    @property
    def taken(self) -> NamedModel:
        """Returns the first model of which the plugin takes an op; raises `UnseenError` if none exists."""
        for model in self.each_model():
            if self.partitions(model):
                return model
        first = self.models[0].name
        others = f" and {len(self.models) - 1} other models" if self.models[1:] else ""
        raise UnseenError(f"the plugin takes no op of {first}{others}: give a model with --model")

    @property
    def partition(self) -> Partition:
        """The first partition of the model that `taken` returns."""
        return self.partitions(self.taken)[0]

    @contextmanager
    def compiled(self, number: int = 1) -> Iterator[Result]:
        """Compiles `number` copies of the first partition in one compilation, with a new plugin object."""
        partitions = [self.partition] * number
        with self.plugin() as plugin, plugin.compile(partitions) as result:
            yield result


@dataclass(slots=True, eq=False)
class Plugin:
    """A plugin object of a compiler plugin."""

    subject: PluginSubject
    handle: Any

    @property
    def functions(self) -> VendorFunctions:
        """The functions that the plugin exports."""
        return self.subject.vendor

    def soc_models(self) -> list[bytes]:
        """Returns the names of all SoC models that the plugin supports."""
        count = "LiteRtGetNumCompilerPluginSupportedSocModels"
        name = "LiteRtGetCompilerPluginSupportedSocModel"
        number = int(self.functions.answer(count, "LiteRtParamIndex", self.handle))
        return [
            text_of(self.functions.answer(name, "const char*", self.handle, index), name, 123)
            for index in range(number)
        ]

    def soc_model(self) -> Any:
        """Returns the SoC model for which the checks compile, as a C string; NULL if there is none."""
        chosen = self.subject.soc_model.encode() or next(iter(self.soc_models()), b"")
        return ffi.new("char[]", chosen) if chosen else ffi.NULL

    def partition(self, subgraph: Subgraph, soc_model: Any = None) -> dict[int, int]:
        """Partitions a subgraph; the result maps the position of each taken op to its partition's index."""
        soc = self.soc_model() if soc_model is None else soc_model
        pushed = PushedOps()
        with self.subject.host.call() as handle_of:
            handles = handle_of("LiteRtSubgraph", subgraph), handle_of("LiteRtOpList", pushed)
            self.functions.succeed("LiteRtCompilerPluginPartition", self.handle, soc, *handles)
        positions = {op: index for index, op in enumerate(subgraph.ops)}
        found: dict[int, int] = {}
        for op, partition_index in pushed.ops:
            if op not in positions:
                raise BrokenRuleError(f"the plugin takes {op!r}, which belongs to another subgraph")
            if positions[op] in found:
                raise BrokenRuleError(f"the plugin takes op {positions[op]} ({op.name}) twice")
            found[positions[op]] = partition_index
        return found

    def refusal(self, index: int) -> bytes:
        """Returns the plugin's reason for not taking an op in the last partitioning; b"" for no reason."""
        reason = ffi.new("const char**")
        status = self.functions.call(GET_REFUSAL, self.handle, index, reason)
        expect_status(f"{GET_REFUSAL} of op {index}", status, Status.OK, Status.NOT_FOUND)
        return b"" if status else text_of(reason[0], GET_REFUSAL)

    def plan(self, named: NamedModel, soc_model: Any = None) -> list[Partition]:
        """Partitions a model's main subgraph, and returns the partitions."""
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
        """Compiles partitions; returns the status, and the out argument, which is NULL before the call."""
        soc = self.soc_model() if soc_model is None else soc_model
        made = ffi.new("LiteRtCompiledResult*")
        with self.subject.host.call() as handle_of:
            model = handle_of("LiteRtModel", model_of(*partitions))
            arguments = self.handle, soc, model, made
            return self.functions.call("LiteRtCompilerPluginCompile", *arguments), made[0]

    @contextmanager
    def compile(self, partitions: Sequence[Partition], soc_model: Any = None) -> Iterator[Result]:
        """Copies partitions and compiles the copies; see `compile_copies`."""
        with self.compile_copies(extract(partitions), soc_model) as result:
            yield result

    @contextmanager
    def compile_copies(
        self, partitions: Sequence[Subgraph], soc_model: Any = None
    ) -> Iterator[Result]:
        """Compiles partitions, which the plugin may change; destroys the result at the end of the `with` block."""
        status, made = self.try_compile(partitions, soc_model)
        expect_ok("LiteRtCompilerPluginCompile", status, self.functions.error)
        if not made:
            raise BrokenRuleError("LiteRtCompilerPluginCompile returns OK, but no result")
        try:
            yield Result(self.functions, made)
        finally:
            self.functions.call_plain("LiteRtDestroyCompiledResult", made)


@dataclass(slots=True, eq=False)
class Result:
    """The result of a compilation."""

    functions: VendorFunctions
    handle: Any

    def num_modules(self) -> int:
        """Returns the number of byte code modules."""
        name = "LiteRtCompiledResultNumByteCodeModules"
        return int(self.functions.answer(name, "LiteRtParamIndex", self.handle))

    def modules(self) -> list[bytes]:
        """Returns copies of all byte code modules."""
        return [self.module(index) for index in range(self.num_modules())]

    def num_calls(self) -> int:
        """Returns the number of NPU calls."""
        name = "LiteRtGetNumCompiledResultCalls"
        return int(self.functions.answer(name, "LiteRtParamIndex", self.handle))

    def module(self, index: int) -> bytes:
        """Returns a copy of the bytes of a byte code module."""
        return self._bytes("LiteRtGetCompiledResultByteCode", index, f"module {index} is empty")

    def call_info(self, index: int) -> tuple[bytes, int]:
        """Returns an NPU call's function name and the index of its byte code module."""
        module = ffi.new("LiteRtParamIndex*")
        name = "LiteRtGetCompiledResultCallInfo"
        return self._bytes(name, index, f"call {index} has no name", module), int(module[0])

    def is_dynamic(self, call: int, output: int) -> bool:
        """Returns whether the shape of an NPU call's output is known only at run time."""
        return bool(self.functions.answer(IS_OUTPUT_DYNAMIC, "bool", self.handle, call, output))

    def _bytes(self, function: str, index: int, nothing: str, *more: Any) -> bytes:
        """Copies bytes whose address and size a function returns; raises with `nothing` if there are none."""
        address, size = ffi.new("const void**"), ffi.new("size_t*")
        self.functions.succeed(function, self.handle, index, address, size, *more)
        if not address[0] or not size[0]:
            raise BrokenRuleError(f"{nothing}: {size[0]} bytes at {address[0]}")
        return bytes(ffi.buffer(address[0], size[0]))
