"""Tests that a vendor shows tensors inside a call on request, directly and through LiteRT's C interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dispatch.api import Dispatch, Receive, is_filled
from litert.abi.definitions import ffi
from litert.abi.tensor_types import new_type
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from tests.dispatch.exported_library import through_c
from tests.dispatch.strict_vendor import Context, StrictDispatch, bind_all, open_call, open_session

HALVES = RankedTensorType.of(ElementType.FLOAT16, (2, 2))
NOTHING = RankedTensorType.of(ElementType.INT32, (0,))


class Tapped(StrictDispatch):
    """A vendor that shows two of its own tensors."""

    names = ("größe", "inner/mul:0")
    num_shown = 0

    def invoke_tapped(self, invocation_context: Context, receive: Receive) -> None:
        self.num_shown = 0
        self.invoke(invocation_context)
        for name, tensor_type in zip(self.names, (NOTHING, HALVES), strict=True):
            self.num_shown += 1
            data = np.arange(tensor_type.num_elements, dtype=tensor_type.element_type.numpy_dtype)
            receive(name, tensor_type, memoryview(data.tobytes()))


@pytest.fixture(params=["directly", "through C"])
def behind(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Returns a vendor directly or through the C interface."""
    return through_c if request.param == "through C" else lambda vendor: vendor


def run_tapped(vendor: Dispatch[Any, Any], receive: Receive) -> Any:
    with open_session(vendor) as session:
        call = open_call(session)
        x, y = bind_all(call)
        x.array()[:] = 3
        call.invoke_tapped(receive)
        return y.array().copy()


def test_tensors_come_with_name_type_and_bytes(behind: Callable[[Any], Any]) -> None:
    shown: list[tuple[str, RankedTensorType, bytes]] = []
    vendor = Tapped()
    output = run_tapped(
        behind(vendor), lambda name, kind, data: shown.append((name, kind, bytes(data)))
    )
    halves = np.arange(4, dtype=np.float16).tobytes()
    assert shown == [("größe", NOTHING, b""), ("inner/mul:0", HALVES, halves)]
    assert list(output) == [4] * 4 and not vendor.broken


def test_who_receives_may_end_the_run(behind: Callable[[Any], Any]) -> None:
    def refuse(name: str, tensor_type: RankedTensorType, data: memoryview) -> None:
        raise ZeroDivisionError(name)

    vendor = Tapped()
    with pytest.raises(LiteRtError, match="größe"):
        run_tapped(behind(vendor), refuse)
    assert vendor.num_shown == 1 and not vendor.broken and not vendor.open


def test_a_tensor_that_comes_twice_is_the_vendors_mistake(behind: Callable[[Any], Any]) -> None:
    vendor = Tapped()
    vendor.names = ("a", "a")
    with pytest.raises(LiteRtError, match=r"passed tensor 'a' of type .* twice") as error:
        run_tapped(behind(vendor), lambda *shown: None)
    assert error.value.status is Status.RUNTIME_FAILURE and "invoke_tapped" in error.value.where


def test_a_tensor_without_bytes_is_the_vendors_mistake() -> None:
    vendor: Any = through_c(Tapped())
    named = ffi.new("char[]", b"a"), new_type(HALVES)
    vendor._library.invoke_tapped = lambda call, receive, data: receive(data, *named, ffi.NULL, 8)
    with pytest.raises(LiteRtError, match=r"passed tensor 'a' of type .* with 0 bytes") as error:
        run_tapped(vendor, lambda *shown: None)
    assert error.value.status is Status.RUNTIME_FAILURE


def test_a_vendor_without_taps_is_told_apart(behind: Callable[[Any], Any]) -> None:
    assert is_filled(behind(Tapped()), "invoke_tapped")
    vendor = behind(StrictDispatch())
    assert not is_filled(vendor, "invoke_tapped")
    with pytest.raises(LiteRtError) as error:
        run_tapped(vendor, lambda *shown: None)
    assert error.value.status is Status.UNSUPPORTED
