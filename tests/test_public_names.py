"""Tests the public names of `litert`, and that importing a small name does not load large modules."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields

import pytest

import litert
from compiler_plugin.transformations import TransformOptions
from litert.core.compiler_options import CompilerOptions


@pytest.mark.parametrize("name", litert.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(litert, name).__name__ == name
    assert name in dir(litert)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'litert' has no attribute 'Nothing'"):
        _ = litert.Nothing


@pytest.mark.parametrize("name", ["LiteRtError", "EnvironmentOptions", "Options", "Environment"])
def test_a_small_name_loads_nothing_large(name: str) -> None:
    program = (
        f"import litert, sys; litert.{name}; "
        "print([m for m in ('numpy', 'ai_edge_litert', 'dispatch.session') if m in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (
            CompilerOptions,
            "custom_op_infos max_partitions check_kernels allow_native_assets vendor_options custom_layers",
        ),
        (TransformOptions, "extensions selection config ops_mapping static_shape keep_layout fold_limit"),
    ],
)  # fmt: skip
def test_options_by_position_stay_where_they_are(options: type, names: str) -> None:
    order = [field.name for field in fields(options)]
    assert order[: len(names.split())] == names.split()
