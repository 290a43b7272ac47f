"""Loads a compiler plugin from a shared library into this process, and gives it the Python plugin interface."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cached_property
from typing import Any

from compiler_plugin.native.compiler_context import CompilerContext
from compiler_plugin.native.exported.options import PAYLOAD_IDENTIFIER, write_flags
from compiler_plugin.native.graph_slots import PushedOps
from compiler_plugin.native.patterns import Pattern, apply_patterns, read_patterns
from compiler_plugin.native.plugin_library import GET_REFUSAL, IS_OUTPUT_DYNAMIC, PluginLibrary
from compiler_plugin.outline import model_of
from compiler_plugin.plugin import (
    CallInfo,
    Companion,
    CompiledResult,
    CompilerPlugin,
    CompilerPluginFactory,
    Hardware,
    OpList,
)
from litert.abi.definitions import ffi
from litert.abi.options_table import options_table
from litert.abi.vendor_flags import vendor_payloads
from litert.core.compiler_options import PARTITION_STRATEGIES, CompilerOptions
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.version import ApiVersion
from litert.model.blob import Blob
from litert.model.graph import Model, Subgraph

_logger = logging.getLogger(__name__)

_COMPILER_OPTIONS = "compiler_options_string"  # stock's name for its own, beside the vendor's


class NativePlugin(CompilerPlugin):
    """A compiler plugin in C; the options and the context that are passed to it stay valid until it is closed."""

    grouping = "consecutive"

    def __init__(
        self,
        library: PluginLibrary,
        environment_options: EnvironmentOptions,
        compiler_options: CompilerOptions,
    ) -> None:
        """Creates the plugin by calling `LiteRtCreateCompilerPlugin`."""
        manufacturer = library.soc_manufacturer()
        payloads = option_payloads(manufacturer, compiler_options)
        self._library = library
        table = options_table()
        self._context = CompilerContext.take(manufacturer)
        options = table.put_options(payloads, compiler_options.custom_op_infos)
        self._option_handles: tuple[Any, ...] = (
            ffi.cast("LiteRtEnvironmentOptions", table.put_environment(environment_options)),
            ffi.cast("LiteRtOptions", options),
        )
        plugin = ffi.new("LiteRtCompilerPlugin*")
        create = "LiteRtCreateCompilerPlugin"
        try:
            library.call(create, self._context.table, plugin, *self._option_handles)
            if not plugin[0]:
                raise library.error(f"{create} returns NULL instead of a plugin")
        except LiteRtError:
            self._plugin = plugin[0]  # destroyed even after a failure, as in stock LiteRT
            self.close()
            raise
        self._plugin = plugin[0]

    def soc_models(self) -> tuple[str, ...]:
        """Returns the names of the plugin's SoC models; a name that the plugin fails to return is skipped."""
        function, name = "LiteRtGetCompilerPluginSupportedSocModel", ffi.new("const char**")
        models: list[str] = []
        for index in range(
            self._number("LiteRtGetNumCompilerPluginSupportedSocModels", self._plugin)
        ):
            if not self._library.call_plain(function, self._plugin, index, name):
                models.append(self._library.text(name[0], f"{function} returns"))
        return tuple(models)

    def supported_hardware(self) -> int:
        """Returns the kinds of hardware that the plugin supports, as bits of `Hardware`."""
        function = "LiteRtGetCompilerPluginSupportedHardware"
        hardware = self._library.answer(function, "LiteRtHwAccelerators", self._plugin)
        return int(ffi.cast("int", hardware))

    def sdk_version(self) -> str:
        """Returns the version of the vendor's compiler; "" if the plugin returns an error, as in stock LiteRT."""
        function = "LiteRtGetCompilerPluginSDKVersion"
        try:
            version = self._library.answer(function, "const char*", self._plugin)
        except LiteRtError as error:
            _logger.info("%s", error)
            return ""
        return self._library.text(version, f"{function} returns") if version else ""

    def check_compiler_compatibility(self, host_version: ApiVersion, soc_model: str) -> None:
        """Raises the plugin's error if the plugin does not support the host, the SoC model or the options."""
        self._library.call(
            "LiteRtCompilerPluginCheckCompilerCompatibility",
            tuple(host_version),
            self._plugin,
            *self._option_handles,
            soc_model.encode(),
        )

    def has_transformations(self) -> bool:
        return bool(self._patterns)

    def transform(self, model: Model) -> Mapping[str, int]:
        return apply_patterns(self._context, self._patterns, model, self._library.path)

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
            model = model_of(*partitions)
            for subgraph in partitions:
                for tensor in subgraph.tensors:
                    if not tensor.is_constant:
                        tensor.buffer = model.buffers[0]
            with self._context.showing(model) as handle:
                self._library.call(
                    "LiteRtCompilerPluginCompile",
                    self._plugin,
                    soc_model.encode(),
                    ffi.cast("LiteRtModel", handle),
                    result,
                )
            return self._read(result[0], partitions)
        finally:
            if result[0]:
                self._library.call_plain("LiteRtDestroyCompiledResult", result[0])

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        return ()  # the C interface has no function for companions

    def close(self) -> None:
        if self._plugin:
            plugin, self._plugin = self._plugin, ffi.NULL
            self._library.call_plain("LiteRtDestroyCompilerPlugin", plugin)
        if self._option_handles:
            environment, options = self._option_handles
            options_table().drop_options(options)
            options_table().drop_environment(environment)
            self._context.close()
            self._option_handles = ()

    def _read_refusals(self, subgraph: Subgraph, op_list: OpList) -> None:
        taken = {selection.op for selection in op_list.selected}
        reason = ffi.new("const char**")
        for index, op in enumerate(subgraph.ops):
            if op in taken:
                continue
            status = self._library.call_plain(GET_REFUSAL, self._plugin, index, reason)
            if not status and reason[0]:
                op_list.refuse(op, ffi.string(reason[0]).decode("utf-8", "replace"))

    @cached_property
    def _patterns(self) -> Sequence[Pattern]:
        return read_patterns(self._library, self._plugin)

    def _read(self, result: Any, partitions: Sequence[Subgraph]) -> CompiledResult:
        """Copies byte code and calls of a result."""
        if not result:
            raise self._library.error(
                "LiteRtCompilerPluginCompile returns NULL instead of a result",
                Status.INVALID_ARGUMENT,
            )
        library = self._library
        data, size = ffi.new("const void**"), ffi.new("size_t*")
        modules: list[Blob] = []
        for index in range(self._number("LiteRtCompiledResultNumByteCodeModules", result)):
            library.call("LiteRtGetCompiledResultByteCode", result, index, data, size)
            modules.append(Blob(self._bytes(data[0], size[0], f"byte code module {index} has")))
        calls: list[CallInfo] = []
        module = ffi.new("LiteRtParamIndex*")
        for index in range(self._number("LiteRtGetNumCompiledResultCalls", result)):
            library.call("LiteRtGetCompiledResultCallInfo", result, index, data, size, module)
            name = self._bytes(data[0], size[0], f"the name of NPU call {index} has")
            dynamic = self._dynamic_outputs(result, index, partitions[index : index + 1])
            text = name.decode("utf-8", "surrogateescape")
            calls.append(CallInfo(text, int(module[0]), dynamic))
        return CompiledResult(modules, calls)

    def _dynamic_outputs(
        self, result: Any, call: int, partitions: Sequence[Subgraph]
    ) -> Sequence[int]:
        """Returns the outputs of a call whose shapes are known only at run time."""
        if not self._library.has(IS_OUTPUT_DYNAMIC):
            return ()
        outputs = range(sum(len(partition.outputs) for partition in partitions))
        answer = self._library.answer
        return [i for i in outputs if answer(IS_OUTPUT_DYNAMIC, "bool", result, call, i)]

    def _number(self, function: str, handle: Any) -> int:
        return int(self._library.answer(function, "LiteRtParamIndex", handle))

    def _bytes(self, pointer: Any, size: int, what: str) -> bytes:
        if size and not pointer:
            raise self._library.error(
                f"{what} {size} bytes, but the pointer to the bytes is NULL",
                Status.INVALID_ARGUMENT,
            )
        return bytes(ffi.buffer(pointer, size)) if size else b""


