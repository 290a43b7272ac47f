"""What a child process does for the checks of a compiler plugin; arguments and answers as JSON has them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from compiler_plugin.conformance.case_files import write_cases
from compiler_plugin.conformance.checks import CHECKS
from compiler_plugin.conformance.functions import PluginFunctions, load_functions
from compiler_plugin.conformance.host import PluginHost
from compiler_plugin.conformance.models import custom_op_models, default_models
from compiler_plugin.conformance.settings import find_refusal
from compiler_plugin.conformance.subject import NamedModel, PluginSubject
from compiler_plugin.native.factory import NativePluginFactory
from compiler_plugin.registry import check_factory
from litert.abi.conformance.call_trace import CallTrace
from litert.abi.conformance.check_prints import mark_begins
from litert.abi.conformance.checks import BrokenRuleError, run_checks, select
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.host.python_library.bootstrap import find_vendor
from litert.model.reader import read_model


def check_plugin(argument: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    """Runs the checks of a plugin that `argument["done"]` does not have.

    Args:
      argument: `origin` and `manufacturer` of the plugin; `models`, paths, none for the default ones; `soc_model`;
        `assets`, pairs of an op and a path; `vendor_options`; `allow_native_assets`; `rules`, as `select` has
        them; `done`, `stopped` and `trace`.

    Yields:
      As `litert.abi.conformance.checks.run_checks`.
    """
    answers = run_checks(
        select(CHECKS, argument["rules"]),
        make_subject(argument),
        argument["done"],
        argument["stopped"],
    )
    yield from mark_begins(answers)


def compile_cases(argument: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    """Compiles the models into files of `argument["folder"]`; see `write_cases`."""
    try:
        yield from write_cases(make_subject(argument), argument["folder"])
    except BrokenRuleError as broken:
        raise LiteRtError(3, str(broken)) from broken


def refuse_settings(argument: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    """Finds what a plugin refuses of the user's SoC model, options and assets; see `find_refusal`.

    Yields:
      Nothing, or once: `flag`, and `what`, `where` and `hint` of the refusal.
    """
    vendor = _find(argument, CallTrace(""))
    factory = NativePluginFactory(vendor) if isinstance(vendor, str) else vendor
    plugin = check_factory(factory, argument["origin"])
    options = _options(argument)
    models = _models(argument, options)
    refusal = find_refusal(plugin, argument["soc_model"], options, models)
    if refusal is not None:
        flag, error = refusal
        yield {"flag": flag, "what": error.what, "where": error.where, "hint": error.hint}


def make_subject(argument: Mapping[str, Any]) -> PluginSubject:
    """The plugin that an argument of `check_plugin` says."""
    options = _options(argument)
    trace = CallTrace(argument["trace"])
    return PluginSubject(
        lambda: _load(argument, trace),
        PluginHost(argument["manufacturer"], options),
        _models(argument, options) + default_models(),
        argument["soc_model"],
    )


def _options(argument: Mapping[str, Any]) -> CompilerOptions:
    infos = [CustomOpInfo(op, path) for op, path in argument["assets"]]
    # Kernels that do not build are found when they are to run.
    return CompilerOptions(
        infos,
        check_kernels=False,
        allow_native_assets=argument["allow_native_assets"],
        vendor_options=argument["vendor_options"],
    )


def _models(argument: Mapping[str, Any], options: CompilerOptions) -> list[NamedModel]:
    """The user's, and small ones of ops that have an asset and are in none of those."""
    models = [NamedModel(os.path.basename(path), read_model(path)) for path in argument["models"]]
    there = {op.name for named in models for op in named.model.ops()}
    names = [info.op_name for info in options.custom_op_infos]
    return models + custom_op_models([name for name in names if name not in there])


def _load(argument: Mapping[str, Any], trace: CallTrace) -> PluginFunctions:
    vendor = _find(argument, trace)
    if isinstance(vendor, str):
        return load_functions(vendor, trace)
    from compiler_plugin.native.export import export_plugin

    functions = PluginFunctions(export_plugin(vendor, argument["origin"]), trace, vendor)
    functions.error.listen()
    return functions


def _find(argument: Mapping[str, Any], trace: CallTrace) -> Any:
    """The path of the plugin's library, or what a module in Python has as its plugin."""
    origin: str = argument["origin"]
    if origin.endswith(".so"):
        return origin
    spec = {
        "manufacturer": argument["manufacturer"],
        "origin": origin,
        "constant": "PLUGIN",
    }
    vendor = trace.call(f"the import of {origin}", find_vendor, spec)
    is_path = isinstance(vendor, (str, os.PathLike))  # of a package's library
    return os.fspath(vendor) if is_path else vendor
