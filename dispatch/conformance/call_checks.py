"""Checks of what comes before a first run: byte code is taken, and memory is required. And that run."""

from __future__ import annotations

from dispatch.conformance.session import Call, create_invocation
from dispatch.conformance.subject import DispatchSubject
from dispatch.conformance.table import expect_ok
from litert.abi.conformance.checks import BrokenRuleError, Check
from litert.abi.conformance.statuses import expect_status
from litert.abi.definitions import ffi
from litert.abi.tensor_types import to_c
from litert.core.status import Status


def _takes_byte_code(subject: DispatchSubject) -> None:
    case = subject.case
    with subject.device(case) as device:
        status, made = create_invocation(device, case, device.keep(case.byte_code))
        expect_ok("invocation_context_create", status)
        device.table.succeed("invocation_context_destroy", made)


def _requirements_fresh(subject: DispatchSubject) -> None:
    """The host releases each object: one that was handed out before is gone."""
    with subject.device(subject.case) as device, Call(device, subject.case) as call:
        for _ in range(2):
            call.require("input", 0, subject.case.inputs[0])
            call.require("output", 0, subject.case.outputs[0])


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


def _runs(subject: DispatchSubject) -> None:
    with subject.call() as call:
        call.run(subject.case.data)


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


_LOADED = ("api.loads", "api.interface", "initialize.no_options")
_TAKEN = (*_LOADED, "invocation.ok")
_REQUIRED = (*_TAKEN, "requirements.size", "requirements.types", "requirements.fresh")
RUNS = (*_REQUIRED, "dispatch.runs")
"""What checks need that run a call."""

CHECKS = (
    Check("invocation.ok", _takes_byte_code, needs=_LOADED),
    Check("requirements.fresh", _requirements_fresh, needs=_TAKEN),
    Check("requirements.size", _requirements_size, needs=(*_TAKEN, "requirements.fresh")),
    Check("requirements.types", _requirements_types, needs=(*_TAKEN, "requirements.fresh")),
    Check("dispatch.runs", _runs, needs=_REQUIRED),
    Check("requirements.index", _requirements_index, needs=RUNS),
)
