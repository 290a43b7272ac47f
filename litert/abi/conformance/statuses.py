"""What a vendor's functions answer, and what they may."""

from __future__ import annotations

from litert.abi.conformance.checks import BrokenRuleError
from litert.core.status import Status


def expect_status(what: str, status: int, *allowed: Status) -> None:
    """Raises where a function answers anything else."""
    if status not in allowed:
        names = " or ".join(str(each.name) for each in allowed)
        raise BrokenRuleError(f"{what} answers {status_name(status)}, and not {names}")


def is_status(number: int) -> bool:
    """Whether a number is one of `LiteRtStatus`."""
    return number in Status._value2member_map_


def status_name(number: int) -> str:
    """A status, for people."""
    return Status(number).name if is_status(number) else f"{number}, which is no status"
