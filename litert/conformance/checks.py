"""Checks of a vendor against the contract: what a check is, where checks are, and how a list of them runs.

A check is a function that raises `BrokenRuleError`, with what the vendor did; whether it raises or ends the
process, what is reported is the rule that it is of.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cache, partial
from typing import Any, Generic, TypeVar

from litert.abi.headers import Rule, read_contract
from litert.core.errors import LiteRtError
from litert.host.extensions import load_package

Subject = TypeVar("Subject")

PLUGIN_RULES = "litert.conformance.plugin_rules"
DISPATCH_RULES = "litert.conformance.dispatch_rules"


class BrokenRuleError(Exception):
    """What the vendor did that the rule forbids, in a phrase."""


class UnseenError(Exception):
    """Why a rule could not be looked at in this vendor, in a phrase."""


class Outcome(str, Enum):
    """What a check came to."""

    PASSED = "passed"
    FAILED = "failed"
    NOTE = "note"
    """Failed, but the rule is only recommended."""
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class Check(Generic[Subject]):
    """One look at one rule.

    Attributes:
      rule: its name in the contract.
      run: raises `BrokenRuleError` or `UnseenError`; a `LiteRtError` is a broken rule, too. Any other exception is
        a defect of the check.
      case: what distinguishes it from other checks of the rule, in a few words; "" for the only one.
      needs: names of rules, or keys of checks; where one of them is broken, this one would say nothing of its own.
    """

    rule: str
    run: Callable[[Subject], object]
    case: str = ""
    needs: Sequence[str] = ()

    @property
    def key(self) -> str:
        """Its name; no other check has it."""
        return f"{self.rule} ({self.case})" if self.case else self.rule


class Stage(IntEnum):
    """When the checks of a module run; those of one stage run in the order of their modules' names."""

    BEGINNING = 0
    """What a library says of itself, and its life up to the first work."""
    TRANSFORMATIONS = 1
    WORK = 2
    """It compiles, or runs."""
    VARIATIONS = 3
    """Of the work: several at once, other memory, wrong arguments."""
    OPTIONAL_PARTS = 4
    ANSWERS = 5
    """Wrong calls of all functions, and what any call before has answered."""


@dataclass(frozen=True, slots=True)
class Rules(Generic[Subject]):
    """What a module of `plugin_rules` or `dispatch_rules` has as its `RULES`.

    Attributes:
      checks: in their order; those that others need come first.
      sentences: what must hold, by the rule's name, where no header says it. One that begins with `Recommended:`
        is no rule unless `--strict` is given.
    """

    stage: Stage
    checks: Sequence[Check[Subject]]
    sentences: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check came to; `text` is "" where it passed, and `printed` where it did not fail."""

    rule: str
    case: str
    outcome: Outcome
    text: str = ""
    printed: str = ""

    @property
    def key(self) -> str:
        """The check's name."""
        return f"{self.rule} ({self.case})" if self.case else self.rule


@cache
def load_rules(package: str) -> Mapping[str, Rules[Any]]:
    """What the modules of `PLUGIN_RULES` or `DISPATCH_RULES` have; imported once in a process."""
    return load_package(package, "RULES", lambda rules: rules.checks[0].key)


def find_checks(package: str) -> list[Check[Any]]:
    """All checks of `PLUGIN_RULES` or `DISPATCH_RULES`, in the order in which they run."""
    by_stage = sorted(load_rules(package).values(), key=lambda rules: rules.stage)
    return [check for rules in by_stage for check in rules.checks]


def read_rules() -> Mapping[str, Rule]:
    """All rules by name: those of the headers, and those that modules have sentences for."""
    own = {
        name: Rule(name, sentence, function="", header=package, line=0)
        for package in (PLUGIN_RULES, DISPATCH_RULES)
        for rules in load_rules(package).values()
        for name, sentence in rules.sentences.items()
    }
    return {**read_contract(), **own}


def null_check(
    rule: str, run: Callable[..., None], function: str, place: int, needs: Sequence[str]
) -> Check[Any]:
    """The check that a function refuses NULL as one of its arguments; `run` gets both by keyword."""
    case = f"{function}, argument {place}"
    return Check(rule, partial(run, function=function, place=place), case, needs)


def read_finding(answer: Mapping[str, str]) -> Finding:
    """What `run_checks` yields behind a check's beginning."""
    return Finding(answer["rule"], answer["case"], Outcome(answer["outcome"]), answer["text"])


def is_named(rule: str, names: Container[str]) -> bool:
    """Whether names of rules, or what comes before the dot in them, have this rule."""
    return rule in names or rule.partition(".")[0] in names


def select(checks: Sequence[Check[Subject]], names: Sequence[str]) -> list[Check[Subject]]:
    """The checks of some rules, and those that they need, in their order.

    Names are those of rules, or what comes before the dot in them; none is all.
    """
    if not names:
        return list(checks)
    wanted, chosen = set(names), set()
    for check in reversed(checks):
        if is_named(check.rule, wanted) or check.key in wanted:
            chosen.add(check.key)
            wanted.update(check.needs)
    return [check for check in checks if check.key in chosen]


def run_checks(
    checks: Sequence[Check[Subject]],
    subject: Subject,
    done: Mapping[str, str],
    stopped: str = "",
) -> Iterator[dict[str, str]]:
    """Runs checks one after another, in this process, which may not survive it.

    Args:
      checks: in their order; those whose rules the others need come first.
      subject: the vendor.
      done: outcomes of checks that ran in processes before this one, by key.
      stopped: why none is run any more; "" where they are.

    Yields:
      `{"begin": key}` before each check, and then a finding's fields.
    """
    # Rules and keys that cannot be relied on, and the rule that is broken.
    blocked: dict[str, str] = {}
    for check in checks:
        cause = next((blocked[name] for name in check.needs if name in blocked), "")
        if check.key not in done:
            yield {"begin": check.key}
            reason = f"needs {cause}, which is broken" if cause else stopped
            outcome, text = (Outcome.UNSEEN, reason) if reason else _look(check, subject)
            yield {"rule": check.rule, "case": check.case, "outcome": outcome.value, "text": text}
        else:
            outcome = Outcome(done[check.key])
        if outcome is Outcome.FAILED or cause:
            for name in (check.rule, check.key):
                blocked.setdefault(name, cause or name)


def _look(check: Check[Subject], subject: Subject) -> tuple[Outcome, str]:
    try:
        check.run(subject)
    except UnseenError as reason:
        return Outcome.UNSEEN, str(reason)
    except (BrokenRuleError, LiteRtError) as error:
        return Outcome.FAILED, str(error)
    return Outcome.PASSED, ""
