"""All checks of dispatch libraries, in the order in which they run, and the rules that none can look at."""

from __future__ import annotations

from dispatch.conformance import (
    buffer_checks,
    null_checks,
    optional_checks,
    run_checks,
    table_checks,
    thread_checks,
)

CHECKS = (
    *table_checks.CHECKS,
    *run_checks.CHECKS,
    *buffer_checks.CHECKS,
    *thread_checks.CHECKS,
    *optional_checks.CHECKS,
    *null_checks.CHECKS,
)
