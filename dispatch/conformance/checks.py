"""All checks of dispatch libraries, in the order in which they run, and the rules that none can look at."""

from __future__ import annotations

from dispatch.conformance import (
    buffer_checks,
    call_checks,
    invocation_checks,
    memory_checks,
    null_checks,
    optional_checks,
    run_checks,
    table_checks,
    thread_checks,
)
from dispatch.conformance.subject import DispatchSubject
from litert.abi.conformance.checks import BrokenRuleError, Check


def _statuses(subject: DispatchSubject) -> None:
    if subject.loaded.strange:
        raise BrokenRuleError(subject.loaded.strange[0])


CHECKS = (
    *table_checks.CHECKS,
    *call_checks.CHECKS,
    *run_checks.CHECKS,
    *invocation_checks.CHECKS,
    *buffer_checks.CHECKS,
    *memory_checks.CHECKS,
    *thread_checks.CHECKS,
    *optional_checks.CHECKS,
    *null_checks.CHECKS,
    Check("dispatch.statuses", _statuses, needs=("api.loads",)),
)
