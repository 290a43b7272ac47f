"""Exports a Python plugin as the C functions that a host looks up in a compiler plugin's library.

The C functions exist only in this process; an exported plugin library forwards each call to them. The
header `litert_npu/compiler_plugin.h` describes the contract of these functions. Errors become status codes, and
error messages go to the log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from compiler_plugin.native.exported import constant_inputs
from compiler_plugin.native.exported.constant_inputs import dequantize_for
from compiler_plugin.native.exported.exported_plugin import ExportedPlugin
from compiler_plugin.native.exported.host_context import (
    HostContext,
    find_custom_op_infos,
    read_environment,
    read_flags,
)
from compiler_plugin.native.exported.options import read_options
from compiler_plugin.native.graph_slots import item
from compiler_plugin.plugin import CompiledResult, CompilerPluginFactory
from compiler_plugin.registry import RegisteredPlugin, check_factory
from litert.abi.definitions import ffi
from litert.abi.handles import Handles
from litert.abi.headers import read_prototypes
from litert.abi.tables import make_callback
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.version import ApiVersion

_WORD_BEGINS = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MANUFACTURER = "LiteRtGetCompilerPluginSocManufacturer"
_callbacks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""Callbacks that the exported functions call; a callback must live as long as its function."""

_logger = logging.getLogger(__name__)


def export_plugin(factory: CompilerPluginFactory, origin: str = "") -> Mapping[str, Any]:
    """Returns the C functions of a plugin, by name; the caller must keep the result while it uses the functions.

    `origin` says in error messages where the plugin was found.

    Raises:
      LiteRtError: DYNAMIC_LOADING, WRONG_VERSION or UNSUPPORTED, if the plugin cannot be used.
    """
    library = _Library(check_factory(factory, origin))
    functions: dict[str, Any] = {}
    for name, function_type in read_prototypes("compiler_plugin.h").items():
        if name == _MANUFACTURER:
            functions[name] = ffi.callback(
                function_type, library.get_compiler_plugin_soc_manufacturer
            )
        else:
            called = f"{factory.soc_manufacturer}, {name}"  # for the log
            callback = make_callback(
                ffi.typeof(function_type), getattr(library, _method(name)), called, _logger
            )
            functions[name] = ffi.cast(function_type, callback)
            _callbacks[functions[name]] = callback
    return functions


def _method(function: str) -> str:
    """Converts a C function's name: `LiteRtGetCompilerPluginSDKVersion` to `get_compiler_plugin_sdk_version`."""
    words = re.sub(_WORD_BEGINS, "_", function.removeprefix("LiteRt"))
    return words.lower()


@dataclass(frozen=True, slots=True, eq=False)
class _Plugin:
    """The object to which a `LiteRtCompilerPlugin` handle refers.

    Attributes:
      transformations: C array of the transformations that the host runs for the plugin.
      kept: Objects to which pointers in `transformations` refer.
      refusals: C texts with the reasons for refusals, by the position of the op; the host has pointers to them.
    """

    exported: ExportedPlugin
    context: HostContext
    transformations: Any
    kept: Sequence[Any]
    refusals: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, exported: ExportedPlugin, context: HostContext, vendor: str) -> _Plugin:
        names = exported.names_with_assets
        if not names or context.find("build_weights") is None:  # as in LiteRT 2.2
            return cls(exported, context, ffi.new("LiteRtTransformation[]", 0), ())

        def match(_: Any, builder: int, op: int) -> Status:
            handles = ffi.cast("LiteRtBuilder", builder), ffi.cast("LiteRtOp", op)
            matched = dequantize_for(context, names, *handles)
            return Status.OK if matched else Status.PATTERN_NO_MATCH

        pattern_type = ffi.typeof("LiteRtPatternFn")
        callback = make_callback(pattern_type, match, f"{vendor}, pattern", _logger)
        name = _c_text(constant_inputs.NAME)
        transformations = ffi.new("LiteRtTransformation[]", 1)
        transformations[0].pattern = ffi.cast(pattern_type, callback)
        transformations[0].name, transformations[0].benefit = name, 1
        return cls(exported, context, transformations, (callback, name))


