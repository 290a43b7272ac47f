"""Checks a vendor's compiler plugin, and then its dispatch library with byte code from this plugin."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from litert.abi.headers import Rule
from litert.analysis.reference_function import Functions
from litert.conformance.checks import (
    DISPATCH_RULES,
    PLUGIN_RULES,
    Finding,
    find_checks,
    is_named,
    read_rules,
    select,
)
from litert.conformance.children import CheckOptions, check_end, run_in_children
from litert.conformance.expected import add_expected
from litert.core.errors import ChildEndedError, LiteRtError
from litert.core.input_file import check_input
from litert.core.progress import counting, told
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from litert.core.vendor_names import is_option_of
from litert.host.child import call_in_child
from litert.model.atomic_file import temporary_folder

from ..command_line import usage_error
from ..console import print_text
from ..reference_function import load_reference
from .check_report import (
    NOT_CHECKABLE,
    CheckedLibrary,
    ConformanceReport,
    with_recommendations,
)
from .compared_values import ComparedValues, read_compared
from .vendor_libraries import KINDS, VendorLibraries


@dataclass(frozen=True, slots=True)
class _Side:
    """The checks of one kind of library.

    Attributes:
      target: Function that runs the checks, as `module:function`.
      package: Package that contains the checks.
      subject: Name of the checked process in messages.
      end_rule: Name of the rule about the end of the process, after the checks of `base`.
    """

    target: str
    package: str
    subject: str
    end_rule: str
    base: str


_PLUGIN = _Side(
    "litert.conformance.checking:check_plugin",
    PLUGIN_RULES,
    "the plugin",
    "plugin.ends",
    "compile.ok (one model)",
)
_DISPATCH = _Side(
    "litert.conformance.checking:check_dispatch",
    DISPATCH_RULES,
    "the library",
    "dispatch.ends",
    "dispatch.runs",
)
_SIDES = {"compiler_plugin": _PLUGIN, "dispatch": _DISPATCH}
_MAX_FAILURES = 3  # failed compilations, each of which may take the whole time limit

END_RULES = (_PLUGIN.end_rule, _DISPATCH.end_rule)
"""Names of the rules that are checked at the end of a vendor's process."""


def check_vendor(libraries: VendorLibraries, options: CheckOptions) -> ConformanceReport:
    """Runs all checks of a vendor, each in its own process.

    Raises:
      LiteRtError: The checks cannot run; faults of the vendor are findings in the report, not errors.
    """
    contract = read_rules()
    _check_request(options, libraries.manufacturer)
    _check_rules(options.rules, contract, libraries)
    options = replace(
        options,
        models=[os.path.abspath(path) for path in options.models],
        assets=[(op, os.path.abspath(path)) for op, path in options.assets],
        companions=[(name, os.path.abspath(path)) for name, path in options.companions],
    )
    vendor = libraries.manufacturer or "The vendor"
    plugin, dispatch = (libraries.origins.get(kind) for kind in ("compiler_plugin", "dispatch"))
    parts: list[CheckedLibrary] = []
    compared: list[ComparedValues] = []
    references = {op: load_reference(text) for op, text in options.references}
    if plugin is None and (options.soc_model or options.vendor_options):
        raise usage_error(
            "--soc_model and --option are for a compiler plugin, but this vendor has no compiler plugin",
            "Omit both flags, or give the compiler plugin too.",
        )
    asked = {**asdict(options), "manufacturer": libraries.manufacturer}
    with temporary_folder() as folder:
        cases: list[dict[str, Any]] = []
        remarks: list[str] = []
        if plugin is not None:
            argument = {**asked, "origin": plugin}
            _refuse_settings(argument, vendor, options)
            findings = _check(_PLUGIN, argument, options, contract)
            if dispatch is not None:
                cases, remarks = _compile(argument, folder, options, references)
            parts.append(CheckedLibrary(KINDS["compiler_plugin"].title, plugin, findings, remarks))
        if dispatch is not None:
            argument = {**asked, "origin": dispatch, "cases": cases}
            findings = _check(_DISPATCH, argument, options, contract)
            parts.append(CheckedLibrary(KINDS["dispatch"].title, dispatch, findings))
            if cases:
                compared = read_compared(cases, findings, options.tolerance)
    return ConformanceReport(vendor, parts, contract, compared, options.rules)


