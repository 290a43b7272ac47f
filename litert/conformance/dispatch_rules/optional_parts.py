"""Checks optional parts of a dispatch library: metrics and assets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from litert.abi.definitions import ffi
from litert.conformance.case import Case
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage, UnseenError
from litert.conformance.dispatch_subject import CheckedCall, CheckedDevice, DispatchSubject
from litert.conformance.dispatch_table import METRICS_SLOTS, REGISTER_ASSET
from litert.conformance.vendor_calls import expect_ok, expect_status, status_name
from litert.core.status import Status

_ANY_TYPES = {1, 2, 3, 8, 9}
_OTHER_BYTES = b"0"  # in place of an asset
_ODD_OFFSET = 13  # so that nothing is aligned


def _need_metrics(subject: DispatchSubject) -> None:
    subject.need(*METRICS_SLOTS, missing="the vendor has no metrics")


def _need_assets(subject: DispatchSubject) -> None:
    subject.need(REGISTER_ASSET, missing="the vendor has no register_asset")


def _collect(call: CheckedCall) -> Any:
    """Collects the metrics of one run; the caller destroys them."""
    call.table.succeed("start_metrics_collection", call.context, 0)
    call.run(call.case.data)
    metrics = call.table.answer("stop_metrics_collection", "LiteRtDispatchMetrics", call.context)
    if not metrics:
        raise BrokenRuleError("stop_metrics_collection returns OK, but no metrics")
    return metrics


def _metrics_pair(subject: DispatchSubject) -> None:
    _need_metrics(subject)
    with subject.call() as call:
        for _ in range(2):
            call.table.succeed("destroy_metrics", _collect(call))


def _metrics_order(subject: DispatchSubject) -> None:
    _need_metrics(subject)
    with subject.call() as call:
        metrics = ffi.new("LiteRtDispatchMetrics*")
        if not call.table.call("stop_metrics_collection", call.context, metrics):
            raise BrokenRuleError(
                "stop_metrics_collection returns OK, although no collection was started"
            )


def _metrics_each(subject: DispatchSubject) -> None:
    _need_metrics(subject)
    with subject.call() as call:
        metrics = _collect(call)
        answer = ffi.new("int*", -1)
        call.table.succeed("get_num_metrics", metrics, answer)
        number = answer[0]
        if number < 0:
            raise BrokenRuleError(f"get_num_metrics gives {number}")
        for index in range(number):
            metric = call.table.answer("get_metric", "LiteRtMetric", metrics, index)
            if not metric.name or not ffi.string(metric.name):
                raise BrokenRuleError(f"metric {index} of {number} has no name")
            kind = int(metric.value.type)
            if kind not in _ANY_TYPES:
                raise BrokenRuleError(f"metric {index} has a value of type {kind}")
        if not call.table.call("get_metric", metrics, number, ffi.new("LiteRtMetric*")):
            raise BrokenRuleError(
                f"get_metric returns OK for index {number}, but there are only {number} metrics"
            )
        call.table.succeed("destroy_metrics", metrics)


def _with_each(check: Callable[[DispatchSubject, Case], None]) -> Callable[[DispatchSubject], None]:
    """Makes a check of all cases, because a case does not say whether its op has an asset."""

    def check_all(subject: DispatchSubject) -> None:
        _need_assets(subject)
        if not subject.case.assets:
            raise UnseenError("the checked models have no assets")
        for case in subject.cases:
            check(subject, case)

    return check_all


def _asset_offered(
    subject: DispatchSubject, case: Case, when: str, *, offset: int = 0, forget_name: bool = False
) -> None:
    """Registers assets at an unaligned address, or with names that are freed after the registration."""
    expected = subject.run(case)
    place = f", offset {offset}" if offset else ""
    with subject.device() as device:
        for name, data in case.assets.items():
            status = device.offer(name, data, offset=offset, forget_name=forget_name)
            expect_ok(f"{REGISTER_ASSET}('{name}'{place})", status)
        try:
            found = device.run(case)
        except BrokenRuleError as error:
            raise BrokenRuleError(f"{when.lstrip(', ')}, {error}") from error
    if found != expected:
        raise BrokenRuleError(f"the outputs are wrong{when}")


# The assets of another device context, which was destroyed, are freed, too.
_asset_lifetime = partial(
    _asset_offered, when=" after the asset's name was freed", forget_name=True
)
_asset_misplaced = partial(
    _asset_offered, when=f" if each asset starts at offset {_ODD_OFFSET}", offset=_ODD_OFFSET
)


def _asset_unknown(subject: DispatchSubject) -> None:
    _need_assets(subject)
    with subject.device(subject.cases[0] if subject.cases else None) as device:
        for name in ("no_op_has_this", "no_op_has_this/with/a/path.bin"):
            status = device.offer(name, b"bytes of no meaning")
            expect_ok(f"{REGISTER_ASSET}('{name}')", status)


def _asset_again(subject: DispatchSubject, case: Case) -> None:
    """Registers each asset with wrong bytes (which a vendor may refuse), and then with the right bytes."""
    expected = subject.run(case)
    with subject.device() as device:
        for name, data in case.assets.items():
            device.offer(name, _OTHER_BYTES)
            for _ in range(2):
                if status := device.offer(name, data):
                    raise BrokenRuleError(
                        f"register_asset returns {status_name(status)} when '{name}' is "
                        "registered again"
                    )
        if device.run(case) != expected:
            raise BrokenRuleError(
                "the outputs are wrong if each asset was registered more than once"
            )


def _asset_many(subject: DispatchSubject, case: Case) -> None:
    """Registers another context's assets before and after the call is created, when some vendors read assets."""
    expected = subject.run(case)
    text = "an asset of another device context changes this context's outputs"
    with subject.device(case) as device, CheckedDevice(subject.ready(), {}) as other:
        _offer_others(other, case)
        if device.run(case) != expected:
            raise BrokenRuleError(text)
    with subject.call(case) as call:
        with CheckedDevice(subject.ready(), {}) as other:
            _offer_others(other, case)
            call.expect(expected, text)
        call.expect(expected, "the outputs are wrong after another device context was destroyed")


