"""A created plugin of a shared library, as the host uses any plugin."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from compiler_plugin.native.compiler_context import CompilerContext
from compiler_plugin.native.exported.options import PAYLOAD_IDENTIFIER, write_flags
from compiler_plugin.native.graph_slots import PushedOps
from compiler_plugin.native.patterns import Pattern, apply_patterns, read_patterns
from compiler_plugin.native.plugin_library import GET_REFUSAL, PluginLibrary
from compiler_plugin.plugin import CallInfo, Companion, CompiledResult, CompilerPlugin, OpList
from litert.abi.definitions import ffi
from litert.abi.options_table import options_table
from litert.abi.symbol_library import load_symbols
from litert.abi.vendor_flags import vendor_payloads
from litert.core.compiler_options import PARTITION_STRATEGIES, CompilerOptions
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.version import ApiVersion
from litert.model.blob import Blob
from litert.model.graph import Buffer, Model, Subgraph

_logger = logging.getLogger(__name__)

_COMPILER_OPTIONS = "compiler_options_string"  # stock's name for its own, beside the vendor's


class NativePlugin(CompilerPlugin):
    """A plugin in C; it keeps its options and its context until it is closed."""

    grouping = "consecutive"

    def __init__(
        self,
        library: PluginLibrary,
        environment_options: EnvironmentOptions,
        compiler_options: CompilerOptions,
    ) -> None:
        """Creates the plugin.

        Raises:
          LiteRtError: the plugin's status; DYNAMIC_LOADING, where it gives nothing.
        """
        manufacturer = library.soc_manufacturer()
        payloads = option_payloads(manufacturer, compiler_options)
        self._library = library
        self._symbols = load_symbols()
        table = options_table()
        self._context = CompilerContext.take(manufacturer)
        self._options = table.put_options(payloads, compiler_options.custom_op_infos)
        self._environment = table.put_environment(environment_options)
        self._plugin: Any = ffi.NULL
        self._patterns: Sequence[Pattern] | None = None
        plugin = ffi.new("LiteRtCompilerPlugin*")
        try:
            library.call(
                "LiteRtCreateCompilerPlugin", self._context.table, plugin, *self._option_handles()
            )
            if not plugin[0]:
                raise LiteRtError(
                    Status.DYNAMIC_LOADING,
                    "LiteRtCreateCompilerPlugin gives no plugin",
                    library.path,
                    "This is the vendor's to repair.",
                )
            self._plugin = plugin[0]
        except LiteRtError:
            self._plugin = plugin[0]  # is destroyed although it failed, as in stock
            self.close()
            raise

    def soc_models(self) -> tuple[str, ...]:
        """What it compiles for; entries that it refuses to name are left out, as in stock."""
        function, name = "LiteRtGetCompilerPluginSupportedSocModel", ffi.new("const char**")
        models: list[str] = []
        for index in range(
            self._number("LiteRtGetNumCompilerPluginSupportedSocModels", self._plugin)
        ):
            if not self._library.call_plain(function, self._plugin, index, name):
                models.append(self._library.text(name[0], f"{function} gives"))
        return tuple(models)

    def supported_hardware(self) -> int:
        """Bits of `Hardware`."""
        function = "LiteRtGetCompilerPluginSupportedHardware"
        hardware = self._library.answer(function, "LiteRtHwAccelerators", self._plugin)
        return int(ffi.cast("int", hardware))

    def sdk_version(self) -> str:
        """Of the vendor's compiler; "" where it does not say, which is no reason to do without it: as in stock."""
        function = "LiteRtGetCompilerPluginSDKVersion"
        try:
            version = self._library.answer(function, "const char*", self._plugin)
        except LiteRtError as error:
            _logger.info("%s", error)
            return ""
        return self._library.text(version, f"{function} gives") if version else ""

    def check_compiler_compatibility(self, host_version: ApiVersion, soc_model: str) -> None:
        """Asks whether it can serve this host; raises if not."""
        self._library.call(
            "LiteRtCompilerPluginCheckCompilerCompatibility",
            tuple(host_version),
            self._plugin,
            *self._option_handles(),
            soc_model.encode(),
        )

    def has_transformations(self) -> bool:
        return bool(self._read_patterns())

    def transform(self, model: Model) -> Mapping[str, int]:
        """Runs the plugin's own transformations over a model, before it is partitioned.

        Returns:
          How often each has matched, by name.
        """
        return apply_patterns(self._context, self._read_patterns(), model, self._library.path)

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        pushed = PushedOps()
        with self._context.showing(subgraph) as handle:
            self._library.call(
                "LiteRtCompilerPluginPartition",
                self._plugin,
                soc_model.encode(),
                ffi.cast("LiteRtSubgraph", handle),
                ffi.cast("LiteRtOpList", self._context.handles.of(pushed)),
            )
        for op, partition_index in pushed.ops:
            op_list.push(op, partition_index)
        if self._library.has(GET_REFUSAL):
            self._read_refusals(subgraph, op_list)

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        result = ffi.new("LiteRtCompiledResult*")
        try:
            with self._context.showing(_model_of(partitions)) as handle:
                self._library.call(
                    "LiteRtCompilerPluginCompile",
                    self._plugin,
                    soc_model.encode(),
                    ffi.cast("LiteRtModel", handle),
                    result,
                )
            return self._read(result[0])
        finally:
            if result[0]:
                self._library.call_plain("LiteRtDestroyCompiledResult", result[0])

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        return ()  # C has no function for it

    def custom_layers(self, paths: Sequence[str], op_names: Collection[str]) -> Sequence[Any]:
        return super().custom_layers(paths, op_names)

    def close(self) -> None:
        if self._plugin:
            plugin, self._plugin = self._plugin, ffi.NULL
            self._library.call_plain("LiteRtDestroyCompilerPlugin", plugin)
        if self._options:
            options_table().drop_options(self._options)
            options_table().drop_environment(self._environment)
            self._context.close()
            self._options = 0

    def _read_refusals(self, subgraph: Subgraph, op_list: OpList) -> None:
        taken = {selection.op for selection in op_list.selected}
        reason = ffi.new("const char**")
        for index, op in enumerate(subgraph.ops):
            if op in taken:
                continue
            status = self._library.call_plain(GET_REFUSAL, self._plugin, index, reason)
            if not status and reason[0]:
                op_list.refuse(op, ffi.string(reason[0]).decode("utf-8", "replace"))

    def _read_patterns(self) -> Sequence[Pattern]:
        """The plugin's transformations, which it is asked for once."""
        if self._patterns is None:
            self._patterns = read_patterns(self._library, self._plugin)
        return self._patterns

    def _option_handles(self) -> tuple[Any, Any]:
        return (
            ffi.cast("LiteRtEnvironmentOptions", self._environment),
            ffi.cast("LiteRtOptions", self._options),
        )

    def _read(self, result: Any) -> CompiledResult:
        """Copies byte code and calls of a result."""
        if not result:
            raise self._nonsense("LiteRtCompilerPluginCompile gives no result")
        library = self._library
        data, size = ffi.new("const void**"), ffi.new("size_t*")
        modules: list[Blob] = []
        for index in range(self._number("LiteRtCompiledResultNumByteCodeModules", result)):
            library.call("LiteRtGetCompiledResultByteCode", result, index, data, size)
            if size[0] and not data[0]:
                raise self._nonsense(f"byte code module {index} has {size[0]} bytes at NULL")
            modules.append(Blob(bytes(ffi.buffer(data[0], size[0])) if size[0] else b""))
        calls: list[CallInfo] = []
        module = ffi.new("LiteRtParamIndex*")
        for index in range(self._number("LiteRtGetNumCompiledResultCalls", result)):
            library.call("LiteRtGetCompiledResultCallInfo", result, index, data, size, module)
            if size[0] and not data[0]:
                raise self._nonsense(f"call {index} has a name of {size[0]} bytes at NULL")
            name = bytes(ffi.buffer(data[0], size[0])) if size[0] else b""
            calls.append(CallInfo(name.decode("utf-8", "surrogateescape"), int(module[0])))
        return CompiledResult(modules, calls)

    def _number(self, function: str, handle: Any) -> int:
        return int(self._library.answer(function, "LiteRtParamIndex", handle))

    def _nonsense(self, what: str) -> LiteRtError:
        hint = "This is the vendor's to repair."
        return LiteRtError(Status.INVALID_ARGUMENT, what, self._library.path, hint)


def option_payloads(manufacturer: str, options: CompilerOptions) -> Mapping[str, bytes]:
    """What a plugin in C finds of its options, by the names of the opaque options; assets are told otherwise.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, for a value that no payload can hold.
    """
    payloads = dict(vendor_payloads(manufacturer, options.vendor_options))
    strategy = PARTITION_STRATEGIES.index(options.partition_strategy)
    payloads[_COMPILER_OPTIONS] = (
        f"partition_strategy = {strategy}\nmax_partitions = {options.max_partitions}\n".encode()
    )
    if flags := write_flags(options):
        payloads[PAYLOAD_IDENTIFIER] = flags
    return payloads


def _model_of(partitions: Sequence[Subgraph]) -> Model:
    """A model whose subgraphs are partitions."""
    codes = dict.fromkeys(op.code for subgraph in partitions for op in subgraph.ops)
    buffers = dict.fromkeys(
        tensor.buffer
        for subgraph in partitions
        for tensor in subgraph.tensors
        if tensor.is_constant
    )
    empty = Buffer()
    for subgraph in partitions:
        for tensor in subgraph.tensors:
            if not tensor.is_constant:
                tensor.buffer = empty
    return Model(list(partitions), operator_codes=list(codes), buffers=[empty, *buffers])
