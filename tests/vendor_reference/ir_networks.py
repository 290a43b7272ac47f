"""Small networks that together use everything on the IR levels, to be compiled from each of their stages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.writer import write_model
from tests.vendor_reference.test_dynamic_shapes import (
    BY_BUFFER,
    UPSCALE,
    UPSCALE_BY_BUFFER,
    one_op,
)
from tests.vendor_reference.test_levels_run import SCALE, SCALE_CL

Array = npt.NDArray[Any]
F32 = "float32"
_RANDOM = np.random.default_rng(0)


class Network:
    """A model in a folder, `in.tflite`, with its compiler options and inputs."""

    def __init__(
        self, folder: Path, options: CompilerOptions, inputs: Mapping[str, Array] | None = None
    ) -> None:
        self.folder = folder
        self.options = options
        self.inputs = inputs

    def compile(self, name: str = "out.tflite", **more: Any) -> Report:
        """Compiles the model with additional compiler options."""
        options = ApplyOptions(compiler=replace(self.options, **more))
        return apply_plugin(self.folder / "in.tflite", self.folder / name, options)

    def dump(self) -> list[Path]:
        """Compiles the model and dumps all stages; returns the dumped files in order."""
        folder = self.folder / "dump"
        self.compile(dump=DumpOptions(str(folder), "all"))
        return sorted(folder.glob("*.mlir"))

    def run(self, name: str = "out.tflite") -> list[Array]:
        """Runs a compiled file; returns its outputs in order."""
        return run_file(self.folder / name, list(self.inputs.values()) if self.inputs else ())


def run_file(path: Path, inputs: Any = ()) -> list[Array]:
    """Runs a model on inputs, by default on the same random ones each time; returns its outputs in order."""
    random = np.random.default_rng(1)
    with CompiledModel.from_file(str(path)) as model:
        signature = model.get_signature_by_index(0)
        details = model.get_input_tensor_details(signature["key"])
        given = {name: value for name, value in zip(signature["inputs"], inputs, strict=False)} or {
            name: random.normal(size=details[name]["shape"]).astype(details[name]["dtype"])
            for name in signature["inputs"]
        }
        made = model.run(given)
        return [np.array(made[name]) for name in signature["outputs"]]


def byte_code(path: Path) -> list[bytes]:
    """Returns the byte code modules of a compiled file."""
    with read_model(path) as model:
        return [bytes(module.blob.view) for module in model.byte_code]


def convolutions(folder: Path) -> Network:
    """Builds builtin ops with fusions, float16 weights, parts of a concatenation, and branches."""
    b = ModelBuilder()
    x = b.input("x", F32, (1, 8, 8, 3))
    stored = b.constant("w_stored", _RANDOM.normal(size=(4, 3, 3, 3)).astype(np.float16))
    w = b.op("DEQUANTIZE", [stored], [("w", F32, (4, 3, 3, 3))])
    bias = b.constant("bias", _RANDOM.normal(size=4).astype(np.float32))
    made = ("conv", F32, (1, 8, 8, 4))
    conv = b.op("CONV_2D", [x, w, bias], [made], padding="SAME", stride_w=1, stride_h=1)
    relu = b.op("RELU", [conv], [("relu", F32, (1, 8, 8, 4))])
    sine = b.op("SIN", [relu], [("sine", F32, (1, 8, 8, 4))])
    sums = b.op("ADD", [relu, sine], [("sum", F32, (1, 8, 8, 4))])
    joined = b.op("CONCATENATION", [relu, sums], [("joined", F32, (1, 8, 8, 8))], axis=3)
    window: dict[str, Any] = {"stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}
    pooled = ("y", F32, (1, 4, 4, 8))
    alone = b.op("COS", [relu], [("alone", F32, (1, 8, 8, 4))])
    b.output(sums, alone, b.op("MAX_POOL_2D", [joined], [pooled], padding="VALID", **window))
    write_model(b.build(), folder / "in.tflite")
    return Network(folder, CompilerOptions(vendor_options={"reference_ops": "all"}))


def layouts(folder: Path, reference_ops: str = "all") -> Network:
    """Builds custom layers with required layouts and constant weights, and a builtin op between them."""
    (folder / "scale.xml").write_text(SCALE)
    (folder / "scale.cl").write_text(SCALE_CL)
    shape = (1, 3, 4, 5)
    b = ModelBuilder()
    x = b.input("x", F32, shape)
    w = b.constant("w", _RANDOM.normal(size=shape).astype(np.float32))
    h = b.custom("Scale", [x, w], [("h", F32, shape)])
    s = b.op("ADD", [h, x], [("s", F32, shape)])
    b.output(b.custom("Scale", [s, w], [("y", F32, shape)]))
    write_model(b.build(), folder / "in.tflite")
    infos = [CustomOpInfo("Scale", str(folder / "scale.xml"))]
    return Network(folder, CompilerOptions(infos, vendor_options={"reference_ops": reference_ops}))


def halves(folder: Path) -> Network:
    """Builds a custom layer on float16 tensors, which becomes two functions, of which the device runs one."""
    source = """\
__kernel void Scale(const __global INPUT0_TYPE* x, __global OUTPUT0_TYPE* y) {
  const size_t i = get_global_id(0);
  y[i] = x[i] * (INPUT0_TYPE) 1.5f;
}
"""
    (folder / "scale.cl").write_text(source)
    b = ModelBuilder()
    x = b.input("x", "float16", (96,))
    h = b.custom("Scale", [x], [("h", "float16", (96,))])
    b.output(b.custom("Scale", [h], [("y", "float16", (96,))]))
    write_model(b.build(), folder / "in.tflite")
    return Network(folder, CompilerOptions([CustomOpInfo("Scale", str(folder / "scale.cl"))]))


def dynamic(folder: Path) -> Network:
    """Builds a custom layer of dynamic shape with a kernel that computes its result's shape."""
    (folder / "k.cl").write_text(UPSCALE_BY_BUFFER)
    description = {**UPSCALE, **BY_BUFFER, "shape_kernel": {"entry": "upscaled"}}
    (folder / "layer.json").write_text(json.dumps(description))
    builder = one_op("Upscale", (-1, -1, -1, 2), (-1, -1, -1, 2))
    write_model(builder.build(), folder / "in.tflite")
    bounds = {"x": (2, 5, 4, 2), "y": (2, 10, 8, 2)}
    infos = [CustomOpInfo("Upscale", str(folder / "layer.json"))]
    inputs = {"x": _RANDOM.normal(size=(2, 3, 4, 2)).astype(np.float32)}
    return Network(folder, CompilerOptions(infos, shape_bounds=bounds), inputs)


NETWORKS: Mapping[str, Callable[[Path], Network]] = {
    make.__name__: make for make in (convolutions, layouts, halves, dynamic)
}
