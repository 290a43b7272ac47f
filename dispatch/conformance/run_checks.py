"""Checks of running: byte code, requirements, invocation contexts, values, threads."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial

from dispatch.conformance.case import find_difference
from dispatch.conformance.session import Call, create_invocation
from dispatch.conformance.subject import DispatchSubject
from dispatch.conformance.table import expect_ok
from litert.abi.conformance.checks import BrokenRuleError, Check, UnseenError
from litert.abi.conformance.statuses import expect_status, status_name
from litert.abi.definitions import ffi
from litert.abi.tensor_types import to_c
from litert.core.status import Status

_GARBAGE = {"zeros": bytes(256), "text": b"no byte code of anybody's" * 20, "one byte": b"\x7f"}
_MISPLACED = 13
_OPEN_FILES, _ROUNDS = "/proc/self/fd", 6


def _runs(subject: DispatchSubject) -> None:
    with subject.call() as call:
        call.run(subject.case.data)


def _values(subject: DispatchSubject) -> None:
    compared = 0
    for case in subject.cases:
        if case.expected is None:
            continue
        compared += 1
        with subject.call(case) as call:
            found = call.run(case.data)
        for index, tensor_type in enumerate(case.outputs):
            difference = find_difference(
                tensor_type, case.expected[index], found[index], subject.tolerance
            )
            if difference:
                raise BrokenRuleError(f"{case.name}, output {index}: {difference}")
    if not compared:
        raise UnseenError("LiteRT's CPU kernels do not have the ops that the vendor takes")


def _takes_byte_code(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.device(case) as device:
        status, made = create_invocation(device, case, device.keep(case.byte_code))
        expect_ok("invocation_context_create", status)
        device.table.succeed("invocation_context_destroy", made)


def _requirements_size(subject: DispatchSubject) -> None:
    for case in subject.cases or [subject.case]:
        with subject.device(case) as device, Call(device, case) as call:
            for (kind, index), wanted in call.wanted.items():
                types = case.inputs if kind == "input" else case.outputs
                if wanted.size < types[index].size_bytes:
                    raise BrokenRuleError(
                        f"{case.name}: {wanted.size} bytes are required for {kind} {index}, "
                        f"{types[index]}, which has {types[index].size_bytes}"
                    )


def _requirements_types(subject: DispatchSubject) -> None:
    with subject.device(subject.case) as device, Call(device, subject.case) as call:
        for (kind, index), wanted in call.wanted.items():
            if not wanted.supported_types:
                raise BrokenRuleError(f"no type of memory is given for {kind} {index}")


def _requirements_fresh(subject: DispatchSubject) -> None:
    """The host releases each object: one that was handed out before is gone."""
    with subject.device(subject.case) as device, Call(device, subject.case) as call:
        for _ in range(2):
            call.require("input", 0, subject.case.inputs[0])
            call.require("output", 0, subject.case.outputs[0])


def _requirements_index(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.device(case) as device, Call(device, case) as call:
        for kind, types in (("input", case.inputs), ("output", case.outputs)):
            c_type = ffi.new("LiteRtRankedTensorType*")
            to_c(case.outputs[0], c_type)
            made = ffi.new("LiteRtTensorBufferRequirements*")
            slot = f"get_{kind}_requirements"
            status = call.table.call(slot, call.context, len(types), c_type, made)
            expect_status(
                f"{slot} of index {len(types)}, where there are {len(types)},",
                status,
                Status.INVALID_ARGUMENT,
                Status.INDEX_OOB,
            )


def _byte_code_misplaced(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.call() as call:
        expected = call.run(case.data)
    with subject.device(case) as device:
        byte_code = device.keep(case.byte_code, offset=_MISPLACED, alignment=1)
        with Call(device, case, byte_code) as call:
            call.attach_all()
            if call.run(case.data) != expected:
                raise BrokenRuleError(f"with an offset of {_MISPLACED} the outputs are others")


def _refuse(subject: DispatchSubject, data: bytes) -> None:
    case = subject.case
    with subject.device(case) as device:
        status, made = create_invocation(device, case, device.keep(data, alignment=1))
        if status:
            return
        device.table.call("invocation_context_destroy", made)
        raise BrokenRuleError(
            f"invocation_context_create takes {len(data)} bytes that are no byte code"
        )


def _cut(subject: DispatchSubject) -> None:
    byte_code = subject.case.byte_code
    _refuse(subject, byte_code[: len(byte_code) // 2])


def _function(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.device(case) as device:
        byte_code = device.keep(case.byte_code)
        status, made = create_invocation(device, case, byte_code, function="no such function")
        if not status:
            device.table.call("invocation_context_destroy", made)
            raise BrokenRuleError("invocation_context_create takes 'no such function'")


def _counts(subject: DispatchSubject, more_inputs: int, more_outputs: int) -> None:
    case = subject.case
    counts = len(case.inputs) + more_inputs, len(case.outputs) + more_outputs
    other = replace(
        case,
        inputs=[case.inputs[index % len(case.inputs)] for index in range(counts[0])],
        outputs=[case.outputs[index % len(case.outputs)] for index in range(counts[1])],
    )
    with subject.device(case) as device:
        status, made = create_invocation(device, other, device.keep(case.byte_code))
        if status:
            return
        device.table.call("invocation_context_destroy", made)
        try:
            with Call(device, other) as call:
                call.attach_all()
                call.prepare_run()
                status = call.table.call("invoke", call.context)
        except BrokenRuleError:  # one of the steps is refused
            return
        if not status:
            there = f"{len(case.inputs)} inputs and {len(case.outputs)} outputs"
            raise BrokenRuleError(f"a function of {there} runs with {counts[0]} and {counts[1]}")


def _invocation_many(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.device(case) as device:
        byte_code = device.keep(case.byte_code)
        with Call(device, case, byte_code) as first:
            first.attach_all()
            expected = first.run(case.data)
            with Call(device, case, byte_code) as second:
                second.attach_all()
                second.run(subject.other_data(2))
                if first.read() != expected:
                    raise BrokenRuleError("a run of another context writes this one's outputs")
            if first.run(case.data) != expected:
                raise BrokenRuleError("the outputs are others, once another context is gone")


def _invocation_failure(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.device(case) as device:
        status, made = create_invocation(device, case, device.keep(_GARBAGE["zeros"]))
        if status and made:
            raise BrokenRuleError("invocation_context_create fails, and leaves a context behind")
        if not status:
            device.table.call("invocation_context_destroy", made)
            raise UnseenError("invocation_context_create does not fail, not even with zeros")


def _written(subject: DispatchSubject) -> None:
    patterns = (0x11, 0x77)
    results = []
    with subject.call() as call:
        for pattern in patterns:
            for attached in call.outputs:
                attached.buffer.write(bytes([pattern]) * attached.buffer.size)
            results.append(call.run(subject.case.data))
    for index, outputs in enumerate(zip(*results, strict=True)):
        kept = sum(found == patterns for found in zip(*outputs, strict=True))
        if kept:
            raise BrokenRuleError(
                f"{kept} bytes of output {index}, which has {len(outputs[0])}, are as before the run"
            )


def _repeatable(subject: DispatchSubject) -> None:
    with subject.call() as call:
        first = call.run(subject.case.data)
        call.run(subject.other_data(2))
        if call.run(subject.case.data) != first:
            raise BrokenRuleError(
                "the third run gives other outputs than the first, for the same inputs"
            )


def _missing(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.device(case) as device, Call(device, case) as call:
        status = device.table.call("invoke", call.context)
        if not status:
            raise BrokenRuleError("invoke answers OK with no buffer attached")
        call.attach_all()
        call.run(case.data)


def _missing_again(subject: DispatchSubject, kind: str) -> None:
    case = subject.case
    with subject.call() as call:
        expected = call.run(case.data)
        group = call.inputs if kind == "input" else call.outputs
        attached = group[0]
        call.table.succeed(f"detach_{kind}", call.context, 0, attached.handle)
        if not call.table.call("invoke", call.context):
            raise BrokenRuleError(f"invoke answers OK when {kind} 0 is detached")
        call.table.succeed(f"attach_{kind}", call.context, 0, attached.handle)
        if call.run(case.data) != expected:
            raise BrokenRuleError(f"the outputs are others, once {kind} 0 is attached again")


def _unlocks(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.device(case) as device, Call(device, case) as call:
        device.table.host.take_lock_fault()
        call.attach_all()
        call.run(case.data)
        if fault := device.table.host.take_lock_fault():
            raise BrokenRuleError(f"after a run {fault}")
        call.table.succeed("detach_output", call.context, 0, call.outputs[0].handle)
        status = call.table.call("invoke", call.context)
        if status and (fault := device.table.host.take_lock_fault()):
            raise BrokenRuleError(f"after a run that fails, {fault}")


def _closes(subject: DispatchSubject) -> None:
    if not os.path.isdir(_OPEN_FILES):
        raise UnseenError("this system does not list a process's open files")
    counts = []
    for rounds in (2, _ROUNDS):  # the first may open what stays
        for _ in range(rounds):
            with subject.call() as call:
                call.run(subject.case.data)
        counts.append(len(os.listdir(_OPEN_FILES)))
    if counts[1] >= counts[0] + _ROUNDS:
        raise BrokenRuleError(
            f"{counts[1] - counts[0]} files stay open, once {_ROUNDS} device contexts are gone"
        )


def _scheduling(subject: DispatchSubject) -> None:
    slot = "invocation_context_set_scheduling_info"
    if not subject.table.has(slot):
        raise UnseenError("the slot is NULL")
    with subject.call() as call:
        for mask in (0, 1, 2, 4, 8, 15):
            info = ffi.new("LiteRtSchedulingInfo*")
            info.fields_mask = mask
            feature = ffi.new("char[]", b"check")
            info.debug_feature_id = feature if mask & 2 else ffi.NULL
            status = call.table.call(slot, call.context, info)
            if status:
                raise BrokenRuleError(f"mask {mask} is answered by {status_name(status)}")
        call.run(subject.case.data)


def _run_options(subject: DispatchSubject) -> None:
    slot = "invocation_context_set_options"
    if not subject.table.has(slot):
        raise UnseenError("the slot is NULL")
    with subject.call() as call:
        status = call.table.call(slot, call.context, ffi.NULL)
        expect_status(f"{slot}(NULL)", status, Status.OK, Status.UNSUPPORTED)


_LOADED = ("api.loads", "api.interface", "initialize.no_options")
_TAKEN = (*_LOADED, "invocation.ok")
_BASE = (
    *_TAKEN, "requirements.size", "requirements.types", "requirements.fresh", "dispatch.runs",
)  # fmt: skip
_SAME = (*_BASE, "invoke.repeatable")

CHECKS = (
    Check("invocation.ok", _takes_byte_code, needs=_LOADED),
    Check("requirements.fresh", _requirements_fresh, needs=_TAKEN),
    Check("requirements.size", _requirements_size, needs=(*_TAKEN, "requirements.fresh")),
    Check("requirements.types", _requirements_types, needs=(*_TAKEN, "requirements.fresh")),
    Check("dispatch.runs", _runs, needs=_BASE[:-1]),
    Check("requirements.index", _requirements_index, needs=_BASE),
    Check("invoke.written", _written, needs=_BASE),
    Check("invoke.values", _values, needs=(*_BASE, "invoke.written")),
    Check("invoke.repeatable", _repeatable, needs=_BASE),
    Check("invoke.missing", _missing, "nothing attached", _BASE),
    *(
        Check("invoke.missing", partial(_missing_again, kind=kind), f"a detached {kind}", _SAME)
        for kind in ("input", "output")
    ),
    Check("invoke.unlocks", _unlocks, needs=_BASE),
    Check("device.closes", _closes, needs=_BASE),
    Check("invocation.byte_code", _byte_code_misplaced, "an odd offset", needs=_SAME),
    *(
        Check("invocation.byte_code", partial(_refuse, data=data), name, _BASE)
        for name, data in _GARBAGE.items()
    ),
    Check("invocation.byte_code", _cut, "cut in half", _BASE),
    Check("invocation.function", _function, needs=_BASE),
    *(
        Check(
            "invocation.counts",
            partial(_counts, more_inputs=inputs, more_outputs=outputs),
            case,
            _BASE,
        )
        for case, inputs, outputs in (
            ("an input more", 1, 0),
            ("an output more", 0, 1),
            ("an input less", -1, 0),
        )
    ),
    Check("invocation.many", _invocation_many, needs=_SAME),
    Check("invocation.failure", _invocation_failure, needs=_BASE),
    Check("scheduling.any", _scheduling, needs=_BASE),
    Check("run_options.none", _run_options, needs=_BASE),
)
