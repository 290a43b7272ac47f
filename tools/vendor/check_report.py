"""What the checks of a vendor came to, for people and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from textwrap import wrap
from typing import TYPE_CHECKING

from litert.conformance.checks import Finding, Outcome, is_named
from litert.core.plain_report import PlainReport

from ..console import count_text, json_text, name_text
from .compared_values import ComparedValues, left_out, table_lines

if TYPE_CHECKING:
    from litert.abi.headers import Rule

_WIDTH = 100
_PRINTED_LINES = 8
_SIGNS = {
    Outcome.PASSED: "ok",
    Outcome.NOTE: "note",
    Outcome.FAILED: "FAILED",
    Outcome.UNSEEN: "-",
}

NOT_CHECKABLE = {
    "compile.subgraphs": "what the calls give is compared by invoke.values",
}
"""Rules without a check of their own, and why."""

_WORK = {"compile.ok": "nothing was compiled", "dispatch.runs": "nothing was run"}
"""Rules without which the others say little of a vendor, and what it means that one was not looked at."""


@dataclass(frozen=True, slots=True)
class CheckedLibrary:
    """The findings of one library, in the order of the checks, and sentences about what was checked."""

    title: str
    origin: str
    findings: Sequence[Finding]
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """What one check came to, with the rule that it looks at.

    Attributes:
      rule: its name.
      case: which of several checks of the rule; "" for the only one.
      outcome: `note` is a broken rule that is only recommended; `unseen` was not looked at.
      text: what was found; "" where the check passed.
      printed: what the process printed; "" where the check did not fail.
      contract: the rule's sentences.
      where: the header and function that the rule is written at.
    """

    rule: str
    case: str
    outcome: Outcome
    text: str
    printed: str
    contract: str
    where: str


@dataclass(frozen=True, slots=True)
class LibraryFindings:
    """The findings of one library, in the order of the checks.

    Attributes:
      title: `compiler plugin` or `dispatch library`.
      origin: where the library was found.
      remarks: sentences about what was checked.
      findings: one for each check.
    """

    title: str
    origin: str
    remarks: Sequence[str]
    findings: Sequence[RuleFinding]


@dataclass(frozen=True, slots=True)
class VendorFindings(PlainReport):
    """All that was found of a vendor.

    Attributes:
      vendor: its name.
      conforms: whether rules were looked at, and no rule is broken that is more than recommended.
      gaps: why that says little, in phrases; empty where the vendor has done its work.
      counts: checks by their outcome.
      parts: the vendor's libraries.
      compared: models whose outputs were compared with LiteRT's on the CPU, or why they were not.
      not_checkable: rules without a check of their own, and why.
    """

    vendor: str
    conforms: bool
    gaps: Sequence[str]
    counts: Mapping[str, int]
    parts: Sequence[LibraryFindings]
    compared: Sequence[ComparedValues]
    not_checkable: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """All that was found of a vendor.

    Attributes:
      vendor: its name.
      parts: its libraries.
      contract: all rules, by name.
      compared: see `VendorFindings`.
      asked: the rules that were asked for; none for all.
    """

    vendor: str
    parts: Sequence[CheckedLibrary]
    contract: Mapping[str, Rule]
    compared: Sequence[ComparedValues] = ()
    asked: Sequence[str] = ()

    @property
    def findings(self) -> Sequence[Finding]:
        """Of all parts."""
        return [finding for part in self.parts for finding in part.findings]

    @property
    def has_failed(self) -> bool:
        """Whether a rule is broken that is more than recommended."""
        return any(finding.outcome is Outcome.FAILED for finding in self.findings)

    @property
    def conforms(self) -> bool:
        """Whether rules that were asked for were looked at, and none is broken that is more than recommended."""
        asked = (f for f in self.findings if not self.asked or is_named(f.rule, self.asked))
        is_looked_at = any(finding.outcome is not Outcome.UNSEEN for finding in asked)
        return is_looked_at and not self.has_failed

    @property
    def gaps(self) -> Sequence[str]:
        """Why that no rule is broken says little, in phrases; none where the vendor has done its work."""
        unseen = {f.rule for f in self.findings if f.outcome is Outcome.UNSEEN}
        return [phrase for rule, phrase in _WORK.items() if rule in unseen]

    def to_json(self) -> str:
        """All of it, as one JSON object."""
        parts = [
            LibraryFindings(
                part.title,
                part.origin,
                part.remarks,
                [
                    RuleFinding(
                        **asdict(finding),
                        contract=self.contract[finding.rule].text,
                        where=self.contract[finding.rule].where,
                    )
                    for finding in part.findings
                ],
            )
            for part in self.parts
        ]
        counts = {outcome.value: self._count(outcome) for outcome in Outcome}
        values = VendorFindings(
            self.vendor, self.conforms, self.gaps, counts, parts, self.compared, NOT_CHECKABLE
        )
        return json_text(values.to_values())

    def to_text(self, *, verbose: bool = False) -> str:
        """A block for each rule that is broken, and what was not looked at; all checks where `verbose`."""
        lines: list[str] = []
        for part in self.parts:
            lines.append(f"{name_text(self.vendor)}, {part.title}: {name_text(part.origin)}")
            for outcome in (Outcome.FAILED, Outcome.NOTE):
                lines += self._broken(part, outcome)
            if verbose:
                passed = [f.key for f in part.findings if f.outcome is Outcome.PASSED]
                lines += [f"  {_SIGNS[Outcome.PASSED]:6}  {key}" for key in passed]
            lines += self._unseen(part)
            for remark in part.remarks:
                lines += _indented(name_text(remark), 2)
            lines.append("")
        lines += self._values()
        for rule, why in NOT_CHECKABLE.items():
            lines += _indented(f"{rule} cannot be checked, since {why}.", 0)
        counts = ", ".join(
            f"{self._count(outcome)} {word}"
            for outcome, word in (
                (Outcome.PASSED, "passed"),
                (Outcome.FAILED, "failed"),
                (Outcome.NOTE, "broken that are only recommended"),
                (Outcome.UNSEEN, "not looked at"),
            )
        )
        answer = "breaks the contract" if self.has_failed else "keeps the contract"
        if not (self.conforms or self.has_failed):
            answer = f"was not checked: {', '.join(self.asked) or 'no rule'} could not be looked at"
        elif self.gaps and not self.has_failed:
            answer = f"breaks no rule that was looked at, but {' and '.join(self.gaps)}"
        checks = count_text(len(self.findings), "check")
        return "\n".join([*lines, f"{name_text(self.vendor)} {answer}: {checks}, {counts}."])

    def _values(self) -> list[str]:
        """What was compared, and what was not, by reason."""
        lines = list(table_lines(self.compared))
        for why, names in left_out(self.compared).items():
            lines += _indented(f"not compared, since {name_text(why)}: {', '.join(names)}", 2)
        return [*lines, ""] if lines else []

    def _count(self, outcome: Outcome) -> int:
        return sum(finding.outcome is outcome for finding in self.findings)

    def _broken(self, part: CheckedLibrary, outcome: Outcome) -> list[str]:
        """A block for each rule, with what happened in each of its checks."""
        lines: list[str] = []
        for name, found in _group(part.findings, outcome, lambda f: f.rule).items():
            rule = self.contract[name]
            lines.append(f"  {_SIGNS[outcome]:6}  {name}")
            lines += _indented(f"{rule.where}: {rule.text}")
            for text, of in _group(found, outcome, lambda f: f.text).items():
                named = f"{'; '.join(f.case for f in of)}: " if any(f.case for f in of) else ""
                lines += [*_indented(f"- {named}{name_text(text)}"), *_printed(of[0].printed)]
        return lines

    def _unseen(self, part: CheckedLibrary) -> list[str]:
        """What was not looked at, by reason, but for what the table of values says."""
        lines: list[str] = []
        told = {row.check for row in self.compared}
        findings = [finding for finding in part.findings if finding.case not in told]
        for reason, found in _group(findings, Outcome.UNSEEN, lambda f: f.text).items():
            rules = ", ".join(dict.fromkeys(finding.rule for finding in found))
            lines += _indented(f"not looked at, since {name_text(reason)}: {rules}", 2)
        return lines


def with_recommendations(
    findings: Sequence[Finding], contract: Mapping[str, Rule], *, strict: bool
) -> list[Finding]:
    """Makes notes of the broken rules that are only recommended, unless all are to be kept."""
    return [
        replace(finding, outcome=Outcome.NOTE)
        if finding.outcome is Outcome.FAILED
        and contract[finding.rule].is_recommended
        and not strict
        else finding
        for finding in findings
    ]


def _group(
    findings: Sequence[Finding], outcome: Outcome, key: Callable[[Finding], str]
) -> Mapping[str, list[Finding]]:
    """The findings of an outcome, those of a key together."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.outcome is outcome:
            groups.setdefault(key(finding), []).append(finding)
    return groups


def _printed(text: str) -> list[str]:
    """The first lines that a process printed, as they are: wrapped, nobody could look for them."""
    lines = [line.strip() for line in text.splitlines() if line.strip("= \t")]
    more = ["…"] if len(lines) > _PRINTED_LINES else []
    return [f"            | {name_text(line)}" for line in [*lines[:_PRINTED_LINES], *more]]


def _indented(text: str, indent: int = 10) -> list[str]:
    first, other = " " * indent, " " * (indent + 2)
    return wrap(text, _WIDTH, initial_indent=first, subsequent_indent=other)