def _offer_others(device: CheckedDevice, case: Case) -> None:
    for name in case.assets:
        device.offer(name, _OTHER_BYTES)  # taken or not, it is this device context's


def _asset_null(subject: DispatchSubject) -> None:
    _need_assets(subject)
    with subject.device() as device:
        name = ffi.new("char[]", b"asset")
        status = device.table.call_plain(REGISTER_ASSET, ffi.NULL, name, device.keep(b"bytes"))
        expect_status(
            f"{REGISTER_ASSET}, called without a device context,", status, Status.INVALID_ARGUMENT
        )


_BASE = ("api.loads", "api.interface", "initialize.no_options", "dispatch.runs")
_SAME = (*_BASE, "invoke.repeatable")
_METRICS = (*_BASE, "metrics.slots")

RULES = Rules(
    Stage.OPTIONAL_PARTS,
    (
        Check("metrics.pair", _metrics_pair, needs=_METRICS),
        Check("metrics.order", _metrics_order, needs=_METRICS),
        Check("metrics.each", _metrics_each, needs=_METRICS),
        Check("register_asset.lifetime", _with_each(_asset_lifetime), needs=_SAME),
        Check("register_asset.bytes", _with_each(_asset_misplaced), needs=_SAME),
        Check("register_asset.unknown", _asset_unknown, needs=_BASE[:3]),
        Check("register_asset.again", _with_each(_asset_again), needs=_SAME),
        Check("dispatch.null_arguments", _asset_null, f"{REGISTER_ASSET}, argument 0", _BASE[:3]),
        Check("register_asset.many", _with_each(_asset_many), needs=(*_SAME, "device.many")),
    ),
)
