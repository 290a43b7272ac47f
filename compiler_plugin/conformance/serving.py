"""What a child process does for the checks of a compiler plugin; arguments and answers as JSON has them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from compiler_plugin.conformance.case_files import write_cases
from compiler_plugin.conformance.checks import CHECKS
from compiler_plugin.conformance.functions import PluginFunctions, load_functions
from compiler_plugin.conformance.host import PluginHost
from compiler_plugin.conformance.models import default_models
from compiler_plugin.conformance.subject import NamedModel, PluginSubject
from litert.abi.conformance.call_trace import CallTrace
from litert.abi.conformance.checks import BrokenRuleError, run_checks, select
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.host.python_library.bootstrap import find_vendor
from litert.model.reader import read_model


def check_plugin(argument: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Runs the checks of a plugin that `argument["done"]` does not have.

    Args:
      argument: `origin` and `manufacturer` of the plugin; `models`, paths, none for the default ones; `soc_model`;
        `assets`, pairs of an op and a path; `vendor_options`; `rules`, as `select` has them; `done`,
        `stopped` and `trace`.

    Yields:
      As `litert.abi.conformance.checks.run_checks`.
    """
    yield from run_checks(
        select(CHECKS, argument["rules"]),
        make_subject(argument),
        argument["done"],
        argument["stopped"],
    )


def compile_cases(argument: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    """Compiles the models into files of `argument["folder"]`; see `write_cases`."""
    try:
        yield from write_cases(make_subject(argument), argument["folder"])
    except BrokenRuleError as broken:
        raise LiteRtError(3, str(broken)) from broken


def make_subject(argument: Mapping[str, Any]) -> PluginSubject:
    """The plugin that an argument of `check_plugin` says."""
    infos = [CustomOpInfo(op, path) for op, path in argument["assets"]]
    # Kernels that do not build are found when they are to run.
    options = CompilerOptions(infos, check_kernels=False, vendor_options=argument["vendor_options"])
    models = [NamedModel(os.path.basename(path), read_model(path)) for path in argument["models"]]
    trace = CallTrace(argument["trace"])
    return PluginSubject(
        lambda: _load(argument, trace),
        PluginHost(argument["manufacturer"], options),
        models + default_models([info.op_name for info in infos]),
        argument["soc_model"],
    )


def _load(argument: Mapping[str, Any], trace: CallTrace) -> PluginFunctions:
    origin: str = argument["origin"]
    if origin.endswith(".so"):
        return load_functions(origin, trace)
    spec = {
        "manufacturer": argument["manufacturer"],
        "origin": origin,
        "constant": "PLUGIN",
    }
    vendor = trace.call(f"the import of {origin}", find_vendor, spec)
    if isinstance(vendor, (str, os.PathLike)):  # a package whose plugin is a shared library
        return load_functions(os.fspath(vendor), trace)
    from compiler_plugin.native.export import export_plugin

    functions = PluginFunctions(export_plugin(vendor, origin), trace, vendor)
    functions.error.listen()
    return functions
