"""Checks the values of outputs, for each probe and for the user's models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations

from litert.conformance.case import Case
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage, UnseenError
from litert.conformance.dispatch_rules.first_run import RUNS
from litert.conformance.dispatch_subject import DispatchSubject
from litert.conformance.expected import NO_KERNEL
from litert.conformance.probe import OTHERS, VALUES, Probe, find_probes

_ORDER = "values.input_order"
_NEEDS = (*RUNS, "invoke.written")
_ADVICE = (
    "an NPU call gets its inputs in the order of the subgraph, which may differ from the order of "
    "the op"
)


def _probe_order(subject: DispatchSubject, name: str) -> None:
    for case in _cases_of(subject, name):
        if swap := _find_swap(subject, case, subject.run(case)):
            raise BrokenRuleError(swap)


def _probe_values(subject: DispatchSubject, name: str) -> None:
    _compare(subject, _cases_of(subject, name), name)


def _other_values(subject: DispatchSubject) -> None:
    """Compares the outputs of the user's models and of models with custom ops, which are not probes."""
    names = {probe.name for probe in find_probes()}
    cases = [case for case in subject.cases if case.source not in names]
    compared = [case for case in cases if case.expected is not None]
    if cases and not compared:
        raise UnseenError(NO_KERNEL)
    _compare(subject, compared)


def _cases_of(subject: DispatchSubject, name: str) -> list[Case]:
    """Returns the cases that were compiled from a probe; raises `UnseenError` if there are no such cases."""
    cases = [case for case in subject.cases if case.source == name]
    if subject.case and not cases:
        raise UnseenError(subject.left.get(name, "the plugin did not compile the probe"))
    return cases


def _compare(subject: DispatchSubject, cases: Sequence[Case], source: str = "") -> None:
    """Runs all cases and writes their outputs to files; raises if outputs are wrong."""
    wrong = []
    for case in cases:
        found = subject.run(case)
        for path, data in zip(case.found, found, strict=True):
            with open(path, "wb") as file:
                file.write(data)
        differences = enumerate(case.differences(found, subject.tolerance))
        told = [f"output {index}: {each}" for index, each in differences if not each.is_allowed]
        if told:
            place = case.name.removeprefix(source).removeprefix(", ")
            swap = _find_swap(subject, case, found)
            text = "; ".join(filter(None, (*told, swap)))
            wrong.append(f"{place}, {text}" if place else text)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if wrong[1:] else ""
        raise BrokenRuleError(f"{wrong[0]}{more}")


def _find_swap(subject: DispatchSubject, case: Case, found: Sequence[bytes]) -> str:
    """Returns a phrase about two swapped inputs that would explain wrong outputs; "" if there are none."""

    def is_right(outputs: Sequence[bytes]) -> bool:
        return all(each.is_allowed for each in case.differences(outputs, subject.tolerance))

    if is_right(found):
        return ""
    for first, second in combinations(range(len(case.inputs)), 2):
        if case.inputs[first] == case.inputs[second]:
            data = list(case.data)
            data[first], data[second] = data[second], data[first]
            if is_right(subject.run(case, data)):
                return f"the outputs match if inputs {first} and {second} are swapped: {_ADVICE}"
    return ""


def _checks(probes: Sequence[Probe]) -> Iterator[Check[DispatchSubject]]:
    """Makes the checks of probes; the check of a probe follows the checks of the probes that this probe needs."""
    keys: dict[str, list[str]] = {}
    for probe in probes:
        needs = [*_NEEDS, *(key for name in probe.needs for key in keys[name])]
        found = []
        if probe.is_ordered:
            found.append(Check(_ORDER, partial(_probe_order, name=probe.name), probe.name, needs))
        needs = [*needs, *(check.key for check in found)]
        found.append(Check(probe.rule, partial(_probe_values, name=probe.name), probe.name, needs))
        keys[probe.name] = [check.key for check in found]
        yield from found


RULES = Rules(
    Stage.WORK,
    (
        *_checks(find_probes()),
        Check(VALUES, _other_values, OTHERS, _NEEDS),
    ),
)
