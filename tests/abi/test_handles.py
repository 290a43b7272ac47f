from __future__ import annotations

import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.abi.definitions import ffi
from litert.abi.handles import Handles, address_of
from litert.core.errors import LiteRtError
from litert.core.status import Status


class _Op:
    pass


def test_a_handle_leads_to_its_object_as_a_number_and_as_a_pointer() -> None:
    handles = Handles()
    handle = handles.put("op")
    assert handles.get(handle, str) == "op"
    assert handles.get(ffi.cast("LiteRtOp", handle), str) == "op"
    assert address_of(ffi.cast("LiteRtOp", handle)) == handle


def test_handles_are_never_null_and_never_given_twice() -> None:
    handles, others = Handles(), Handles()
    given_out = [handles.put(n) for n in range(100)]
    for handle in given_out[:50]:
        handles.drop(handle)
    given_out += [table.put(n) for n in range(100) for table in (handles, others)]
    assert 0 not in given_out
    assert len(set(given_out)) == len(given_out)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda handles: 0, "NULL"),
        (lambda handles: ffi.NULL, "NULL"),
        (
            lambda handles: ffi.cast("LiteRtOp", 0xDEADBEEF),
            "0xdeadbeef is not the handle of an existing str",
        ),
        (
            lambda handles: handles.put(3),
            "the caller passed a handle of type int instead of a handle of type str",
        ),
        (lambda handles: Handles().put("of another table"), "is not the handle of an existing "),
    ],
)
def test_a_wrong_handle_is_an_error(wrong: object, says: str) -> None:
    handles = Handles()
    handles.put("op")
    assert callable(wrong)
    with pytest.raises(LiteRtError, match=says) as error:
        handles.get(wrong(handles), str)
    assert error.value.status is Status.INVALID_ARGUMENT


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_no_number_is_followed(number: int) -> None:
    with pytest.raises(LiteRtError):
        Handles().get(ffi.cast("void*", number), object)


def test_a_dropped_handle_is_unknown_and_its_object_is_let_go() -> None:
    handles, op = Handles(), _Op()
    gone, handle = weakref.ref(op), handles.put(op)
    del op
    handles.drop(handle)
    handles.drop(ffi.cast("LiteRtOp", handle))
    with pytest.raises(LiteRtError, match="the handle was never made, or was released"):
        handles.get(handle, _Op)
    assert gone() is None
