"""Functions that run in the child processes of the vendor checks; their arguments and results are JSON.

The functions import packages only when called, because the checks of plugins and of dispatch libraries need
different packages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from litert.conformance.checks import (
    DISPATCH_RULES,
    PLUGIN_RULES,
    BrokenRuleError,
    find_checks,
    run_checks,
    select,
)
from litert.conformance.children import mark_begins
from litert.conformance.vendor_calls import CallTrace, VendorFunctions, find_checked
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError

if TYPE_CHECKING:
    from litert.conformance.dispatch_table import CheckedTable
    from litert.conformance.plugin_subject import NamedModel, PluginSubject


def check_plugin(argument: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    """Runs a plugin's checks except for those in `argument["done"]`; yields the same objects as `run_checks`.

    The argument is an object with the fields of `CheckOptions`, the plugin's `origin` and `manufacturer`, and the
    keys `done`, `stopped` and `trace`.
    """
    return _check(PLUGIN_RULES, _plugin_subject(argument), argument)


def check_dispatch(argument: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    """Runs a dispatch library's checks, like `check_plugin`; `argument["cases"]` comes from `compile_cases`."""
    from litert.conformance.case import read_case, read_file
    from litert.conformance.dispatch_subject import DispatchSubject

    named = [*argument["companions"], *argument["assets"]]  # assets may need their companions
    assets = {name: read_file(path) for name, path in named}
    entries = argument["cases"]
    subject = DispatchSubject(
        lambda: _load_table(argument),
        [read_case(each, assets) for each in entries if "model" in each],
        {each["source"]: each["why"] for each in entries if "why" in each},
        argument["tolerance"],
        argument["timeout_s"] / 2,
    )
    return _check(DISPATCH_RULES, subject, argument)


def compile_cases(argument: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    """Compiles models to files in the directory `argument["folder"]`; see `write_cases`."""
    from litert.conformance.case_files import write_cases

    try:
        yield from write_cases(
            _plugin_subject(argument),
            argument["folder"],
            argument["first"],
            [op for op, _ in argument["references"]],
        )
    except BrokenRuleError as broken:
        raise LiteRtError(3, str(broken)) from broken


def refuse_settings(argument: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    """Finds the first of the user's settings (SoC model, options, assets) that the plugin refuses.

    Yields:
      An object with `flag`, `what`, `where` and `hint` for the refused setting; nothing if the plugin accepts all
      settings.
    """
    from compiler_plugin.native.native_plugin import NativePluginFactory
    from compiler_plugin.registry import check_factory
    from litert.conformance.user_settings import find_refusal

    origin = argument["origin"]
    vendor = find_checked(origin, argument["manufacturer"], "PLUGIN", CallTrace(""))
    factory = NativePluginFactory(vendor) if isinstance(vendor, str) else vendor
    plugin = check_factory(factory, origin)
    options = _options(argument)
    models = _models(argument, options) if options.custom_op_infos else ()
    refusal = find_refusal(plugin, argument["soc_model"], options, models)
    if refusal is not None:
        flag, error = refusal
        yield {"flag": flag, "what": error.what, "where": error.where, "hint": error.hint}


def _check(package: str, subject: Any, argument: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    checks = select(find_checks(package), argument["rules"])
    return mark_begins(run_checks(checks, subject, argument["done"], argument["stopped"]))


def _plugin_subject(argument: Mapping[str, Any]) -> PluginSubject:
    from litert.conformance.models import default_models
    from litert.conformance.plugin_host import PluginHost
    from litert.conformance.plugin_subject import PluginSubject

    options = _options(argument)
    models = _models(argument, options) + default_models()
    return PluginSubject(
        lambda: _load_plugin(argument),
        PluginHost(argument["manufacturer"], options),
        [named for named in models if named.name not in argument.get("fatal", ())],
        argument["soc_model"],
    )


def _options(argument: Mapping[str, Any]) -> CompilerOptions:
    infos = [CustomOpInfo(op, path) for op, path in argument["assets"]]
    # The runs find kernels that do not build.
    return CompilerOptions(
        infos,
        check_kernels=False,
        allow_native_assets=argument["allow_native_assets"],
        vendor_options=argument["vendor_options"],
    )


def _models(argument: Mapping[str, Any], options: CompilerOptions) -> list[NamedModel]:
    """Reads the user's models, and makes a small model for each op with an asset that these models lack."""
    from litert.conformance.models import custom_op_models
    from litert.conformance.plugin_subject import NamedModel
    from litert.model.reader import read_model

    paths: list[str] = argument["models"]
    bases = [os.path.basename(path) for path in paths]
    models = [
        NamedModel(base if bases.count(base) == 1 else path, read_model(path))
        for base, path in zip(bases, paths, strict=True)
    ]
    there = {op.name for named in models for op in named.model.ops()}
    names = [info.op_name for info in options.custom_op_infos]
    return models + custom_op_models([name for name in names if name not in there])


def _load_plugin(argument: Mapping[str, Any]) -> VendorFunctions:
    from compiler_plugin.native.export import export_plugin
    from litert.abi.symbol_library import load_symbols
    from litert.conformance.plugin_subject import load_functions

    origin, trace = argument["origin"], CallTrace(argument["trace"])
    vendor = find_checked(origin, argument["manufacturer"], "PLUGIN", trace)
    if isinstance(vendor, str):
        return load_functions(vendor, trace)
    load_symbols()  # a shared library has these symbols itself
    functions = VendorFunctions(export_plugin(vendor, origin), trace, vendor)
    functions.error.listen()
    return functions


def _load_table(argument: Mapping[str, Any]) -> CheckedTable:
    from litert.conformance.dispatch_table import load_table, make_table

    trace, owner = CallTrace(argument["trace"]), argument["manufacturer"]
    vendor = find_checked(argument["origin"], owner, "DISPATCH", trace)
    if isinstance(vendor, str):
        table = load_table(vendor, trace)
    else:
        table, owner = make_table(vendor, trace), vendor.vendor_id
    if argument["allow_native_assets"]:
        table.options = table.host.options(owner, {"allow_native_assets": "true"})
    return table
