"""Checks runs: written outputs, equal outputs of repeated runs, missing buffers, and remaining locks."""

from __future__ import annotations

from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage
from litert.conformance.dispatch_rules.first_run import RUNS, RUNS_THE_SAME
from litert.conformance.dispatch_subject import CheckedCall, DispatchSubject, for_each_kind


def _written(subject: DispatchSubject) -> None:
    patterns = (0x11, 0x77)
    results = []
    with subject.call() as call:
        for pattern in patterns:
            for buffer in call.outputs:
                buffer.write(bytes([pattern]) * buffer.size)
            results.append(call.run(subject.case.data))
    for index, outputs in enumerate(zip(*results, strict=True)):
        kept = sum(found == patterns for found in zip(*outputs, strict=True))
        if kept:
            raise BrokenRuleError(
                f"the run left {kept} of the {len(outputs[0])} bytes of output {index} unwritten"
            )


def _repeatable(subject: DispatchSubject) -> None:
    with subject.call() as call:
        first = call.run(subject.case.data)
        call.run(subject.other_data(2))
        call.expect(
            first,
            "the outputs of the third run differ from the outputs of the first run "
            "with the same inputs",
        )


def _missing(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.device(case) as device, CheckedCall(device, case) as call:
        status = device.table.call("invoke", call.context)
        if not status:
            raise BrokenRuleError("invoke returns OK although no buffer is attached")
        call.attach_all()
        call.run(case.data)


def _missing_again(subject: DispatchSubject, kind: str) -> None:
    case = subject.case
    with subject.call() as call:
        expected = call.run(case.data)
        handle = call.group(kind)[0].registered
        call.table.succeed(f"detach_{kind}", call.context, 0, handle)
        if not call.table.call("invoke", call.context):
            raise BrokenRuleError(f"invoke returns OK although {kind} 0 is detached")
        call.table.succeed(f"attach_{kind}", call.context, 0, handle)
        call.expect(expected, f"the outputs are wrong after {kind} 0 was attached again")


def _unlocks(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.device(case) as device, CheckedCall(device, case) as call:
        device.table.host.take_lock_fault()
        call.attach_all()
        call.run(case.data)
        if fault := device.table.host.take_lock_fault():
            raise BrokenRuleError(f"after a run {fault}")
        call.table.succeed("detach_output", call.context, 0, call.outputs[0].registered)
        status = call.table.call("invoke", call.context)
        if status and (fault := device.table.host.take_lock_fault()):
            raise BrokenRuleError(f"after a failed run, {fault}")


RULES = Rules(
    Stage.WORK,
    (
        Check("invoke.written", _written, needs=RUNS),
        Check("invoke.repeatable", _repeatable, needs=RUNS),
        Check("invoke.missing", _missing, "nothing attached", RUNS),
        *for_each_kind("invoke.missing", _missing_again, RUNS_THE_SAME, "a detached {}"),
        Check("invoke.unlocks", _unlocks, needs=RUNS),
    ),
)