def _check_rules(
    names: Sequence[str], contract: Mapping[str, object], libraries: VendorLibraries
) -> None:
    """Raises an error for a name of --rule for which these libraries have no checks."""
    by_kind = {
        kind: {side.end_rule, *(check.rule for check in find_checks(side.package))}
        for kind, side in _SIDES.items()
    }
    for name in names:
        rules = [rule for rule in contract if is_named(rule, [name])]
        kinds = [kind for kind, checked in by_kind.items() if checked.intersection(rules)]
        if not rules:
            hint = did_you_mean(name, contract, "docs/vendor_contract.md lists the names.")
            raise usage_error(f"LiteRT's contract with vendors has no rule '{name}'", hint)
        if not kinds:
            raise usage_error(
                f"--rule={name} has no check of its own, because {NOT_CHECKABLE[name]}",
                "Omit this --rule.",
            )
        if not libraries.origins.keys() & kinds:
            title = KINDS[kinds[0]].title
            raise usage_error(
                f"--rule={name} is about a {title}, but the command line gives no {title}",
                f"Give the {title}'s file too, or omit the flag.",
            )


def _check_request(options: CheckOptions, manufacturer: str) -> None:
    """Raises an error for files that do not exist and options that are not the vendor's."""
    for path in (*options.models, *(p for _, p in (*options.assets, *options.companions))):
        check_input(path)
    for name in options.vendor_options:
        if manufacturer and not is_option_of(manufacturer, name):
            raise usage_error(
                f"--option={name} is not an option of vendor '{manufacturer}'",
                f"Give only options that begin with the vendor's name, as in {manufacturer.lower()}_option. "
                "LiteRT passes no other options to the vendor.",
            )


def _check(
    side: _Side,
    argument: Mapping[str, object],
    options: CheckOptions,
    contract: Mapping[str, Rule],
) -> list[Finding]:
    limits: dict[str, Any] = {"timeout_s": options.timeout_s, "subject": side.subject}
    is_end_asked = is_named(side.end_rule, options.rules)
    findings: list[Finding] = []
    if set(options.rules) != {side.end_rule}:
        num_checks = len(select(find_checks(side.package), options.rules))
        findings = run_in_children(side.target, argument, num_checks=num_checks, **limits)
    if is_end_asked or not options.rules:
        asked = {**argument, "rules": [side.base]}
        findings.append(check_end(side.end_rule, side.target, asked, **limits))
    return with_recommendations(findings, contract, strict=options.strict)


def _refuse_settings(argument: Mapping[str, object], vendor: str, options: CheckOptions) -> None:
    """Raises an error if the plugin refuses the user's settings, which breaks no rule.

    If the plugin crashes, hangs or fails with any settings, the checks report this.
    """
    if not (options.soc_model or options.vendor_options or options.assets):
        return
    said = bytearray()
    refusals: list[Any] = []
    with suppress(LiteRtError):
        refusals += call_in_child(
            "litert.conformance.checking:refuse_settings",
            argument,
            timeout_s=options.timeout_s,
            subject=_PLUGIN.subject,
            hear=said.extend,
        )
    for refusal in refusals:
        # A library returns only a status, and prints the reason.
        if said:
            print_text(said.decode("utf-8", "replace").rstrip(), sys.stderr)
        named = f"vendor '{vendor}'"
        who = "the vendor" if named in refusal["where"] + refusal["what"] else named
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"{who} refuses {refusal['flag']}: {refusal['what']}",
            refusal["where"],
            refusal["hint"] or ("See the library's output above." if said else ""),
        )


def _compile(
    argument: Mapping[str, object], folder: str, options: CheckOptions, references: Functions
) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns the objects from `write_cases` with expected outputs, and remarks.

    If the plugin's process ends or fails at a model, the next models are compiled in another process.
    """
    entries: list[dict[str, Any]] = []
    remarks: list[str] = []
    begun: list[str] = []
    num_failures = 0
    is_done = False
    with counting("compile models", 0) as tell_done:
        while not is_done:
            try:
                for answer in call_in_child(
                    "litert.conformance.checking:compile_cases",
                    {**argument, "folder": folder, "trace": "", "first": len(begun)},
                    timeout_s=options.timeout_s,
                    subject="the plugin",
                    hear=lambda data: None,
                    is_for_each=True,
                ):
                    assert isinstance(answer, dict)
                    if "begin" in answer:
                        begun.append(answer["begin"])
                        tell_done(len(begun))
                    else:
                        entries.append(answer)
                is_done = True
            except LiteRtError as error:
                num_failures += 1
                reason = error.what if isinstance(error, ChildEndedError) else str(error)
                is_done = not begun or num_failures == _MAX_FAILURES
                if begun:
                    entries.append({"source": begun[-1], "why": f"the plugin failed: {reason}"})
                if is_done:
                    remarks.append(f"The plugin did not compile all models: {reason}")
    for entry in told("compute references", entries):
        if "why" not in entry:
            add_expected(entry, references)
    taken = {op for entry in entries for op in entry.get("ops", ())}
    for kind, ops in (("assets", dict(options.assets)), ("references", references)):
        if idle := [op for op in ops if op not in taken]:
            remarks.append(
                f"No run used the {kind} for these ops: {', '.join(idle)}. Check the names of the ops: the "
                "plugin accepts no op with such a name."
            )
    return entries, remarks
