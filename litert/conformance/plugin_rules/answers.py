"""Checks that all functions of a compiler plugin return a status, and refuse NULL.

Each check passes NULL for one argument. This is an argument through which a function returns a result, or a handle
that the function needs.
"""

from __future__ import annotations

from typing import Any

from compiler_plugin.native.graph_slots import PushedOps
from compiler_plugin.native.plugin_library import GET_REFUSAL, IS_OUTPUT_DYNAMIC
from compiler_plugin.outline import model_of
from litert.abi.definitions import ffi
from litert.conformance.checks import Check, Rules, Stage, UnseenError, null_check
from litert.conformance.plugin_subject import PluginSubject
from litert.conformance.vendor_calls import check_statuses, expect_status
from litert.core.status import Status

_OF_NOTHING = {"LiteRtGetCompilerPluginVersion": (0,), "LiteRtCreateCompilerPlugin": (1,)}
_OF_PLUGIN = {
    "LiteRtGetCompilerPluginSupportedHardware": (0, 1),
    "LiteRtGetNumCompilerPluginSupportedSocModels": (0, 1),
    "LiteRtGetCompilerPluginSupportedSocModel": (0, 2),
    "LiteRtGetCompilerPluginSDKVersion": (0, 1),
    "LiteRtCompilerPluginCheckCompilerCompatibility": (1,),
    "LiteRtCompilerPluginRegisterAllTransformations": (0, 1, 2),
    "LiteRtCompilerPluginPartition": (0, 2, 3),
    GET_REFUSAL: (0, 2),
    "LiteRtCompilerPluginCompile": (0, 2, 3),
}
_OF_RESULT = {
    "LiteRtCompiledResultNumByteCodeModules": (1,),
    "LiteRtGetCompiledResultByteCode": (0, 2, 3),
    "LiteRtGetNumCompiledResultCalls": (0, 1),
    "LiteRtGetCompiledResultCallInfo": (0, 2, 3, 4),
    IS_OUTPUT_DYNAMIC: (0, 3),
}
"""For each function, the indices of the arguments that must not be NULL."""


def _without_plugin(subject: PluginSubject, function: str, place: int) -> None:
    arguments = {
        "LiteRtGetCompilerPluginVersion": [ffi.NULL],
        "LiteRtCreateCompilerPlugin": [subject.host.table, ffi.NULL, *subject.host.options],
    }[function]
    _expect_refusal(subject, function, place, arguments)


def _with_plugin(subject: PluginSubject, function: str, place: int) -> None:
    _check_has(subject, function)
    subgraph = subject.models[0].model.subgraphs[0]
    with subject.plugin() as plugin, subject.host.call() as handle_of:
        soc, handle = plugin.soc_model(), handle_of("LiteRtSubgraph", subgraph)
        number, text = ffi.new("LiteRtParamIndex*"), ffi.new("const char**")
        arguments: list[Any] = {
            "LiteRtGetCompilerPluginSupportedHardware": [ffi.new("LiteRtHwAccelerators*")],
            "LiteRtGetNumCompilerPluginSupportedSocModels": [number],
            "LiteRtGetCompilerPluginSupportedSocModel": [0, text],
            "LiteRtGetCompilerPluginSDKVersion": [text],
            "LiteRtCompilerPluginCheckCompilerCompatibility": [*subject.host.options, soc],
            "LiteRtCompilerPluginRegisterAllTransformations": [
                ffi.new("LiteRtTransformation**"), number,
            ],
            "LiteRtCompilerPluginPartition": [
                soc, handle, handle_of("LiteRtOpList", PushedOps()),
            ],
            GET_REFUSAL: [0, text],
            "LiteRtCompilerPluginCompile": [
                soc, handle_of("LiteRtModel", model_of(subgraph)),
                ffi.new("LiteRtCompiledResult*"),
            ],
        }[function]  # fmt: skip
        version = ffi.new("LiteRtApiVersion*", (0, 1, 0))[0]
        before = [version] if function.endswith("CheckCompilerCompatibility") else []
        _expect_refusal(subject, function, place, [*before, plugin.handle, *arguments])
        plugin.soc_models()  # no other call has been made


def _with_result(subject: PluginSubject, function: str, place: int) -> None:
    _check_has(subject, function)
    with subject.compiled() as result:
        number = ffi.new("LiteRtParamIndex*")
        address, size = ffi.new("const void**"), ffi.new("size_t*")
        arguments: dict[str, list[Any]] = {
            "LiteRtCompiledResultNumByteCodeModules": [number],
            "LiteRtGetCompiledResultByteCode": [0, address, size],
            "LiteRtGetNumCompiledResultCalls": [number],
            "LiteRtGetCompiledResultCallInfo": [0, address, size, number],
            IS_OUTPUT_DYNAMIC: [0, 0, ffi.new("bool*")],
        }
        _expect_refusal(subject, function, place, [result.handle, *arguments[function]])
        result.num_modules()


def _check_has(subject: PluginSubject, function: str) -> None:
    """Raises `UnseenError` if the plugin does not export an optional function."""
    if not subject.vendor.has(function):
        raise UnseenError(f"the plugin does not export {function}")


def _expect_refusal(
    subject: PluginSubject, function: str, place: int, arguments: list[Any]
) -> None:
    arguments[place] = ffi.NULL
    status = subject.vendor.call(function, *arguments)
    expect_status(
        f"{function}, called with NULL as argument number {place + 1},",
        status,
        Status.INVALID_ARGUMENT,
    )


_BASE = ("plugin.symbols", "create.ok", "create.again")

_NULL = [
    null_check("plugin.null_arguments", run, function, place, needs)
    for run, places_of, needs in (
        (_without_plugin, _OF_NOTHING, _BASE[:1]),
        (_with_plugin, _OF_PLUGIN, _BASE),
        (_with_result, _OF_RESULT, (*_BASE, "partition.ops (one model)", "compile.ok (one model)")),
    )
    for function, places in places_of.items()
    for place in places
]

RULES = Rules(
    Stage.ANSWERS,
    (*_NULL, Check("plugin.statuses", check_statuses, needs=("plugin.symbols",))),
)
