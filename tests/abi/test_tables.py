from __future__ import annotations

import logging
import signal
from typing import Any

import pytest

from litert.abi.definitions import ffi
from litert.abi.status_codes import answering, check
from litert.abi.tables import fill
from litert.core.errors import LiteRtError
from litert.core.status import Status

_log = logging.getLogger(__name__)


def _context(**implementations: Any) -> tuple[Any, list[object]]:
    table = ffi.new("LiteRtCompilerContext*")
    return table, fill(table, implementations, (1, 3), "vendor 'Acme'", _log)


def test_a_table_has_its_header() -> None:
    table, _kept = _context()
    header = table.abi_header
    assert (header.struct_size, header.major_version, header.minor_version) == (1408, 1, 3)
    assert header.reserved == 0


def test_handles_are_numbers_on_the_python_side() -> None:
    got: list[object] = []

    def get_subgraph_op(subgraph: int, index: int, out: Any) -> None:
        got.append((subgraph, index))
        out[0] = 2**63 + 5

    table, _kept = _context(get_subgraph_op=get_subgraph_op)
    op = ffi.new("LiteRtOp*")
    assert table.get_subgraph_op(ffi.cast("LiteRtSubgraph", 77), 3, op) == 0
    assert got == [(77, 3)]
    assert int(ffi.cast("uintptr_t", op[0])) == 2**63 + 5


def test_a_slot_without_a_function_answers_unsupported_and_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table, _kept = _context()
    out = ffi.new("bool*")
    for _ in range(3):
        assert table.get_gelu_approximate_option(ffi.NULL, out) == Status.UNSUPPORTED
    table.destroy_options(ffi.NULL)  # returns nothing
    assert [record.getMessage() for record in caplog.records] == [
        "vendor 'Acme' called get_gelu_approximate_option, which this host does not implement",
        "vendor 'Acme' called destroy_options, which this host does not implement",
    ]


def test_every_slot_can_be_called() -> None:
    table, _kept = _context()
    for name, _field in ffi.typeof("LiteRtCompilerContext").fields:
        assert name == "abi_header" or getattr(table, name)


def test_null_for_an_answer_s_place_is_a_wrong_argument(caplog: pytest.LogCaptureFixture) -> None:
    def get_op_code(op: int, out: Any) -> None:
        out[0] = 5

    table, _kept = _context(get_op_code=get_op_code)
    assert table.get_op_code(ffi.NULL, ffi.NULL) == Status.INVALID_ARGUMENT
    assert "a NULL pointer" in caplog.text


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (
            LiteRtError(
                Status.INDEX_OOB, "op index 7 is out of range: the 3 ops have the indices 0 to 2"
            ),
            Status.INDEX_OOB,
        ),
        (ValueError("no"), Status.RUNTIME_FAILURE),
        (KeyboardInterrupt(), Status.RUNTIME_FAILURE),
        (MemoryError(), Status.MEMORY_ALLOCATION_FAILURE),
    ],
)
def test_what_a_slot_raises_becomes_a_status_and_a_line_in_the_log(
    raised: BaseException, status: Status, caplog: pytest.LogCaptureFixture
) -> None:
    def get_op_code(op: int, out: Any) -> None:
        raise raised

    table, _kept = _context(get_op_code=get_op_code)
    assert table.get_op_code(ffi.NULL, ffi.NULL) == status
    assert caplog.records[0].getMessage().startswith("get_op_code: ")
    if isinstance(raised, KeyboardInterrupt):  # the caller of C code gets it, once
        with pytest.raises(KeyboardInterrupt):
            check(0, "it failed")
    check(0, "it failed")


def test_each_ctrl_c_in_callbacks_comes_to_who_has_called() -> None:
    """Includes a Ctrl-C before a callback's first statement or after its last statement."""

    def get_op_code(op: int, out: Any) -> None:
        out[0] = 5

    table, _kept = _context(get_op_code=get_op_code)
    code, sent, got = ffi.new("LiteRtOpCode*"), 0, 0

    def interrupt(*_: object) -> None:
        nonlocal sent
        sent += 1
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        while sent < 300:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002)
                for _ in range(1000):
                    check(table.get_op_code(ffi.NULL, code), "it failed")
            except KeyboardInterrupt:
                got += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    assert got == sent


def test_a_function_answers_with_its_status_or_with_ok() -> None:
    assert answering(lambda: None, "f")() == 0
    assert answering(lambda: Status.PATTERN_NO_MATCH, "f")() == 3000


def test_a_status_is_an_error_of_the_same_number() -> None:
    check(0, "it failed")
    with pytest.raises(LiteRtError, match="it failed") as error:
        check(1000, "it failed", "plugin.so")
    assert error.value.status is Status.INDEX_OOB
    assert error.value.where == "plugin.so"
    with pytest.raises(LiteRtError, match="4711") as error:
        check(4711, "it failed")
    assert error.value.status is Status.UNKNOWN
