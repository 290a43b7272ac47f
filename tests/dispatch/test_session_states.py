"""Tests binds, runs, failures and closes in any order: nothing leaks or is used after its release."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from dispatch.call import Call
from dispatch.session import Session
from dispatch.tensor_buffer import TensorBuffer
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from tests.dispatch.strict_vendor import (
    FLOATS,
    StrictAsyncDispatch,
    StrictDispatch,
    bind_all,
    open_call,
    open_session,
)

PORTS = 2
ANY = RankedTensorType.of(FLOATS.element_type, (-1,))
FAILING = st.sampled_from(
    [
        "",
        "register_tensor_buffer",
        "attach_input",
        "attach_output",
        "invoke",
        "invocation_context_create",
    ]
)


class SessionMachine(RuleBasedStateMachine):
    """Compares the buffers that should be bound with those of a real session on a strict vendor."""

    calls = Bundle("calls")
    buffers = Bundle("buffers")
    session: Session
    vendor: StrictDispatch

    @initialize(target=buffers, is_async=st.booleans())
    def open(self, is_async: bool) -> object:
        self.vendor = StrictAsyncDispatch() if is_async else StrictDispatch()
        self.session = open_session(self.vendor, ["A"])
        self.runs_fail = False
        self.bound: dict[Call, dict[tuple[str, int], TensorBuffer]] = {}
        self.stale: set[tuple[Call, str, int]] = set()  # inputs to bind again after a reshape
        return multiple(*(TensorBuffer.allocate(FLOATS) for _ in range(3)))

    @rule(target=buffers)
    def allocate(self) -> TensorBuffer:
        return TensorBuffer.allocate(FLOATS)

    @rule(target=calls, is_bound=st.booleans())
    def open_call(self, is_bound: bool) -> object:
        self.vendor.failing = self.vendor.failing * (not is_bound)
        try:
            call = open_call(self.session, PORTS, PORTS)
        except LiteRtError:
            assert self.vendor.failing == "invocation_context_create"
            return multiple()
        self.bound[call] = {}
        if is_bound:
            buffers = bind_all(call)
            ports = [(kind, port) for kind in ("input", "output") for port in range(PORTS)]
            self.bound[call] = dict(zip(ports, buffers, strict=True))
        return call

    @rule(function=FAILING)
    def fail(self, function: str) -> None:
        self.vendor.failing = function
        # Stays true when `failing` changes: a failed run may still be pending, or its event unread.
        self.runs_fail |= function == "invoke"

    @rule(call=calls, buffer=buffers, port=st.integers(0, PORTS - 1), is_input=st.booleans())
    def bind(self, call: Call, buffer: TensorBuffer, port: int, is_input: bool) -> None:
        self.finish()
        kind = "input" if is_input else "output"
        before = self.bound.get(call, {}).get((kind, port))
        try:
            (call.bind_input if is_input else call.bind_output)(port, buffer)
        except LiteRtError:
            if call not in self.bound:
                return
            if self.vendor.failing == f"attach_{kind}":
                self.bound[call].pop((kind, port), None)
            else:
                assert self.vendor.failing == "register_tensor_buffer"
            assert buffer is not before
        else:
            self.bound[call][kind, port] = buffer
            self.stale.discard((call, kind, port))

    @rule(call=calls)
    def reshape(self, call: Call) -> None:
        self.finish()
        try:
            call.reshape([ANY] * PORTS, [FLOATS] * PORTS)
        except LiteRtError:
            assert call not in self.bound
        else:
            self.stale |= {(call, *port) for port in self.bound[call] if port[0] == "input"}

    @rule(call=calls, is_async=st.booleans())
    def invoke(self, call: Call, is_async: bool) -> None:
        self.finish()
        try:
            if is_async:
                for event in call.invoke_async():
                    self.finish()
                    event.wait(10)
            else:
                call.invoke()
        except LiteRtError as error:
            assert error.status is not Status.TIMEOUT_EXPIRED
            assert self.runs_fail or not self.is_complete(call)
        else:
            assert self.is_complete(call)

    @rule(call=calls)
    def start(self, call: Call) -> None:
        """Starts an asynchronous run, and does not wait for its events."""
        self.finish()
        try:
            call.invoke_async()
        except LiteRtError:
            assert self.runs_fail or not self.is_complete(call)

    @rule(call=consumes(calls))
    def close_call(self, call: Call) -> None:
        self.finish()
        call.close()
        self.bound.pop(call, None)

    @precondition(lambda self: len(self.bound) > 2)
    @rule()
    def close(self) -> None:
        self.finish()
        self.session.close()
        assert not self.vendor.open
        self.session = open_session(self.vendor)
        self.bound.clear()

    @invariant()
    def what_is_bound_is_registered_once(self) -> None:
        if not hasattr(self, "bound"):
            return
        assert self.vendor.broken == []
        known = [id(b) for context in self.vendor.open for b in context.buffers.values()]
        bound = {id(b) for ports in self.bound.values() for b in ports.values()}
        assert sorted(known) == sorted(bound)

    def is_complete(self, call: Call) -> bool:
        ports = self.bound.get(call, {})
        return len(ports) == 2 * PORTS and not any((call, *port) in self.stale for port in ports)

    def finish(self) -> None:
        """Ends the runs of a device whose runs do not end by themselves."""
        if isinstance(self.vendor, StrictAsyncDispatch):
            self.vendor.async_interface.finish()

    def teardown(self) -> None:
        if hasattr(self, "bound"):
            self.finish()
            self.session.close()
            assert not self.vendor.open
            assert self.vendor.broken == []


TestSessionStates = SessionMachine.TestCase
TestSessionStates.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
