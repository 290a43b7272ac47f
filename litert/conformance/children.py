"""Runs checks in child processes: one that crashes, hangs or exits is a finding, and the next run in another."""

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
    """How a vendor is checked.

    Attributes:
      models: files; what follows them is small models of common ops.
      soc_model: to compile for; "" for the plugin's first.
      assets: pairs of an op and its asset's path.
      companions: pairs of a name, `<op>/<relative path>`, and a path.
      allow_native_assets: whether machine code in assets may run.
      vendor_options: the plugin's own, by name.
      references: pairs of a custom op and its reference, `file.py:function`.
      rules: to look at, with what they need; none for all.
      tolerance: of floats, as a part of the magnitudes that an op sums, or of the largest output.
      timeout_s: for each check.
      strict: whether recommendations are rules.
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
    """Answers of `run_checks` as they are; each check that begins is named on standard error before it does."""
    for answer in answers:
        if key := answer.get("begin"):
            os.write(_STDERR, b"\n%s%s\n" % (_MARK, key.encode()))
        yield answer


class CheckPrints:
    """What came on a process's standard error, by the check in which it was printed."""

    def __init__(self) -> None:
        self._prints: dict[str, bytearray] = {}
        self._current = bytearray()
        self._line = b""

    def add(self, data: bytes) -> None:
        """Takes the next bytes."""
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
        """The first of what was printed in a check, once the process has ended."""
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
    """Runs all checks of a target, of which each has a time limit; after a few that hang, no other is run.

    The target is a generator function, `package.module:function`, that yields what `run_checks` does. It gets the
    argument as JSON has it, with `done`, `stopped` and `trace`, and with `fatal`: names of the models with which
    processes ended. Progress is told in checks, of which there are
    `num_checks`; 0 where nobody knows.

    Raises:
      LiteRtError: what keeps a child from beginning at all.
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
                is_between = not begun and len(findings) > first  # a thread that a check has left
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
                text += ", once the check was done" if is_between else ""
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
    """Looks at the end of a process that has used the vendor and released all.

    The finding is of `rule`; the process does what the argument's `rules` are about. For the rest see
    `run_in_children`.
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
            return Finding(rule, "", Outcome.UNSEEN, "the process does not come to its end")
        text = f"at its end, the process {error.what.removeprefix(subject).strip()}"
        if error.status is Status.TIMEOUT_EXPIRED:
            text = f"{_END_S} s after its last call, the process has not ended, and was stopped"
        return Finding(rule, "", Outcome.FAILED, text, prints.of(last))
    return Finding(rule, "", Outcome.PASSED)


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
