"""Tests sessions that many threads use, and sessions that are opened many times."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dispatch.mem_buffer import MemBuffer
from dispatch.tensor_buffer import TensorBuffer
from litert.core.errors import LiteRtError
from litert.model.blob import MappedFile
from tests.dispatch.strict_vendor import (
    FLOATS,
    Context,
    StrictDispatch,
    bind_all,
    open_call,
    open_session,
)


def in_threads(count: int, function: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(count) as threads:
        for done in [threads.submit(function, index) for index in range(count)]:
            done.result(30)


def test_calls_of_one_session_run_in_parallel() -> None:
    """Each run waits until the other two are running."""

    class Meeting(StrictDispatch):
        barrier = threading.Barrier(3)

        def run(self, context: object) -> None:
            self.barrier.wait(10)

    vendor = Meeting()
    with open_session(vendor) as session:
        calls = [open_call(session) for _ in range(3)]
        for call in calls:
            bind_all(call)
        in_threads(3, lambda index: calls[index].invoke())
    assert not vendor.broken


def test_one_call_in_many_threads_runs_one_at_a_time() -> None:
    vendor = StrictDispatch()
    with open_session(vendor) as session:
        call = open_call(session)
        bind_all(call)

        def work(_: int) -> None:
            for _ in range(20):
                call.invoke()
                call.bind_input(0, TensorBuffer.allocate(FLOATS))

        in_threads(6, work)
    assert not vendor.broken
    assert vendor.count("invoke") == 120


def test_a_device_gets_one_call_at_a_time() -> None:
    vendor = StrictDispatch()
    shared = [TensorBuffer.allocate(FLOATS) for _ in range(2)]
    with open_session(vendor) as session:

        def work(index: int) -> None:
            for turn in range(10):
                with open_call(session, name=f"f{index}") as call:
                    bind_all(call)
                    call.bind_input(0, shared[turn % 2])
                    call.invoke()
                    call.invoke_async()

        in_threads(6, work)
    assert not vendor.broken and not vendor.open


def test_buffers_are_attached_while_no_other_is_registered() -> None:
    """A vendor looks up a handle in its device's table, which a registration may move."""

    class Slow(StrictDispatch):
        def register_tensor_buffer(self, device_context: Context, buffer: TensorBuffer) -> int:
            with self.alone("slowly", device_context):
                time.sleep(0.002)
            return super().register_tensor_buffer(device_context, buffer)

        def attach_input(self, invocation_context: Context, index: int, handle: int) -> None:
            time.sleep(0.001)  # lets other threads run
            super().attach_input(invocation_context, index, handle)

    vendor = Slow()
    with open_session(vendor) as session:
        calls = [open_call(session, name=f"f{index}") for index in range(3)]

        def work(index: int) -> None:
            for _ in range(10):
                bind_all(calls[index])

        in_threads(3, work)
    assert not vendor.broken


def test_sessions_of_one_table_open_and_close_in_threads() -> None:
    vendor = StrictDispatch()

    def work(_: int) -> None:
        for _ in range(10):
            with open_session(vendor, ["A"]) as session:
                call = open_call(session)
                bind_all(call)
                call.invoke()

    in_threads(6, work)
    assert vendor.count("initialize") == 1
    assert not vendor.broken and not vendor.open


def test_a_session_closed_while_it_is_used_ends_the_use_with_an_error() -> None:
    vendor = StrictDispatch()
    session = open_session(vendor)
    call = open_call(session)
    bind_all(call)
    started = threading.Event()

    def work(_: int) -> None:
        with pytest.raises(LiteRtError, match="the NPU call is closed"):
            while True:
                call.invoke()
                started.set()

    def close(_: int) -> None:
        assert started.wait(10)
        session.close()

    in_threads(2, lambda index: (work, close)[index](index))
    assert not vendor.broken and not vendor.open


def count_fds() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0


def test_a_thousand_sessions_leak_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"byte code")

    def use() -> None:
        vendor = StrictDispatch()
        with MappedFile(path) as file, open_session(vendor, ["A"]) as session:
            byte_code = MemBuffer.from_blob(file.blob())
            call = session.open_call(byte_code, "f", [FLOATS], [FLOATS])
            bind_all(call)
            call.invoke()
            vendor.failing = "invoke"
            with pytest.raises(LiteRtError):
                call.invoke()

    for _ in range(200):  # fills the caches
        use()
    gc.collect()
    fds, blocks = count_fds(), sys.getallocatedblocks()
    for _ in range(1000):
        use()
    gc.collect()
    assert count_fds() == fds
    assert sys.getallocatedblocks() - blocks < 1000  # less than one object per session, so no leak


def test_a_closed_session_is_freed_at_once() -> None:
    """The memory is freed without the garbage collector, because device memory is scarce."""

    class Memory:
        pass

    memory = Memory()
    gone = weakref.ref(memory)
    vendor = StrictDispatch()
    gc.disable()
    try:
        with open_session(vendor) as session:
            call = open_call(session)
            bind_all(call)
            buffer = TensorBuffer.allocate(FLOATS)
            call.bind_input(0, TensorBuffer(FLOATS, buffer.address, buffer.size, [memory, buffer]))
            call.invoke()
            del memory
            assert gone() is not None
        assert gone() is None
        closed = weakref.ref(call), weakref.ref(session)
        del call, session
        assert [reference() for reference in closed] == [None, None]
    finally:
        gc.enable()


def test_a_table_that_is_dropped_is_forgotten() -> None:
    vendor = StrictDispatch()
    open_session(vendor).close()
    gone = weakref.ref(vendor)
    del vendor
    gc.collect()
    assert gone() is None
