"""Tests that the fusion benchmark lists each fusion of the compiler and each module that reads constants."""

from __future__ import annotations

from importlib import import_module

from benchmarks.fusions import _FUSIONS, _UNPACKING
from vendor_reference.compiler.library.library_op import Fusion
from vendor_reference.compiler.pass_pipeline import compile_passes


def test_each_fusion_is_measured() -> None:
    passes = {one.name for one in compile_passes()}
    assert {fusion.value for fusion in Fusion} <= set(_FUSIONS)
    assert set(_FUSIONS) <= {fusion.value for fusion in Fusion} | passes | {"dequantize"}


def test_the_modules_that_ask_for_unpacked_constants_are_known() -> None:
    for name in _UNPACKING:
        assert hasattr(import_module(f"vendor_reference.compiler.{name}"), "unpacked_constant")
