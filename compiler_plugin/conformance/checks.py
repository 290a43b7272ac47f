"""All checks of compiler plugins, in the order in which they run."""

from __future__ import annotations

from compiler_plugin.conformance import (
    compile_checks,
    null_checks,
    plugin_checks,
    transformation_checks,
)

CHECKS = (
    *plugin_checks.CHECKS,
    *transformation_checks.CHECKS,
    *compile_checks.CHECKS,
    *null_checks.CHECKS,
)
