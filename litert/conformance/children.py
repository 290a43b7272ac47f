"""Runs checks in child processes; if a check crashes, hangs or exits, the next checks run in a new process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from litert.conformance.checks import Finding, Outcome, read_finding
from litert.conformance.vendor_calls import CallTrace
from litert.core.errors import LiteRtError
from litert.core.interrupts import on_interrupt
from litert.core.progress import counting
from litert.core.status import Status
from litert.host.child import call_in_child
from litert.model.atomic_file import temporary_file

_MARK = b"\x1e"  # record separator, which begins the line that names a check
_KEPT = 16 << 10
_STDERR = 2

_END_S = 10
_MAX_HANGS = 3
_STOPPED = f"{_MAX_HANGS} checks hung"


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Options of a check of a vendor.

    Attributes:
      models: Paths of the user's models; the checks use these models before the built-in small models of common
        ops.
      soc_model: Name of the SoC model to compile for; "" for the plugin's first SoC model.
      assets: Pairs of a custom code and the path of the op's asset.
      companions: Pairs of a companion file's name and its path; the name has the form `<op>/<relative path>`.
      allow_native_assets: Whether machine code in assets may run in the child processes.
      vendor_options: Values of the plugin's own options, by name.
      references: Pairs of a custom code and the op's reference function, as `file.py:function`.
      rules: Names of the rules to check, together with the rules that they need; empty for all rules.
      tolerance: Largest accepted error of a float output, relative to the sum of the summands' magnitudes. If the
        sum is unknown, the error is relative to the largest element of the output.
      timeout_s: Time limit of each check, in seconds.
      strict: Whether a violated recommendation counts as a broken rule.
    """

    models: Sequence[str] = ()
    soc_model: str = ""
    assets: Sequence[tuple[str, str]] = ()
    companions: Sequence[tuple[str, str]] = ()
    allow_native_assets: bool = False
    vendor_options: Mapping[str, str] = field(default_factory=dict)
    references: Sequence[tuple[str, str]] = ()
    rules: Sequence[str] = ()
    tolerance: float = 0.01
    timeout_s: float = 60
    strict: bool = False


def mark_begins(answers: Iterable[Mapping[str, str]]) -> Iterator[Mapping[str, str]]:
    """Yields the results of `run_checks`; prints each check's key to standard error before the check begins."""
    for answer in answers:
        if key := answer.get("begin"):
            os.write(_STDERR, b"\n%s%s\n" % (_MARK, key.encode()))
        yield answer


class CheckPrints:
    """The text that a child process prints to standard error, split by check."""

    def __init__(self) -> None:
        self._prints: dict[str, bytearray] = {}
        self._current = bytearray()
        self._line = b""

    def add(self, data: bytes) -> None:
        """Adds bytes that the process has printed."""
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            if line.startswith(_MARK):
                key = line[1:].decode("utf-8", "replace")
                self._current = self._prints.setdefault(key, bytearray())
            else:
                self._keep(line + b"\n")
        if len(self._line) > _KEPT:
            self._keep(self._line)
            self._line = b""

    def of(self, key: str) -> str:
        """Returns the beginning of a check's output; call this method after the process has ended."""
        last = self._line if self._current is self._prints.get(key) else b""
        return (self._prints.get(key, b"") + last).decode("utf-8", "replace").strip()

    def _keep(self, data: bytes) -> None:
        self._current.extend(data[: max(0, _KEPT - len(self._current))])


