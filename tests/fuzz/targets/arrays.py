"""Inputs of a run: `.npy` and `.npz`."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

import numpy as np
from litert_npu_tools.array_files import TensorSpec, read_inputs

from tests.fuzz.target import Target, write_input

_SPECS = [TensorSpec("x", "float32", (2, 3), 0), TensorSpec("y", "int8", (4,), 1)]


def _seeds() -> Sequence[bytes]:
    x, y = np.zeros((2, 3), np.float32), np.arange(4, dtype=np.int8)
    files = [BytesIO() for _ in range(4)]
    np.save(files[0], x)
    np.save(files[1], np.asfortranarray(x.astype(">f8")))
    np.savez(files[2], x=x, y=y)
    np.savez_compressed(files[3], in0=x, arr_1=y)
    return [file.getvalue() for file in files]


def _run(data: bytes) -> None:
    suffix = "npz" if data.startswith(b"PK") else "npy"
    read_inputs([write_input(f"in.{suffix}", data)], _SPECS, (0.0, 1.0))


TARGET = Target(_seeds, _run, test_runs=1000)
