"""Tests asynchronous runs of a native library, with its own events or with file descriptors, and its graphs."""

from __future__ import annotations

import gc
import os
import threading
from typing import Any

import pytest

from dispatch.api import Event, ExecutableType, MemBuffer, NodeType, TensorBuffer
from dispatch.native.library_events import CustomEvent, FenceEvent
from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.dispatch.native.test_order import FLOATS, bind_all, open_call, open_session, values
from tests.native_probe import MakeProbe

ASYNC, GRAPH = 3, 5
KINDS = {"events of its own": b"slow", "a file descriptor": b"slow,fence"}


def times_out(event: Event) -> bool:
    try:
        event.wait(0.001)
    except LiteRtError as error:
        return error.status is Status.TIMEOUT_EXPIRED
    return False


@pytest.mark.parametrize("words", KINDS.values(), ids=KINDS)
def test_a_run_goes_on_until_its_events_say_so(make_probe: MakeProbe, words: bytes) -> None:
    probe = make_probe(capabilities=ASYNC)
    gc.collect()  # closes what earlier tests left open
    files = len(os.listdir("/proc/self/fd"))
    with open_session(probe) as session:
        call = open_call(session, words, outputs=2)
        first, second = bind_all(call)[1:]
        events = call.invoke_async()
        assert [type(e) for e in events] == [FenceEvent if b"fence" in words else CustomEvent] * 2
        assert first.event is events[0] and not events[0].is_signaled()
        assert times_out(events[0])
        first.wait()
        second.wait()
        assert events[1].is_signaled()
        assert values(first) == values(second) == [2, 3, 4, 5]
        del first, second, events
    del call
    gc.collect()
    assert probe.calls.count("invoke_async") == 1 and not probe.broken
    assert probe.calls.count("released") == 1 and len(os.listdir("/proc/self/fd")) == files


def test_a_run_waits_for_the_one_that_writes_its_input(make_probe: MakeProbe) -> None:
    probe = make_probe(capabilities=ASYNC)
    with open_session(probe) as session:
        first, second = open_call(session, b"slow"), open_call(session)
        between = bind_all(first)[1]
        last = bind_all(second)[1]
        second.bind_input(0, between)
        first.invoke_async()
        second.invoke_async()[0].wait()
        assert values(last) == [3, 4, 5, 6]
    assert "attach_input_event 0 type 5" in probe.notes and not probe.broken


def test_an_event_of_the_host_s_is_waited_for_by_the_host(make_probe: MakeProbe) -> None:
    probe = make_probe(capabilities=ASYNC)
    with open_session(probe) as session:
        call = open_call(session)
        x, y = bind_all(call)
        x.event = written = Event()

        def write() -> None:
            x.array()[:] = 7
            written.signal()

        threading.Timer(0.02, write).start()
        call.invoke_async()[0].wait()
        assert values(y) == [8] * 4
    assert "attach_input_event" not in probe.calls and not probe.broken


def test_memory_of_its_own_is_the_device_s_while_a_run_goes_on(make_probe: MakeProbe) -> None:
    probe = make_probe(capabilities=ASYNC)
    with open_session(probe) as session:
        call = open_call(session, b"own,slow")
        y = bind_all(call)[1]
        seen = y.array()
        for expected in (2, 2):
            call.invoke_async()
            assert seen[0, 0] != expected or y.event is None  # poisoned while the device uses it
            y.wait()
            assert seen[0, 0] == expected
    assert not probe.broken


def test_outputs_without_events_are_nonsense(make_probe: MakeProbe) -> None:
    probe = make_probe("nonsense-events", ASYNC)
    with open_session(probe) as session:
        call = open_call(session)
        bind_all(call)
        with pytest.raises(
            LiteRtError, match="the caller passed NULL instead of a handle of type Event"
        ) as error:
            call.invoke_async()
    assert "invoke_async of 'main'" in error.value.where


def test_a_closed_call_has_ended_its_run(make_probe: MakeProbe) -> None:
    probe = make_probe(capabilities=ASYNC)
    with open_session(probe) as session:
        call = open_call(session, b"slow")
        y = bind_all(call)[1]
        call.invoke_async()
    assert values(y) == [2, 3, 4, 5]
    assert probe.calls[-1] == "device_context_destroy" and not probe.broken


def test_a_graph_is_built_and_run(make_probe: MakeProbe) -> None:
    probe = make_probe(capabilities=GRAPH)
    open_session(probe).close()
    table: Any = probe.table
    graphs: Any = table.graph_interface
    probe.forget()
    device = table.device_context_create({})
    graph = graphs.graph_create(device)
    for node in (1, 2):
        graphs.add_node(graph, node, NodeType.NPU)
    for edge in (10, 11, 12):
        graphs.add_edge(graph, edge)
    graphs.connect_node_input(graph, 1, 0, 10)
    graphs.connect_node_output(graph, 1, 0, 11)
    graphs.connect_node_input(graph, 2, 0, 11)
    graphs.connect_node_output(graph, 2, 0, 12)
    graphs.connect_graph_input(graph, 0, 10)
    graphs.connect_graph_output(graph, 0, 12)
    code = MemBuffer.from_memory(b"code")
    executable = graphs.load_executable(device, ExecutableType.ML_MODEL, code)
    graphs.assign_node_function(graph, 1, executable, "main")
    graphs.annotate_graph(graph, "a", "b")
    graphs.annotate_node(graph, 2, "c", "d")
    graphs.annotate_edge(graph, 11, "e", "f")
    call = graphs.invocation_context_create_from_graph(device, graph)
    assert graphs.invocation_context_get_graph(call) is graph
    buffers = [TensorBuffer.allocate(FLOATS), TensorBuffer.allocate(FLOATS)]
    buffers[0].array()[:] = 5
    handles = [table.register_tensor_buffer(device, buffer) for buffer in buffers]
    table.attach_input(call, 0, handles[0])
    table.attach_output(call, 0, handles[1])
    table.invoke(call)
    assert values(buffers[1]) == [7] * 4  # each node adds 1
    table.detach_input(call, 0, handles[0])
    table.detach_output(call, 0, handles[1])
    for handle in handles:
        table.unregister_tensor_buffer(device, handle)
    table.invocation_context_destroy(call)
    graphs.unload_executable(device, executable)
    graphs.graph_destroy(graph)
    table.device_context_destroy(device)
    for line in (
        "add_node 2 2", "add_edge 12", "connect_node_output 2 0 12", "connect_graph_output 0 12",
        "load_executable 2 4", "unload_executable 77", "assign_node_function 1 77 main",
        "annotate_graph a b", "annotate_node 2 c d", "annotate_edge 11 e f", "graph_destroy 2 nodes",
    ):  # fmt: skip
        assert line in probe.notes
    assert not probe.broken