def run_in_children(
    target: str,
    argument: Mapping[str, object],
    *,
    timeout_s: float,
    subject: str,
    num_checks: int = 0,
) -> list[Finding]:
    """Runs all checks of a target, each within a time limit; after a few checks have hung, skips the rest.

    The target is the name of a generator function, `package.module:function`, which yields the same objects as
    `run_checks`.
    The target gets a JSON object, to which this function adds the keys `done`, `stopped`, `trace` and `fatal`;
    `fatal` contains the names of the models that a process was working on when it crashed or hung. The function
    reports the number of finished checks as progress; `num_checks` is the total number, or 0 if it is unknown.

    Raises:
      LiteRtError: A child process could not be started; TIMEOUT_EXPIRED, if a child process was not ready for its
        first check within the time limit.
    """
    findings: list[Finding] = []
    fatal: list[str] = []
    hangs = 0
    is_done = False
    with (
        temporary_file("trace") as trace,
        on_interrupt(lambda: _broken_text(findings)),
        counting(f"check {subject}", num_checks) as tell_done,
    ):
        while not is_done:
            begun, prints, first = "", CheckPrints(), len(findings)
            asked = {
                **argument,
                "done": {finding.key: finding.outcome.value for finding in findings},
                "trace": trace.name,
                "fatal": fatal,
                "stopped": _STOPPED if hangs == _MAX_HANGS else "",
            }
            try:
                for answer in _answers(target, asked, prints, timeout_s, subject):
                    tell_done(len(findings))
                    begun = answer.get("begin", "")
                    if not begun:
                        findings.append(read_finding(answer))
                is_done = True
            except LiteRtError as error:
                is_between = not begun and len(findings) > first  # by an earlier check's thread
                if not (begun or is_between) and error.status is Status.TIMEOUT_EXPIRED:
                    raise _late_start(subject, timeout_s) from error
                if not (begun or is_between) or error.status is Status.UNKNOWN:  # the checks' own
                    raise
                rule, _, case = (begun or findings.pop().key).partition(" (")
                text = error.what.removeprefix(subject).strip()
                function, model = CallTrace.read(trace.fileno())
                if function and not case.startswith(function):
                    text += f", in {function}"
                if model:
                    text += f", with model '{model}'"
                    fatal.append(model)
                text += ", after the check had ended" if is_between else ""
                findings.append(Finding(rule, case.removesuffix(")"), Outcome.FAILED, text))
                hangs += error.status is Status.TIMEOUT_EXPIRED
            findings[first:] = [
                replace(found, printed=prints.of(found.key))
                if found.outcome is Outcome.FAILED
                else found
                for found in findings[first:]
            ]
    return findings


def _broken_text(findings: Sequence[Finding]) -> str:
    broken = {finding.rule: None for finding in findings if finding.outcome is Outcome.FAILED}
    return f"Broken rules so far: {', '.join(broken)}" if broken else ""


def check_end(
    rule: str, target: str, argument: Mapping[str, object], *, timeout_s: float, subject: str
) -> Finding:
    """Checks that a process ends without an error after it has used the vendor's library and released all objects.

    The process first runs the checks of the rules in the argument's `rules`. If the process then crashes or does
    not end, the rule `rule` is broken. The arguments besides `rule` are the same as for `run_in_children`.
    """
    is_doing, last, prints = False, "", CheckPrints()
    asked = {**argument, "done": {}, "trace": "", "stopped": ""}
    try:
        for answer in _answers(target, asked, prints, timeout_s, subject, must_end_well=True):
            is_doing = "begin" in answer
            last = answer.get("begin", last)
            if answer.get("outcome") == Outcome.FAILED:
                return Finding(rule, "", Outcome.UNSEEN, f"needs {answer['rule']}, which is broken")
    except LiteRtError as error:
        if is_doing:
            return Finding(rule, "", Outcome.UNSEEN, "the process ended before its last check")
        if not last and error.status is Status.TIMEOUT_EXPIRED:
            raise _late_start(subject, timeout_s) from error
        text = f"at its end, the process {error.what.removeprefix(subject).strip()}"
        if error.status is Status.TIMEOUT_EXPIRED:
            text = f"the process did not end within {_END_S} s after its last call, and was stopped"
        return Finding(rule, "", Outcome.FAILED, text, prints.of(last))
    return Finding(rule, "", Outcome.PASSED)


def _late_start(subject: str, timeout_s: float) -> LiteRtError:
    return LiteRtError(
        Status.TIMEOUT_EXPIRED,
        f"the process that checks {subject} was not ready for its first check within {timeout_s:g} s",
        hint="Increase the time limit (--timeout).",
    )


def _answers(
    target: str,
    argument: Mapping[str, object],
    prints: CheckPrints,
    timeout_s: float,
    subject: str,
    *,
    must_end_well: bool = False,
) -> Iterator[dict[str, str]]:
    for answer in call_in_child(
        target,
        argument,
        timeout_s=timeout_s,
        subject=subject,
        hear=prints.add,
        is_for_each=True,
        end_s=_END_S if must_end_well else 0,
    ):
        assert isinstance(answer, dict)
        yield answer
