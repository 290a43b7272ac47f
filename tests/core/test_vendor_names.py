"""Tests that the different names of a vendor are recognized as the same vendor."""

from __future__ import annotations

import pytest

from litert.core.vendor_names import option_prefix, options_of, plain_name


@pytest.mark.parametrize("name", ["Google", "google", "google_tensor", "GoogleTensor"])
def test_all_names_of_a_vendor_are_one_plain_name(name: str) -> None:
    assert plain_name(name) == "google"


@pytest.mark.parametrize(
    ("manufacturer", "option", "prefix"),
    [
        ("IntelOpenVINO", "intel_openvino_graph_backends", "intel_openvino"),
        ("intel_openvino", "IntelOpenVINO_graph_backends", "IntelOpenVINO"),
        ("Google", "google_tensor_testing", "google_tensor"),
        ("google_tensor", "google_testing", "google"),
        ("Acme", "acme-tiles", "acme"),
        ("Acme", "acme", ""),
        ("Acme", "acme_", ""),
        ("Acme", "acne_tiles", ""),
        ("A.me", "acme_tiles", ""),
    ],
)
def test_an_option_begins_with_a_name_of_its_vendor(
    manufacturer: str, option: str, prefix: str
) -> None:
    assert option_prefix(manufacturer, option) == prefix
    assert list(options_of(manufacturer, {option: "1"})) == ([option] if prefix else [])
