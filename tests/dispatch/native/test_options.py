"""Tests that runtime options become the payloads that vendors' libraries read."""

from __future__ import annotations

import pytest

from litert.abi.vendor_flags import dispatch_payloads
from litert.core.errors import LiteRtError
from litert.options import Options


def test_an_option_without_a_vendor_is_the_library_s() -> None:
    options = {"tiles": "4", "allow_native_assets": "true", "name": "a b"}
    expected = b'tiles = 4\nallow_native_assets = true\nname = "a b"\n'
    assert dispatch_payloads("Acme", options) == {"acme": expected}


def test_options_of_several_vendors_are_apart() -> None:
    options = {"acme.tiles": "4", "other.mode": "fast", "tiles": "5"}
    assert dispatch_payloads("Acme", {"mode": "x", **options}) == {
        "acme": b'mode = "x"\ntiles = 5\n',  # same option twice: the last value wins
        "other": b'mode = "fast"\n',
    }


def test_stock_s_option_group_is_what_its_vendor_reads() -> None:
    options = Options()
    group = options.intel_openvino_options
    group.graph_backend = group.GRAPH_BACKEND.NPU  # the flag's name is graph_backends
    group.performance_mode = 1  # throughput
    group.configs_map = {"INFERENCE_PRECISION_HINT": "f32", "CACHE_DIR": "/tmp/x"}
    assert dispatch_payloads("IntelOpenvino", options.all_dispatch_options()) == {
        "intel_openvino": b"graph.-1.graph_backend = 2\n"
        b"performance_mode = 1\n"
        b'configs_map.INFERENCE_PRECISION_HINT = "f32"\nconfigs_map.CACHE_DIR = "/tmp/x"\n'
    }


def test_a_vendor_of_stock_s_reads_its_options_under_any_of_its_names() -> None:
    for name in ("performance_mode", "IntelOpenVINO.performance_mode"):
        payloads = dispatch_payloads("IntelOpenvino", {name: "1", "allow_native_assets": "true"})
        assert payloads == {"intel_openvino": b"performance_mode = 1\n"}


def test_no_options_are_no_payload() -> None:
    assert dispatch_payloads("Acme", {}) == {}


def test_a_value_that_no_payload_can_have_is_refused() -> None:
    with pytest.raises(LiteRtError, match="a single line of text"):
        dispatch_payloads("Acme", {"tiles": "4\nother = 5"})
