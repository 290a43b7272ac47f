"""Checks taps, by which a vendor passes tensors inside an NPU call to a debugger during a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from litert.abi.definitions import ffi
from litert.abi.tensor_types import from_c
from litert.conformance.case import Case
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage, UnseenError
from litert.conformance.dispatch_subject import CheckedCall, DispatchSubject
from litert.conformance.dispatch_table import INVOKE_TAPPED
from litert.conformance.vendor_calls import expect_ok, expect_status
from litert.core.element_type import ElementType
from litert.core.status import Status

Receive = Callable[[Any, Any, Any, Any, int], int]

_FLOATS = {ElementType.FLOAT16, ElementType.BFLOAT16, ElementType.FLOAT32, ElementType.FLOAT64}


def _invoke_tapped(call: CheckedCall, receive: Receive) -> int:
    """Runs an NPU call with taps on the case's data; raises `UnseenError` if the vendor has no taps."""
    if not call.table.has(INVOKE_TAPPED):
        raise UnseenError("the vendor has no taps")
    call.write(call.case.data)
    call.prepare_run()
    raised: list[Exception] = []

    def guarded(*arguments: Any) -> int:
        try:
            return receive(*arguments)
        except Exception as error:  # exceptions must not cross into C
            raised.append(error)
            return Status.RUNTIME_FAILURE

    callback = ffi.callback("LiteRtDispatchReceiveTensor", guarded)
    status = call.table.call(INVOKE_TAPPED, call.context, callback, ffi.NULL)
    if raised:
        raise raised[0]
    if status == Status.UNSUPPORTED:
        raise UnseenError("the vendor has no taps")
    return status


def _tapped(case: Case) -> Case:
    assert case.tapped is not None
    byte_code, function = case.tapped
    return replace(case, byte_code=byte_code, function=function)


def _ignore(*_: object) -> int:
    return 0


@contextmanager
def _calls(subject: DispatchSubject) -> Iterator[list[CheckedCall]]:
    """Returns the cases with several ops; the first case if no case has several ops."""
    _ = subject.case
    cases = [_tapped(case) for case in subject.cases if case.tapped is not None]
    with _opened(subject, cases[:3] or [subject.case]) as calls:
        yield calls


@contextmanager
def _opened(subject: DispatchSubject, cases: list[Case]) -> Iterator[list[CheckedCall]]:
    if not cases:
        yield []
        return
    with subject.call(cases[0]) as call, _opened(subject, cases[1:]) as others:
        yield [call, *others]


def _names(subject: DispatchSubject) -> None:
    def receive(_: object, name: Any, *rest: object) -> int:
        text = ffi.string(name).decode() if name else ""
        if not text:
            raise BrokenRuleError("a tensor has no name")
        if text in seen:
            raise BrokenRuleError(f"tensor '{text}' is shown twice in one run")
        seen.add(text)
        return 0

    with _calls(subject) as calls:
        for call in calls:
            for _ in range(2):
                seen: set[str] = set()
                expect_ok(INVOKE_TAPPED, _invoke_tapped(call, receive))


def _types(subject: DispatchSubject) -> None:
    def receive(_: object, name: Any, c_type: Any, data: Any, size: int) -> int:
        text, found = ffi.string(name).decode(), from_c(c_type)
        if not found.layout.is_static or size != found.size_bytes or not (data or not size):
            raise BrokenRuleError(f"'{text}' is {found} in {size} bytes")
        expected = tensors.get(text)
        if expected is None:
            return 0  # a tensor that the compiler added
        types = {found.element_type, expected.element_type}
        if found.shape != expected.shape or not (len(types) == 1 or types <= _FLOATS):
            raise BrokenRuleError(
                f"tensor '{text}' is shown as {found}, but has type {expected} in the model"
            )
        ffi.buffer(data, size)[:]
        return 0

    with _calls(subject) as calls:
        for call in calls:
            tensors = call.case.tensors
            expect_ok(INVOKE_TAPPED, _invoke_tapped(call, receive))


def _outputs(subject: DispatchSubject) -> None:
    with _calls(subject) as calls:
        for call in calls:
            expected = call.run(call.case.data)
            for buffer in call.outputs:
                buffer.write(b"")
            expect_ok(INVOKE_TAPPED, _invoke_tapped(call, _ignore))
            if call.read() != expected:
                raise BrokenRuleError(
                    "the outputs of a run with taps differ from the outputs of invoke"
                )
            call.expect(expected, "the outputs of invoke are wrong after a tapped run")


def _receiver(subject: DispatchSubject) -> None:
    def refuse(_: object, name: Any, *rest: object) -> int:
        refused.append(ffi.string(name))
        return Status.CANCELLED

    with _calls(subject) as calls:
        for call in calls:
            refused: list[bytes] = []
            expected = call.run(call.case.data)
            status = _invoke_tapped(call, refuse)
            if not refused:
                continue
            expect_status("a run that the receiver of taps stops", status, Status.CANCELLED)
            if more := len(refused) - 1:
                raise BrokenRuleError(
                    f"{more} tensors are shown after the receiver of taps has refused a tensor"
                )
            call.expect(
                expected, "the outputs are wrong after a run that the receiver of taps stopped"
            )


_SAME = (
    "api.loads",
    "api.interface",
    "initialize.no_options",
    "dispatch.runs",
    "invoke.repeatable",
)

RULES = Rules(
    Stage.OPTIONAL_PARTS,
    (
        Check("taps.names", _names, needs=_SAME),
        Check("taps.types", _types, needs=_SAME),
        Check("taps.outputs", _outputs, needs=_SAME),
        Check("taps.receiver", _receiver, needs=_SAME),
    ),
)
