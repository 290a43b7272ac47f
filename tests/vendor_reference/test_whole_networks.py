"""Each of MediaPipe's networks is one NPU call, and gives what stock's plain kernels give."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from corpus.downloads import NETWORKS
from corpus.mediapipe_ops import Array
from corpus.whole_network import assets_of, picture_for, run_network
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo

TOLERANCE = 1e-4
"""Of an output's greatest magnitude; or three times what XNNPACK differs by. The last bit of the picture changes
an output of `pose_landmark_full` by 5e-4."""


@pytest.mark.each_driver
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_one_call_and_stocks(
    networks: Path,
    tmp_path: Path,
    name: str,
    shared_cache: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LITERT_NPU_CACHE_DIR", shared_cache)
    path, compiled = networks / f"{name}.tflite", tmp_path / "compiled.tflite"
    infos = [CustomOpInfo(op, str(asset)) for op, asset in assets_of(path).items()]
    options = CompilerOptions(infos, vendor_options={"reference_ops": "all"})
    report = apply_plugin(path, compiled, ApplyOptions(compiler=options))
    assert {op.call for op in report.ops} == {"Partition_0"}
    assert b'["Pack"' not in compiled.read_bytes()  # weights are packed when they are loaded
    with CompiledModel.from_file(str(compiled)) as model:
        found = model.run(picture_for(path))
    for output, truth in stocks(path, with_xnnpack=False).items():
        others = np.abs(stocks(path, with_xnnpack=True)[output] - truth).max()
        allowed = max(TOLERANCE * np.abs(truth).max(), 3 * others)
        assert np.abs(found[output] - truth).max() <= allowed, output


@cache
def stocks(path: Path, with_xnnpack: bool) -> dict[str, Array]:
    return run_network(path, picture_for(path), with_xnnpack)
