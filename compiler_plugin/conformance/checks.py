"""All checks of compiler plugins, in the order in which they run."""

from __future__ import annotations

from compiler_plugin.conformance import (
    compile_checks,
    null_checks,
    plugin_checks,
    transformation_checks,
)
from compiler_plugin.conformance.subject import PluginSubject
from litert.abi.conformance.checks import BrokenRuleError, Check


def _statuses(subject: PluginSubject) -> None:
    if subject.functions.strange:
        raise BrokenRuleError(subject.functions.strange[0])


CHECKS = (
    *plugin_checks.CHECKS,
    *transformation_checks.CHECKS,
    *compile_checks.CHECKS,
    *null_checks.CHECKS,
    Check("plugin.statuses", _statuses, needs=("plugin.symbols",)),
)
