"""Defines the checks of a vendor against the contract, finds the checks in modules, and runs them.

A check is a function that raises `BrokenRuleError` if the vendor breaks a rule of the contract. If the function
raises this error or its process ends, the report lists the rule as broken.
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
    """The error that a vendor breaks a rule; its text is a phrase that says what the vendor did."""


class UnseenError(Exception):
    """The error that a rule cannot be checked for this vendor; its text is a phrase that says why."""


class Outcome(str, Enum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOTE = "note"
    """The check failed, but its rule is only a recommendation."""
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class Check(Generic[Subject]):
    """A check of a rule.

    Attributes:
      rule: Name of the rule in the contract.
      run: Function that runs the check. The function raises `BrokenRuleError` or a `LiteRtError` if the rule is
        broken, and `UnseenError` if the rule cannot be checked.
        An exception of another type is a bug in the check.
      case: A few words that distinguish this check from other checks of the same rule; "" if the rule has only one
        check.
      needs: Names of rules or keys of checks that this check needs; if one of these fails, this check is skipped.
    """

    rule: str
    run: Callable[[Subject], object]
    case: str = ""
    needs: Sequence[str] = ()

    @property
    def key(self) -> str:
        """The check's unique name."""
        return f"{self.rule} ({self.case})" if self.case else self.rule


class Stage(IntEnum):
    """The stage in which a module's checks run; modules of the same stage run in the order of their names."""

    BEGINNING = 0
    """The library's start, and what the library reports about itself."""
    TRANSFORMATIONS = 1
    WORK = 2
    """Compilations by a plugin, or runs by a dispatch library."""
    VARIATIONS = 3
    """Variations of compilations and runs: several calls at once, other memory, wrong arguments."""
    OPTIONAL_PARTS = 4
    ANSWERS = 5
    """Wrong calls of all functions, and a check of the statuses from all calls so far."""


@dataclass(frozen=True, slots=True)
class Rules(Generic[Subject]):
    """The rules that a module of `plugin_rules` or `dispatch_rules` declares in its constant `RULES`.

    Attributes:
      checks: The checks in the order in which they run; each check comes after the checks that it needs.
      sentences: Texts of the rules that are not in any header, by the rule's name. A rule whose text begins with
        `Recommended:` is only a recommendation, unless `--strict` is given.
    """

    stage: Stage
    checks: Sequence[Check[Subject]]
    sentences: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check: `text` is "" for a passed check, and `printed` is "" unless the check failed."""

    rule: str
    case: str
    outcome: Outcome
    text: str = ""
    printed: str = ""

    @property
    def key(self) -> str:
        """The check's unique name."""
        return f"{self.rule} ({self.case})" if self.case else self.rule


@cache
def load_rules(package: str) -> Mapping[str, Rules[Any]]:
    """Imports the modules of the package `PLUGIN_RULES` or `DISPATCH_RULES`, and returns their `RULES`."""
    return load_package(package, "RULES", lambda rules: rules.checks[0].key)


def find_checks(package: str) -> list[Check[Any]]:
    """Returns all checks of `PLUGIN_RULES` or `DISPATCH_RULES`, in the order in which they run."""
    by_stage = sorted(load_rules(package).values(), key=lambda rules: rules.stage)
    return [check for rules in by_stage for check in rules.checks]


def read_rules() -> Mapping[str, Rule]:
    """Returns all rules by name: the rules in the headers, and the rules that modules of checks define."""
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
    """Makes a check that a function refuses NULL; `run` gets the function and the index of the argument."""
    case = f"{function}, argument {place}"
    return Check(rule, partial(run, function=function, place=place), case, needs)


def read_finding(answer: Mapping[str, str]) -> Finding:
    """Makes a finding from an object that `run_checks` yields after a check."""
    return Finding(answer["rule"], answer["case"], Outcome(answer["outcome"]), answer["text"])


def is_named(rule: str, names: Container[str]) -> bool:
    """Returns whether `names` contains the rule's name, or the part of the rule's name before the dot."""
    return rule in names or rule.partition(".")[0] in names


def select(checks: Sequence[Check[Subject]], names: Sequence[str]) -> list[Check[Subject]]:
    """Selects the checks of some rules, and the checks that these checks need, in order.

    Each element of `names` is a rule's name, or the part of rules' names before the dot. If there are no names,
    all checks are
    selected.
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
    """Runs checks one after another in this process; a check may crash the process.

    Args:
      checks: The checks to run, in order; each check comes after the checks that it needs.
      subject: The vendor's library to check.
      done: Outcomes of the checks that earlier processes have run, by the check's key.
      stopped: Reason why all further checks are skipped; "" if the checks run.

    Yields:
      For each check, an object `{"begin": key}` before the check, and then, after the check, an object with the
      fields of the finding.
    """
    # Rules and keys that failed or were skipped, each with the broken rule that caused it.
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
