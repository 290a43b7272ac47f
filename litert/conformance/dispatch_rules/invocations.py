"""Checks invocation contexts: invalid byte code, wrong functions and counts, several contexts, masks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from litert.abi.definitions import ffi
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage, UnseenError
from litert.conformance.dispatch_rules.first_run import RUNS, RUNS_THE_SAME
from litert.conformance.dispatch_subject import CheckedCall, DispatchSubject, create_invocation
from litert.conformance.vendor_calls import expect_status, status_name
from litert.core.status import Status

_GARBAGE = {"zeros": bytes(256), "text": b"no byte code of anybody's" * 20, "one byte": b"\x7f"}
_MISPLACED = 13
_MORE = {"an input more": (1, 0), "an output more": (0, 1), "an input less": (-1, 0)}


def _byte_code_misplaced(subject: DispatchSubject) -> None:
    case = subject.case
    expected = subject.run()
    with subject.device(case) as device:
        byte_code = device.keep(case.byte_code, offset=_MISPLACED)  # at an odd address
        if device.run(case, byte_code) != expected:
            raise BrokenRuleError(
                f"the outputs are wrong if the byte code starts at offset {_MISPLACED}"
            )


def _refuse(subject: DispatchSubject, data: bytes) -> None:
    _expect_refusal(subject, data, f"{len(data)} bytes of invalid byte code", alignment=1)


def _cut(subject: DispatchSubject) -> None:
    byte_code = subject.case.byte_code
    _refuse(subject, byte_code[: len(byte_code) // 2])


def _function(subject: DispatchSubject) -> None:
    name = "no such function"
    _expect_refusal(
        subject, subject.case.byte_code, f"the unknown function '{name}'", function=name
    )


def _expect_refusal(
    subject: DispatchSubject, data: bytes, what: str, *, function: str = "", alignment: int = 64
) -> None:
    with subject.device(subject.case) as device:
        byte_code = device.keep(data, alignment=alignment)
        status, made = create_invocation(device, subject.case, byte_code, function=function)
        if not status:
            device.table.call("invocation_context_destroy", made)
            raise BrokenRuleError(f"invocation_context_create accepts {what}")


def _counts(subject: DispatchSubject, more: tuple[int, int]) -> None:
    case = subject.case
    counts = len(case.inputs) + more[0], len(case.outputs) + more[1]
    other = replace(
        case,
        inputs=[case.inputs[index % len(case.inputs)] for index in range(counts[0])],
        outputs=[case.outputs[index % len(case.outputs)] for index in range(counts[1])],
    )
    with subject.device(case) as device:
        try:
            with CheckedCall(device, other) as call:
                call.attach_all()
                call.prepare_run()
                status = call.table.call("invoke", call.context)
        except BrokenRuleError:  # the vendor may refuse any of the steps
            return
        if not status:
            there = f"{len(case.inputs)} inputs and {len(case.outputs)} outputs"
            raise BrokenRuleError(
                f"a function with {there} runs in an invocation context for {counts[0]} inputs and "
                f"{counts[1]} outputs"
            )


def _invocation_many(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.device(case) as device:
        byte_code = device.keep(case.byte_code)
        with CheckedCall(device, case, byte_code) as first:
            first.attach_all()
            expected = first.run(case.data)
            with CheckedCall(device, case, byte_code) as second:
                second.attach_all()
                second.run(subject.other_data(2))
                if first.read() != expected:
                    raise BrokenRuleError(
                        "a run of another invocation context writes this context's outputs"
                    )
            first.expect(
                expected, "the outputs are wrong after another invocation context was destroyed"
            )


def _invocation_failure(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.device(case) as device:
        status, made = create_invocation(device, case, device.keep(_GARBAGE["zeros"]))
        if status and made:
            raise BrokenRuleError(
                "invocation_context_create fails, but returns an invocation context"
            )
        if not status:
            device.table.call("invocation_context_destroy", made)
            raise UnseenError(
                "invocation_context_create does not fail, even for byte code of zeros"
            )


def _scheduling(subject: DispatchSubject) -> None:
    slot = "invocation_context_set_scheduling_info"
    subject.need(slot)
    with subject.call() as call:
        for mask in (0, 1, 2, 4, 8, 15):
            info = ffi.new("LiteRtSchedulingInfo*")
            info.fields_mask = mask
            feature = ffi.new("char[]", b"check")
            info.debug_feature_id = feature if mask & 2 else ffi.NULL
            status = call.table.call(slot, call.context, info)
            if status:
                raise BrokenRuleError(
                    f"{slot} returns {status_name(status)} for fields_mask {mask}"
                )
        call.run(subject.case.data)


def _run_options(subject: DispatchSubject) -> None:
    slot = "invocation_context_set_options"
    subject.need(slot)
    with subject.call() as call:
        status = call.table.call(slot, call.context, ffi.NULL)
        expect_status(f"{slot}(NULL)", status, Status.OK, Status.UNSUPPORTED)


RULES = Rules(
    Stage.VARIATIONS,
    (
        Check("invocation.byte_code", _byte_code_misplaced, "an odd offset", needs=RUNS_THE_SAME),
        *(
            Check("invocation.byte_code", partial(_refuse, data=data), name, RUNS)
            for name, data in _GARBAGE.items()
        ),
        Check("invocation.byte_code", _cut, "cut in half", RUNS),
        Check("invocation.function", _function, needs=RUNS),
        *(
            Check("invocation.counts", partial(_counts, more=more), case, RUNS)
            for case, more in _MORE.items()
        ),
        Check("invocation.many", _invocation_many, needs=RUNS_THE_SAME),
        Check("invocation.failure", _invocation_failure, needs=RUNS),
        Check("scheduling.any", _scheduling, needs=RUNS),
        Check("run_options.none", _run_options, needs=RUNS),
    ),
)
