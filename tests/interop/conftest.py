"""Fixtures: vendors' shared libraries, models with several kinds of assets, and a function to compile in stock."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litert.core.quantization import Quantization
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model

Array = np.ndarray[Any, Any]
StockTool = Callable[..., "subprocess.CompletedProcess[str]"]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
VENDORS = Path(__file__).parent / "vendors"


def export(folder: Path, *arguments: str | Path) -> Path:
    """Exports a Python vendor with `vendor export`, and returns the folder of its libraries."""
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler")
    code = "import sys; from litert_npu_tools.litert_npu import run; run()"
    command = [sys.executable, "-c", code, "vendor", "export", *map(str, arguments)]
    done = subprocess.run([*command, f"--output={folder}"], capture_output=True, text=True)
    if "no shared libpython" in done.stdout:
        pytest.skip("this Python has no shared libpython: a C program cannot load its libraries")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the reference vendor's libraries."""
    return export(tmp_path_factory.mktemp("reference"), "--manufacturer=Reference")


@pytest.fixture(scope="session")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the libraries of Acme, a vendor that is not installed."""
    files = sorted((EXAMPLES / "03_vendor").glob("LiteRt*_Acme.py"))
    return export(tmp_path_factory.mktemp("acme"), *files)


@dataclass(frozen=True)
class Sample:
    """A model with its assets, its inputs and its expected outputs.

    Attributes:
      model: the file before compilation.
      assets: files, by op name.
      inputs: arrays, by name.
      outputs: arrays that NumPy computed, by name.
      on_cpu: names of the ops that stay on the CPU.
    """

    model: Path
    assets: Mapping[str, Path]
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    on_cpu: Sequence[str]

    @property
    def custom_op_info(self) -> str:
        """The assets in the format of `LITERT_NPU_CUSTOM_OP_INFO`."""
        return ";".join(f"{op},{path}" for op, path in self.assets.items())


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """A model of three custom layers, from a `.xml`, a `.cl` and a `.json` file, with ABS between them on the CPU.

    The `.xml` layer has companions, and DEQUANTIZE computes its bias.
    """
    generator = np.random.default_rng(5)
    x = generator.normal(size=(2, 3, 7, 5)).astype(np.float32)
    rows = generator.normal(size=(6, 4)).astype(np.float32)
    scale = generator.normal(size=5).astype(np.float32)
    bias = (generator.normal(size=5) / 2).astype(np.float16)
    b = ModelBuilder()
    tensor, table = b.input("x", "float32", x.shape), b.input("rows", "float32", rows.shape)
    normal = b.custom(
        "RowNorm", [table], [("normal", "float32", rows.shape)], options=struct.pack("<if", 1, 0.5)
    )
    half = b.constant("net/half", bias)
    whole = b.op("DEQUANTIZE", [half], [("net/bias", "float32", (5,))])
    factors = b.constant("net/scale", scale)
    affine = b.custom(
        "ChannelAffine",
        [tensor, factors, whole],
        [("affine", "float32", x.shape)],
        options={"limits": [-0.5, 0.75]},
    )
    positive = b.op("ABS", [affine], [("positive", "float32", x.shape)])
    sign = b.custom("Softsign", [positive], [("sign", "float32", x.shape)], options={"alpha": 2.0})
    b.output(sign, normal)
    b.signature("main")
    folder = tmp_path_factory.mktemp("mixed")
    write_model(b.build(), folder / "mixed.tflite")
    clipped = np.abs(np.clip(x * scale + bias.astype(np.float32), -0.5, 0.75))
    lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True) + 0.5)
    return Sample(
        folder / "mixed.tflite",
        {
            "ChannelAffine": EXAMPLES / "configurations" / "ChannelAffine.xml",
            "Softsign": EXAMPLES / "02_kernels" / "Softsign.cl",
            "RowNorm": EXAMPLES / "02_kernels" / "RowNorm.json",
        },
        {"x": x, "rows": rows},
        {"sign": 2 * clipped / (1 + clipped), "normal": rows / lengths},
        ["ABS"],
    )


@pytest.fixture(scope="session", params=["float16", "int8"])
def apart(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """A model of a layer whose bias DEQUANTIZE computes; an op on the CPU lies between the two."""
    x = np.random.default_rng(6).normal(size=(1, 2, 3, 5)).astype(np.float32)
    scale = np.linspace(-1, 1, 5, dtype=np.float32)
    bias = np.arange(-2, 3).astype(request.param)
    quantization = None if request.param == "float16" else Quantization([0.25], [1])
    b = ModelBuilder()
    tensor = b.input("x", "float32", x.shape)
    small = b.constant("net/small", bias, quantization=quantization)
    whole = b.op("DEQUANTIZE", [small], [("net/bias", "float32", (5,))])
    positive = b.op("ABS", [tensor], [("positive", "float32", x.shape)])
    factors = b.constant("net/scale", scale)
    b.output(b.custom("ChannelAffine", [positive, factors, whole], [("y", "float32", x.shape)]))
    b.signature("main")
    folder = tmp_path_factory.mktemp("apart")
    write_model(b.build(), folder / "apart.tflite")
    real = bias.astype(np.float32) if quantization is None else 0.25 * (bias.astype(np.float32) - 1)
    assets = {"ChannelAffine": EXAMPLES / "configurations" / "ChannelAffine.xml"}
    outputs = {"y": np.abs(x) * scale + real}
    return Sample(folder / "apart.tflite", assets, {"x": x}, outputs, ["ABS"])


@pytest.fixture(scope="session")
def gains(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """A model of `y = tanh(3 x) * 3` for Acme and Cobalt: Gain, TANH, Gain. Gain's asset contains its factor."""
    folder = tmp_path_factory.mktemp("gains")
    x = np.linspace(-1, 2, 8, dtype=np.float32).reshape(2, 4)
    b = ModelBuilder()
    tensor = b.input("x", "float32", x.shape)
    first = b.custom("Gain", [tensor], [("first", "float32", x.shape)])
    bent = b.op("TANH", [first], [("bent", "float32", x.shape)])
    b.output(b.custom("Gain", [bent], [("y", "float32", x.shape)]))
    b.signature("main")
    write_model(b.build(), folder / "gains.tflite")
    asset = EXAMPLES / "03_vendor" / "gain.json"
    return Sample(
        folder / "gains.tflite", {"Gain": asset}, {"x": x}, {"y": 3 * np.tanh(3 * x)}, ["TANH"]
    )


def compile_in_stock(
    tool: StockTool,
    libraries: Path,
    manufacturer: str,
    sample: Sample,
    output: Path,
    environment: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Compiles with `apply_plugin_main`; an environment variable names the assets."""
    return tool(
        "--cmd=apply",
        f"--model={sample.model}",
        f"--o={output}",
        f"--soc_manufacturer={manufacturer}",
        f"--libs={libraries}",
        *flags,
        env={"LITERT_NPU_CUSTOM_OP_INFO": sample.custom_op_info, **(environment or {})},
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Returns everything that a command has printed."""
    return done.stdout + done.stderr
