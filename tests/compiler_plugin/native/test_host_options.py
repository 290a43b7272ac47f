"""Tests reading the user's options from a host, with stock LiteRT's functions and with our host's."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler_plugin.native.exported.host_context import (
    HostContext,
    find_custom_op_infos,
    read_environment,
    read_flags,
)
from litert.abi.definitions import ffi
from litert.abi.options_table import options_table
from litert.abi.status_codes import check
from litert.abi.symbol_library import load_symbols
from litert.abi.tables import fill, slots_of
from litert.core.compiler_options import CustomOpInfo
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.compiler_plugin.native.stock_host import StockHost, symbol

INFOS = [CustomOpInfo("MyOp", "my, op.cl"), CustomOpInfo("über", "/ü.cl")]


@pytest.fixture
def ours() -> Iterator[HostContext]:
    """A context of our host that offers only options."""
    table = ffi.new("LiteRtCompilerContext*")
    log = logging.getLogger(__name__)
    kept = fill(table, slots_of(options_table(), "LiteRtCompilerContext"), (1, 3), "a test", log)
    yield HostContext(table)
    del kept


def test_stock_s_environment_is_read(tmp_path: Path) -> None:
    text = ffi.new("char[]", str(tmp_path).encode())
    option = ffi.new("LiteRtEnvOption*")
    option.tag, option.value.type = 1, 8
    option.value.str_value = text
    environment, options = ffi.new("LiteRtEnvironment*"), ffi.new("LiteRtEnvironmentOptions*")
    create = symbol(
        "LiteRtCreateEnvironment", "LiteRtStatus (*)(int, LiteRtEnvOption*, LiteRtEnvironment*)"
    )
    get = symbol(
        "LiteRtGetEnvironmentOptions",
        "LiteRtStatus (*)(LiteRtEnvironment, LiteRtEnvironmentOptions*)",
    )
    check(create(1, option, environment), "no environment")
    check(get(environment[0], options), "no options")
    found = read_environment(HostContext(StockHost().context), options[0])
    assert found == EnvironmentOptions(dispatch_library_path=str(tmp_path))


def test_stock_s_options_without_any_of_ours_are_none() -> None:
    context = HostContext(StockHost().context)
    options = ffi.new("LiteRtOptions*")
    check(symbol("LiteRtCreateOptions", "LiteRtStatus (*)(LiteRtOptions*)")(options), "no options")
    for handle in (ffi.NULL, options[0]):
        assert list(read_flags(context, handle, "Acme")) == []
    assert read_environment(context, ffi.NULL) == EnvironmentOptions()


@pytest.mark.parametrize("identifier", ["myvendor", "my_vendor"])
def test_a_vendors_flags_are_read_as_our_host_writes_them(
    ours: HostContext, identifier: str
) -> None:
    payloads = {
        identifier: b"tiles = 4\nname = \"a b\"\nother = 'c;d'\n",
        "litert_npu": b"check_kernels=false\n\nshape_bounds=x:2x3\n",
        "somebody": b"tiles = 5\n",
    }
    options = options_table().put_options(payloads)
    assert list(read_flags(ours, ffi.cast("LiteRtOptions", options), "MyVendor")) == [
        f"{identifier}_tiles=4",
        f"{identifier}_name=a b",
        f"{identifier}_other=c;d",
        "check_kernels=false",
        "shape_bounds=x:2x3",
    ]
    options_table().drop_options(options)


def test_assets_are_found_where_the_host_tells_of_them(ours: HostContext) -> None:
    load_symbols()
    options = options_table().put_options({}, INFOS)
    handle = ffi.cast("LiteRtOptions", options)
    assert list(find_custom_op_infos(ours, handle)) == INFOS
    assert find_custom_op_infos(ours, ffi.NULL) == ()
    options_table().drop_options(options)
    assert find_custom_op_infos(ours, handle) == ()


def test_a_host_without_a_context_is_refused() -> None:
    with pytest.raises(LiteRtError) as error:
        HostContext(ffi.NULL)
    assert error.value.status is Status.INVALID_ARGUMENT
    with pytest.raises(
        LiteRtError, match="does not offer the function get_split_v_num_splits_option"
    ) as error:
        HostContext(StockHost(1104).context).call(
            "get_split_v_num_splits_option", ffi.NULL, ffi.NULL
        )
    assert error.value.status is Status.WRONG_VERSION
