"""The report about the checks of a vendor, as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from textwrap import wrap
from typing import TYPE_CHECKING

from litert.conformance.checks import Finding, Outcome, is_named
from litert.core.counts import count_text
from litert.core.plain_report import PlainReport

from ..console import json_text, name_text
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
    "compile.subgraphs": "the rule invoke.values already compares the outputs of calls",
}
"""Rules without a check of their own, with the reasons."""

_WORK = {"compile.ok": "nothing was compiled", "dispatch.runs": "nothing was run"}
"""For each rule on which most other rules depend: a phrase for the report if the rule was not checked."""


@dataclass(frozen=True, slots=True)
class CheckedLibrary:
    """A library, with the findings in the order of the checks, and with notes about the checks."""

    title: str
    origin: str
    findings: Sequence[Finding]
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """The result of a single check, which tests one rule.

    Attributes:
      rule: Name of the rule.
      case: Name of this check, if the rule has several checks; "" if the rule has one check.
      outcome: `note` means a broken recommendation; `unseen` means that the rule was not checked.
      text: Description of the fault; "" if the check passed.
      printed: Output of the vendor's process during a failed check; "" if the check did not fail.
      contract: Text of the rule.
      where: Header and function whose comments contain the rule.
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
      origin: Place where the library was found.
      remarks: Sentences about the checks.
      findings: A finding for each check.
    """

    title: str
    origin: str
    remarks: Sequence[str]
    findings: Sequence[RuleFinding]


@dataclass(frozen=True, slots=True)
class VendorFindings(PlainReport):
    """All findings about a vendor.

    Attributes:
      vendor: Name of the vendor.
      conforms: Whether at least one rule was checked, and the vendor breaks no rule except recommendations.
      gaps: Phrases about work that the vendor did not do, such as "nothing was run"; empty if there are none.
      counts: Numbers of checks by their outcome.
      parts: Reports about the vendor's libraries.
      compared: Models whose outputs were compared with LiteRT's CPU kernels, or the reasons why outputs were not
        compared.
      not_checkable: Rules without a check of their own, with the reasons.
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
    """All findings about a vendor.

    Attributes:
      vendor: Name of the vendor.
      parts: Reports about the vendor's libraries.
      contract: All rules, by name.
      compared: See `VendorFindings`.
      asked: Names of the rules to check; empty for all rules.
    """

    vendor: str
    parts: Sequence[CheckedLibrary]
    contract: Mapping[str, Rule]
    compared: Sequence[ComparedValues] = ()
    asked: Sequence[str] = ()

    @property
    def findings(self) -> Sequence[Finding]:
        """The findings about all libraries of the vendor."""
        return [finding for part in self.parts for finding in part.findings]

    @property
    def has_failed(self) -> bool:
        """Whether the vendor breaks a rule that is more than a recommendation."""
        return any(finding.outcome is Outcome.FAILED for finding in self.findings)

    @property
    def conforms(self) -> bool:
        """Whether a requested rule was checked, and the vendor breaks no rule except recommendations."""
        asked = (f for f in self.findings if not self.asked or is_named(f.rule, self.asked))
        is_looked_at = any(finding.outcome is not Outcome.UNSEEN for finding in asked)
        return is_looked_at and not self.has_failed

    @property
    def gaps(self) -> Sequence[str]:
        """Phrases about work that the vendor did not do, such as "nothing was run"; empty if there are none."""
        unseen = {f.rule for f in self.findings if f.outcome is Outcome.UNSEEN}
        return [phrase for rule, phrase in _WORK.items() if rule in unseen]

    def to_json(self) -> str:
        """Returns the whole report as a JSON object."""
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
        """Returns the report as text: a block of lines for each broken rule, and lines about unchecked rules.

        If `verbose`, the text also lists all passed checks.
        """
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
            lines += _indented(f"{rule} has no check of its own, because {why}.", 0)
        counts = ", ".join(
            f"{self._count(outcome)} {word}"
            for outcome, word in (
                (Outcome.PASSED, "passed"),
                (Outcome.FAILED, "failed"),
                (Outcome.NOTE, "recommended but broken"),
                (Outcome.UNSEEN, "not checked"),
            )
        )
        answer = "breaks the contract" if self.has_failed else "keeps the contract"
        if not (self.conforms or self.has_failed):
            answer = f"was not checked: {', '.join(self.asked) or 'no rule'} could not be checked"
        elif self.gaps and not self.has_failed:
            answer = f"breaks none of the checked rules, but {' and '.join(self.gaps)}"
        checks = count_text(len(self.findings), "check")
        return "\n".join([*lines, f"{name_text(self.vendor)} {answer}: {checks}, {counts}."])

    def _values(self) -> list[str]:
        """Returns a table of compared outputs, and lines about outputs that were not compared, by reason."""
        lines = list(table_lines(self.compared))
        for why, names in left_out(self.compared).items():
            lines += _indented(f"not compared, because {name_text(why)}: {', '.join(names)}", 2)
        return [*lines, ""] if lines else []

    def _count(self, outcome: Outcome) -> int:
        return sum(finding.outcome is outcome for finding in self.findings)

    def _broken(self, part: CheckedLibrary, outcome: Outcome) -> list[str]:
        """Returns a block of lines for each broken rule, with the faults that its checks found."""
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
        """Lists unchecked rules by reason, except rules in the table of compared outputs."""
        lines: list[str] = []
        told = {row.check for row in self.compared}
        findings = [finding for finding in part.findings if finding.case not in told]
        for reason, found in _group(findings, Outcome.UNSEEN, lambda f: f.text).items():
            rules = ", ".join(dict.fromkeys(finding.rule for finding in found))
            lines += _indented(f"not checked, because {name_text(reason)}: {rules}", 2)
        return lines


def with_recommendations(
    findings: Sequence[Finding], contract: Mapping[str, Rule], *, strict: bool
) -> list[Finding]:
    """Turns findings about broken recommendations into notes, unless `strict` is true."""
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
    """Returns the findings with an outcome, grouped by a key."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.outcome is outcome:
            groups.setdefault(key(finding), []).append(finding)
    return groups


def _printed(text: str) -> list[str]:
    """Returns the first lines that a process printed, not wrapped, so that users can search for them."""
    lines = [line.strip() for line in text.splitlines() if line.strip("= \t")]
    more = ["…"] if len(lines) > _PRINTED_LINES else []
    return [f"            | {name_text(line)}" for line in [*lines[:_PRINTED_LINES], *more]]


def _indented(text: str, indent: int = 10) -> list[str]:
    first, other = " " * indent, " " * (indent + 2)
    return wrap(text, _WIDTH, initial_indent=first, subsequent_indent=other)
