"""In stock LiteRT, an empty run of a vendor in Python takes at most 5 us longer than of a vendor in C.

Stock LiteRT loads only one dispatch library in a process. Each measurement therefore has its own process, and the
two vendors alternate.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

from litert_npu_tools.vendor.export_command import export, read_origin

from benchmarks.harness import BUILD, Row, compare, run_checked, seconds
from litert.abi.headers import INCLUDE_FOLDER
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.dispatch_op import DISPATCH_OP
from litert.model.graph import Appended
from litert.model.stamp import Stamp, set_stamp
from litert.model.writer import write_model

_VENDORS = Path(__file__).with_name("no_op")
_LIMIT_S = 5e-6
_PAIRS = 15

_HOST = """
import sys, time
import numpy as np
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.environment import Environment
from ai_edge_litert.hardware_accelerator import HardwareAccelerator

environment = Environment.create(dispatch_library_path=sys.argv[2])
model = CompiledModel.from_file(
    sys.argv[1], HardwareAccelerator.NPU | HardwareAccelerator.CPU, environment=environment
)
inputs = {"x": model.create_input_buffer_by_name("serving_default", "x")}
outputs = {"y": model.create_output_buffer_by_name("serving_default", "y")}
inputs["x"].write(np.ones(4, np.float32))
for count in (2000, 10000):
    start = time.perf_counter()
    for _ in range(count):
        model.run_by_name("serving_default", inputs, outputs)
    mean = (time.perf_counter() - start) / count
print("mean", mean)
"""


def measure() -> Sequence[Row]:
    """Runs the vendors in Python and in C in turn."""
    model = _model(BUILD / "no_op.bin")
    origin = read_origin(str(_VENDORS / "LiteRtDispatch_NoOp.py"))
    ours = Path(export([origin], str(BUILD / "no_op_python"))[0])
    peer = BUILD / "no_op_c" / "libLiteRtDispatch_NoOp.so"
    peer.parent.mkdir(exist_ok=True)
    flags = ["-std=c11", "-O2", "-shared", "-fPIC", f"-I{INCLUDE_FOLDER}"]
    subprocess.run(["cc", *flags, _VENDORS / "dispatch.c", "-o", peer], check=True)
    times = compare(partial(_run, model, ours.parent), partial(_run, model, peer.parent), _PAIRS)
    more = median(a - b for a, b in zip(times.ours, times.peer, strict=True))
    return [
        Row(
            f"in stock, an empty run of a vendor in Python: {seconds(more)} more than in C",
            seconds(median(times.ours)),
            seconds(median(times.peer)),
            times.spread(),
            f"<= {seconds(_LIMIT_S)} more",
            more <= _LIMIT_S,
        )
    ]


def _run(model: Path, libraries: Path) -> float:
    """Returns the mean time of a run, in seconds."""
    output = run_checked([sys.executable, "-c", _HOST, model, libraries]).output
    return float(output.split("mean ")[1])


def _model(path: Path) -> Path:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (4,))
    y = builder.custom(DISPATCH_OP, [x], [("y", "float32", (4,))])
    builder.output(y)
    builder.signature("serving_default", {"x": x}, {"y": y})
    model = builder.build()
    call = model.subgraphs[0].ops[0]
    model.byte_code.append(Appended(Blob(b"nothing"), [(call, "nothing")]))
    set_stamp(model, Stamp("NoOp", "NoOp"))
    write_model(model, path)
    return path