class NativePluginFactory(CompilerPluginFactory):
    """Describes the vendor of a plugin library, and creates the plugin.

    The constructor creates a plugin without options, and reads the SoC models, hardware and version from that
    plugin.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._library = PluginLibrary(path)
        self.api_version = self._library.version()
        self.soc_manufacturer = self._library.soc_manufacturer()
        with closing(self.create(EnvironmentOptions(), CompilerOptions())) as plugin:
            self.soc_models = plugin.soc_models()
            self.supported_hardware = Hardware(plugin.supported_hardware())
            self.sdk_version = plugin.sdk_version()

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> NativePlugin:
        return NativePlugin(self._library, environment_options, compiler_options)

    def check_compiler_compatibility(
        self, host_version: ApiVersion, soc_model: str, compiler_options: CompilerOptions
    ) -> None:
        with closing(self.create(EnvironmentOptions(), compiler_options)) as plugin:
            plugin.check_compiler_compatibility(host_version, soc_model)


def option_payloads(manufacturer: str, options: CompilerOptions) -> Mapping[str, bytes]:
    """Returns opaque options for a plugin in C, by identifier; assets are passed separately."""
    payloads = dict(vendor_payloads(manufacturer, options.vendor_options))
    strategy = PARTITION_STRATEGIES.index(options.partition_strategy)
    payloads[_COMPILER_OPTIONS] = (
        f"partition_strategy = {strategy}\nmax_partitions = {options.max_partitions}\n".encode()
    )
    if flags := write_flags(options):
        payloads[PAYLOAD_IDENTIFIER] = flags
    return payloads
