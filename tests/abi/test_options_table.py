from __future__ import annotations

import logging
from typing import Any

import pytest

from litert.abi.definitions import ffi
from litert.abi.options_table import OptionsTable
from litert.abi.tables import fill, slots_of
from litert.core.environment_options import EnvironmentOptions
from litert.core.status import Status


@pytest.fixture
def options() -> OptionsTable:
    return OptionsTable()


@pytest.fixture
def context(options: OptionsTable) -> Any:
    table = ffi.new("LiteRtCompilerContext*")
    slots = slots_of(options, "LiteRtCompilerContext")
    kept = fill(table, slots, (1, 3), "vendor 'Acme'", logging.getLogger(__name__))
    yield table
    del kept


def _opaque(context: Any, handle: int) -> Any:
    opaque = ffi.new("LiteRtOpaqueOptions*")
    assert context.get_opaque_options(ffi.cast("LiteRtOptions", handle), opaque) == 0
    return opaque[0]


def test_a_payload_is_found_by_its_name(options: OptionsTable, context: Any) -> None:
    opaque = _opaque(context, options.put_options({"acme": b"level = 3\n"}))
    data = ffi.new("void**")
    assert context.find_opaque_options_data(opaque, b"acme", data) == 0
    assert ffi.string(ffi.cast("char*", data[0])) == b"level = 3\n"


def test_a_payload_that_is_not_there_is_no_error_for_the_log(
    options: OptionsTable, context: Any, caplog: pytest.LogCaptureFixture
) -> None:
    opaque = _opaque(context, options.put_options({}))
    assert context.find_opaque_options_data(opaque, b"acme", ffi.new("void**")) == Status.NOT_FOUND
    assert not caplog.records


def test_options_that_were_dropped_or_never_made_are_refused(
    options: OptionsTable, context: Any
) -> None:
    handle = options.put_options({"acme": b""})
    opaque = _opaque(context, handle)
    options.drop_options(handle)
    out = ffi.new("LiteRtOpaqueOptions*")
    refused = Status.INVALID_ARGUMENT
    assert context.get_opaque_options(ffi.cast("LiteRtOptions", handle), out) == refused
    assert context.find_opaque_options_data(opaque, b"acme", ffi.new("void**")) == refused
    assert context.get_opaque_options(ffi.NULL, out) == refused
    assert context.get_opaque_options(ffi.cast("LiteRtOptions", 1234), out) == refused


def test_environment_options_are_found_by_their_tags(options: OptionsTable, context: Any) -> None:
    environment = EnvironmentOptions(compiler_plugin_path="/opt/acme")
    handle = ffi.cast("LiteRtEnvironmentOptions", options.put_environment(environment))
    value = ffi.new("LiteRtAny*")
    get = context.get_environment_options_value
    assert get(handle, 0, value) == 0
    assert (value.type, ffi.string(value.str_value)) == (8, b"/opt/acme")
    assert get(handle, 1, value) == Status.NOT_FOUND
    assert get(handle, 25, value) == Status.NOT_FOUND
    options.drop_environment(int(ffi.cast("uintptr_t", handle)))
    assert get(handle, 0, value) == Status.INVALID_ARGUMENT
