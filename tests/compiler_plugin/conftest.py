"""Fixtures that set up the fake vendor and models for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from compiler_plugin.pipeline import ApplyOptions
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.writer import write_model

VENDORS = Path(__file__).parent / "vendors"


@pytest.fixture
def fake_options() -> Callable[..., ApplyOptions]:
    """Makes options for the fake vendor: options `fake_...` go to the vendor, `assets` maps op names to files."""

    def make(
        *,
        soc_model: str = "",
        subgraphs: Sequence[int] = (),
        require_npu: Sequence[str] = (),
        max_partitions: int = 0,
        assets: dict[str, Path] | None = None,
        **vendor_options: str,
    ) -> ApplyOptions:
        infos = [CustomOpInfo(name, str(path)) for name, path in (assets or {}).items()]
        compiler = CompilerOptions(infos, max_partitions, vendor_options=vendor_options)
        return ApplyOptions("Fake", soc_model, [str(VENDORS)], subgraphs, require_npu, compiler)

    return make


@pytest.fixture
def chain(tmp_path: Path) -> Callable[..., Path]:
    """Writes a model with a chain of custom ops, such as `chain("A", "B")`."""

    def make(*names: str) -> Path:
        return save(build_chain(*names), tmp_path / "chain.tflite")

    return make


def build_chain(*names: str) -> Model:
    builder = ModelBuilder()
    tensor = builder.input("x", "float32", (4,))
    for index, name in enumerate(names):
        tensor = builder.custom(name, [tensor], [(f"t{index}", "float32", (4,))])
    builder.output(tensor)
    return builder.build()


def save(model: Model, path: Path) -> Path:
    write_model(model, path)
    return path
