"""Checks a plugin's version, names and hardware, and how plugin objects are created and destroyed."""

from __future__ import annotations

from typing import Any

from compiler_plugin.native.plugin_library import FUNCTIONS
from litert.abi.definitions import ffi
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage, UnseenError
from litert.conformance.plugin_subject import PluginSubject, text_of
from litert.conformance.vendor_calls import expect_no_index, expect_status
from litert.core.status import Status

_VERSION = (0, 1, 0)
_NPU = 4
_NAME_BYTES = 123
_FAR_INDEX = 1000
_NO_VERSION = (99, 0, 0)
_CREATE, _DESTROY = "LiteRtCreateCompilerPlugin", "LiteRtDestroyCompilerPlugin"
_COMPATIBLE = "LiteRtCompilerPluginCheckCompilerCompatibility"
_REFUSALS = (
    Status.OK, Status.UNSUPPORTED_COMPILER_VERSION, Status.UNSUPPORTED, Status.WRONG_VERSION,
)  # fmt: skip


def _symbols(subject: PluginSubject) -> None:
    missing = [name for name in FUNCTIONS if not subject.vendor.has(name)]
    if missing:
        raise BrokenRuleError(f"the plugin does not export {', '.join(missing)}")


def _version(subject: PluginSubject) -> None:
    found = subject.vendor.answer("LiteRtGetCompilerPluginVersion", "LiteRtApiVersion")
    version = (found.major, found.minor, found.patch)
    if version != _VERSION:
        wanted = ".".join(map(str, _VERSION))
        raise BrokenRuleError(
            f"the API version is {'.'.join(map(str, version))}, but must be {wanted}"
        )


def _manufacturer(subject: PluginSubject) -> None:
    name = "LiteRtGetCompilerPluginSocManufacturer"
    first, second = (text_of(subject.vendor.call_plain(name), name, _NAME_BYTES) for _ in range(2))
    if first != second:
        raise BrokenRuleError(f"{name} returns {first!r} first, and then {second!r}")


def _create(subject: PluginSubject) -> None:
    with subject.plugin():
        pass


def _many(subject: PluginSubject) -> None:
    with subject.plugin() as first:
        models = first.soc_models()
        with subject.plugin() as second:
            if first.handle == second.handle:
                raise BrokenRuleError("two plugin objects have the same handle")
            second.soc_models()
        if first.soc_models() != models:
            raise BrokenRuleError(
                "a plugin object returns other values after another plugin object was destroyed"
            )


def _again(subject: PluginSubject) -> None:
    for _ in range(3):
        with subject.plugin() as plugin:
            plugin.soc_models()


def _no_options(subject: PluginSubject) -> None:
    with subject.plugin(options=False) as plugin:
        plugin.soc_models()


def _create_failure(subject: PluginSubject) -> None:
    made, status = _create_without_context(subject)
    if not status:
        subject.vendor.call_plain(_DESTROY, made)
        raise UnseenError("creating a plugin object does not fail, even without a compiler context")
    if made:
        raise BrokenRuleError(f"{_CREATE} fails, but returns a plugin object")


def _create_without_context(subject: PluginSubject) -> tuple[Any, int]:
    made = ffi.new("LiteRtCompilerPlugin*")
    status = subject.vendor.call(_CREATE, ffi.NULL, made, *subject.host.options)
    return made[0], status


def _null_context(subject: PluginSubject) -> None:
    _, status = _create_without_context(subject)
    expect_status(f"{_CREATE}, called without a compiler context,", status, Status.INVALID_ARGUMENT)


def _hardware(subject: PluginSubject) -> None:
    name = "LiteRtGetCompilerPluginSupportedHardware"
    with subject.plugin() as plugin:
        bits = int(subject.vendor.answer(name, "LiteRtHwAccelerators", plugin.handle))
    if not bits & _NPU:
        raise BrokenRuleError(
            f"the supported hardware is {bits}, but must include the NPU ({_NPU})"
        )


def _soc_models(subject: PluginSubject) -> None:
    with subject.plugin() as plugin:
        if not plugin.soc_models():
            raise BrokenRuleError("the plugin lists no SoC models")


def _soc_names(subject: PluginSubject) -> None:
    with subject.plugin() as plugin:
        names = plugin.soc_models()
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise BrokenRuleError(
                f"the plugin lists SoC model {twice[0]!r} {names.count(twice[0])} times"
            )


def _soc_index(subject: PluginSubject) -> None:
    name = "LiteRtGetCompilerPluginSupportedSocModel"
    with subject.plugin() as plugin:
        number = len(plugin.soc_models())
        for index in (number, number + _FAR_INDEX):
            status = subject.vendor.call(name, plugin.handle, index, ffi.new("const char**"))
            expect_no_index(name, index, number, status, Status.UNSUPPORTED)


def _sdk_version(subject: PluginSubject) -> None:
    name = "LiteRtGetCompilerPluginSDKVersion"
    with subject.plugin() as plugin:
        text_of(subject.vendor.answer(name, "const char*", plugin.handle), name)


def _is_compatible(subject: PluginSubject) -> None:
    version = ffi.new("LiteRtApiVersion*", _VERSION)[0]
    with subject.plugin() as plugin:
        arguments = version, plugin.handle, *subject.host.options
        for soc_model in (plugin.soc_model(), ffi.NULL):
            subject.vendor.succeed(_COMPATIBLE, *arguments, soc_model)


def _refuses(subject: PluginSubject) -> None:
    strange = ffi.new("char[]", b"no such model")
    with subject.plugin() as plugin:
        for numbers, soc in ((_NO_VERSION, plugin.soc_model()), (_VERSION, strange)):
            version = ffi.new("LiteRtApiVersion*", numbers)[0]
            arguments = version, plugin.handle, *subject.host.options, soc
            expect_status(_COMPATIBLE, subject.vendor.call(_COMPATIBLE, *arguments), *_REFUSALS)


_BASE = ("plugin.symbols", "create.ok", "create.again")

_NULL_CONTEXT = Check("plugin.null_arguments", _null_context, f"{_CREATE}, argument 0", _BASE)

RULES = Rules(
    Stage.BEGINNING,
    (
        Check("plugin.symbols", _symbols),
        Check("plugin.version", _version, needs=("plugin.symbols",)),
        Check("plugin.manufacturer", _manufacturer, needs=("plugin.symbols",)),
        Check("create.ok", _create, needs=("plugin.symbols",)),
        Check("create.again", _again, needs=_BASE[:2]),
        Check("soc_models.some", _soc_models, needs=_BASE),
        Check("soc_models.names", _soc_names, needs=_BASE),
        Check("soc_models.index", _soc_index, needs=(*_BASE, "soc_models.some")),
        Check("create.many", _many, needs=_BASE),
        Check("create.no_options", _no_options, needs=_BASE),
        _NULL_CONTEXT,
        Check("create.failure", _create_failure, needs=(*_BASE, _NULL_CONTEXT.key)),
        Check("destroy.null", lambda s: s.vendor.call_plain(_DESTROY, ffi.NULL), needs=_BASE),
        Check("hardware.npu", _hardware, needs=_BASE),
        Check("sdk_version.text", _sdk_version, needs=_BASE),
        Check("compatibility.ours", _is_compatible, needs=_BASE),
        Check("compatibility.refusal", _refuses, needs=_BASE),
    ),
)