@dataclass(frozen=True, slots=True, eq=False)
class _Result:
    """The object to which a `LiteRtCompiledResult` handle refers.

    Attributes:
      modules: Byte code modules, as C arrays that keep the memory alive.
      calls: For each call, its name as a C text, and the index of its module.
    """

    modules: Sequence[Any]
    calls: Sequence[tuple[Any, int]]

    @classmethod
    def of(cls, result: CompiledResult) -> _Result:
        modules = [ffi.from_buffer("char[]", module.view) for module in result.byte_code]
        return cls(modules, [(_c_text(call.name), call.byte_code_index) for call in result.calls])


class _Library:
    """The C functions of one exported library; each method has the name of the C function in Python's spelling."""

    def __init__(self, registered: RegisteredPlugin) -> None:
        factory = registered.factory
        self._manufacturer = _c_text(factory.soc_manufacturer)
        self._registered = registered
        self._soc_models = [_c_text(name) for name in factory.soc_models]
        self._sdk_version = _c_text(factory.sdk_version)
        self._handles = Handles()

    def get_compiler_plugin_soc_manufacturer(self) -> Any:
        """Returns the manufacturer's name; the only function that cannot fail."""
        return self._manufacturer

    def destroy_compiled_result(self, result: int) -> None:
        self._handles.drop(result)

    def get_compiler_plugin_version(self, version: Any) -> None:
        _check(api_version=version)
        version.major, version.minor, version.patch = self._registered.factory.api_version

    def create_compiler_plugin(
        self, table: Any, plugin: Any, environment: int, options: int
    ) -> None:
        _check(compiler_plugin=plugin)
        context = HostContext(table)
        options_handle = ffi.cast("LiteRtOptions", options)
        vendor = self._registered.factory.soc_manufacturer
        host_infos = find_custom_op_infos(context, options_handle)
        flags = read_flags(context, options_handle, vendor)
        exported = ExportedPlugin(
            self._registered,
            context,
            read_environment(context, ffi.cast("LiteRtEnvironmentOptions", environment)),
            read_options(vendor, flags, host_infos),
            {info.op_name for info in host_infos},
        )
        plugin[0] = self._handles.put(_Plugin.of(exported, context, vendor))

    def destroy_compiler_plugin(self, plugin: int) -> None:
        if plugin:
            found = self._handles.get(plugin, _Plugin)
            self._handles.drop(plugin)
            found.exported.close()

    def get_compiler_plugin_supported_hardware(self, plugin: int, hardware: Any) -> None:
        self._check_call(plugin, supported_hardware=hardware)
        hardware[0] = int(self._registered.factory.supported_hardware)

    def get_num_compiler_plugin_supported_soc_models(self, plugin: int, number: Any) -> None:
        self._check_call(plugin, num_supported_soc_models=number)
        number[0] = len(self._soc_models)

    def get_compiler_plugin_supported_soc_model(self, plugin: int, index: int, name: Any) -> None:
        self._check_call(plugin, soc_model_name=name)
        name[0] = item(self._soc_models, index, "SoC model")

    def get_compiler_plugin_sdk_version(self, plugin: int, version: Any) -> None:
        self._check_call(plugin, sdk_version=version)
        version[0] = self._sdk_version

    def compiler_plugin_check_compiler_compatibility(
        self, version: Any, plugin: int, environment: int, options: int, soc_model: Any
    ) -> None:
        host_version = ApiVersion(version.major, version.minor, version.patch)
        found = self._handles.get(plugin, _Plugin)
        found.exported.check_compatibility(host_version, _text(soc_model))

    def compiler_plugin_register_all_transformations(
        self, plugin: int, transformations: Any, number: Any
    ) -> None:
        self._check_call(plugin, transformations=transformations, num_patterns=number)
        found = self._handles.get(plugin, _Plugin).transformations
        transformations[0], number[0] = found, len(found)

    def compiler_plugin_partition(
        self, plugin: int, soc_model: Any, subgraph: int, op_list: int
    ) -> None:
        found = self._handles.get(plugin, _Plugin)
        graph, answer = ffi.cast("LiteRtSubgraph", subgraph), ffi.cast("LiteRtOpList", op_list)
        _check("be a handle", subgraph=graph, selected_ops=answer)
        found.refusals.clear()
        for op, index in found.exported.partition(_text(soc_model), graph):
            found.context.call("push_op", answer, op, index)

    def compiler_plugin_get_refusal(self, plugin: int, index: int, reason: Any) -> Status:
        self._check_call(plugin, reason=reason)
        found = self._handles.get(plugin, _Plugin)
        why = found.exported.refusals.get(index)
        if why is None:
            return Status.NOT_FOUND  # an answer, and no error for the log
        reason[0] = found.refusals.setdefault(index, _c_text(why))
        return Status.OK

    def compiler_plugin_compile(
        self, plugin: int, soc_model: Any, partitions: int, result: Any
    ) -> None:
        found = self._handles.get(plugin, _Plugin)
        _check(compiled_result=result)
        model = ffi.cast("LiteRtModel", partitions)
        _check("be a handle", partitions=model)
        compiled = found.exported.compile(_text(soc_model), model)
        result[0] = self._handles.put(_Result.of(compiled))

    def compiled_result_num_byte_code_modules(self, result: int, number: Any) -> None:
        _check(num_byte_code=number)
        # NULL if no op was selected; stock LiteRT calls this function anyway.
        number[0] = len(self._handles.get(result, _Result).modules) if result else 0

    def get_compiled_result_byte_code(
        self, result: int, index: int, byte_code: Any, size: Any
    ) -> None:
        found = self._handles.get(result, _Result)
        _check(byte_code=byte_code, byte_code_size=size)
        module = item(found.modules, index, "byte code module")
        byte_code[0], size[0] = module, len(module)

    def get_compiled_result_handle(self, result: int, index: int, handle: Any) -> Status:
        found = self._handles.get(result, _Result)
        _check(handle=handle)
        item(found.modules, index, "byte code module")
        return Status.UNSUPPORTED  # there are no handles, only byte code

    def get_num_compiled_result_calls(self, result: int, number: Any) -> None:
        found = self._handles.get(result, _Result)
        _check(num_calls=number)
        number[0] = len(found.calls)

    def get_compiled_result_call_info(
        self, result: int, index: int, name: Any, size: Any, module: Any
    ) -> None:
        found = self._handles.get(result, _Result)
        _check(call_info=name, call_info_size=size, byte_code_idx=module)
        text, module_index = item(found.calls, index, "call")
        name[0], size[0], module[0] = text, len(text) - 1, module_index

    def is_compiled_result_output_dynamic(
        self, result: int, index: int, output: int, is_dynamic: Any
    ) -> None:
        found = self._handles.get(result, _Result)
        _check(is_dynamic=is_dynamic)
        item(found.calls, index, "call")
        is_dynamic[0] = (
            False  # calls with such outputs are refused, because stock LiteRT does not call this function
        )

    def _check_call(self, plugin: int, **answers: Any) -> None:
        self._handles.get(plugin, _Plugin)
        _check(**answers)


def _check(needed: str = "point to memory for the result", /, **pointers: Any) -> None:
    """Raises an error if a pointer from the host is NULL; the keywords are the arguments' names in the header."""
    for name, pointer in pointers.items():
        if not pointer:
            what = f"the host passed NULL as argument '{name}', which must {needed}"
            raise LiteRtError(Status.INVALID_ARGUMENT, what)


def _c_text(text: str) -> Any:
    return ffi.new("char[]", text.encode("utf-8", "surrogateescape"))


def _text(pointer: Any) -> str:
    return str(ffi.string(pointer).decode("utf-8", "surrogateescape")) if pointer else ""
