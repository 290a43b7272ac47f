"""Builds compiled models for the test vendor without a compiler."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from litert.model.assets import Asset, set_assets
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder, SubgraphBuilder
from litert.model.dispatch_op import DISPATCH_OP
from litert.model.graph import Appended, Model, Op, Tensor
from litert.model.manifest import Digest, Manifest, ShapeOutput, set_manifest
from litert.model.stamp import Stamp, set_stamp
from litert.model.writer import to_bytes

VENDORS = Path(__file__).parent / "vendors"
FLOAT = "float32"


class NpuModelBuilder(ModelBuilder):
    """A model builder that can add NPU calls of the test vendor."""

    def __init__(
        self, settings: Mapping[str, int] | None = None, *, manufacturer: str = "Test"
    ) -> None:
        """Prepares a model for a vendor; `settings` become the byte code, which the vendor reads as JSON."""
        super().__init__()
        self.manufacturer = manufacturer
        self._module = Blob(json.dumps(settings or {}).encode())
        self._calls: list[tuple[Op, str]] = []
        self._shape_outputs: list[ShapeOutput] = []
        self.assets: list[Asset] = []

    def npu(
        self,
        function: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[Any],
        *,
        graph: SubgraphBuilder | None = None,
        shape_outputs: Mapping[int, int] | None = None,
    ) -> Any:
        """Adds an NPU call."""
        graph = graph or self
        made = [out if isinstance(out, Tensor) else graph.tensor(*out) for out in outputs]
        graph.custom(DISPATCH_OP, inputs, made)
        self._calls.append((graph.graph.ops[-1], function))
        for output, shape_output in (shape_outputs or {}).items():
            self._shape_outputs.append(ShapeOutput(function, output, shape_output))
        return made[0] if len(made) == 1 else tuple(made)

    def build(self) -> Model:
        model = super().build()
        if not self._calls:
            return model
        model.byte_code.append(Appended(self._module, self._calls))
        set_stamp(model, Stamp(self.manufacturer, "TEST1"))
        set_assets(model, self.assets)
        manifest = Manifest(self.manufacturer, "TEST1")
        digests = {asset.name: Digest.of(asset.blob) for asset in self.assets}
        modules = [Digest.of(self._module)]
        set_manifest(
            model,
            replace(manifest, assets=digests, modules=modules, shape_outputs=self._shape_outputs),
        )
        return model

    def bytes(self) -> bytes:
        """Returns the compiled file."""
        return to_bytes(self.build())


def one_call(function: str = "double", shape: Sequence[int] = (1, 4), **settings: int) -> bytes:
    """Returns a model with one NPU call and no other op."""
    builder = NpuModelBuilder(settings)
    x = builder.input("x", FLOAT, shape)
    builder.output(builder.npu(function, [x], [("y", FLOAT, shape)]))
    return builder.bytes()


def cpu_around_npu(shape: Sequence[int] = (1, 4), **settings: int) -> bytes:
    """Returns a model of `z = 2 * (x + x) + (x + x)`: the CPU adds, and the NPU multiplies."""
    builder = NpuModelBuilder(settings)
    x = builder.input("x", FLOAT, shape)
    a = builder.op("ADD", [x, x], [("a", FLOAT, shape)])
    b = builder.npu("double", [a], [("b", FLOAT, shape)])
    builder.output(builder.op("ADD", [a, b], [("z", FLOAT, shape)]))
    return builder.bytes()
