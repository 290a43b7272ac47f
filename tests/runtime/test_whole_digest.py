"""Tests that a change of any bit in a compiled file is detected at load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.hardware_accelerator import HardwareAccelerator
from litert.model.assets import Asset
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.manifest import Manifest, read_manifest, set_manifest
from litert.model.reader import read_model
from litert.model.stamp import Stamp, set_stamp
from litert.model.writer import to_bytes, write_model
from litert.options import Options
from litert.runtime.compile_cache import CompileCache, Kept
from tests.runtime.conftest import Load
from tests.runtime.npu_models import FLOAT, NpuModelBuilder


def with_calls() -> Model:
    """Returns a model with an NPU call after a CPU op, and an asset."""
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    a = builder.op("ADD", [x, x], [("a", FLOAT, (1, 4))])
    builder.output(builder.npu("double", [a], [("y", FLOAT, (1, 4))]))
    builder.assets = [Asset("MyOp", "", Blob(b"an asset"))]
    model = builder.build()
    manifest = read_manifest(model)
    assert manifest
    set_manifest(model, replace(manifest, has_digest=True))
    return model


def without_calls(size: int = 0) -> Model:
    """Returns a compiled model whose ops the compiler left on the CPU."""
    builder = ModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    builder.output(builder.op("ADD", [x, x], [("y", FLOAT, (1, 4))]))
    model = builder.build()
    model.set_metadata("weights", Blob(bytes(size)))
    set_stamp(model, Stamp("Test", "TEST1"))
    set_manifest(model, Manifest("Test", "TEST1", has_digest=True))
    return model


@pytest.mark.parametrize("make", [with_calls, without_calls])
def test_a_file_with_any_bit_flipped_is_refused(load: Load, make: Callable[[], Model]) -> None:
    data = to_bytes(make())
    options = Options(HardwareAccelerator.NPU | HardwareAccelerator.CPU)
    load(data, options)
    loaded = []
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            load(bytes(flipped), options)
            loaded.append(bit)
        except LiteRtError as error:
            assert error.status is Status.INVALID_FLATBUFFER and error.where, error
    assert loaded == []


@pytest.mark.parametrize("must_verify", [False, True], ids=["as usual", "on request"])
def test_a_large_file_is_verified_on_request(load: Load, must_verify: bool) -> None:
    data = bytearray(to_bytes(without_calls(17 << 20)))
    data[-1000] ^= 1
    if must_verify:
        with pytest.raises(
            LiteRtError,
            match="the file has changed since it was compiled: its digest does not match",
        ):
            load(bytes(data), Options(verify=True))
    else:
        load(bytes(data), Options())


def test_an_entry_of_the_cache_is_bound_to_its_key_and_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = CompileCache(str(tmp_path / "cache"), 1 << 20)
    key, other = "0" * 64, "1" * 64

    def store() -> None:
        with cache.store(key, without_calls()) or pytest.fail():
            pass

    def is_found(key: str) -> bool:
        found = cache.find(key, Options())
        if isinstance(found, Kept):
            found.file.close()
        return found is not None

    store()
    assert is_found(key)
    (tmp_path / "cache" / f"{key}.tflite").rename(tmp_path / "cache" / f"{other}.tflite")
    assert not is_found(other)
    store()
    monkeypatch.setenv("LITERT_NPU_DATA_DIR", str(tmp_path / "another user's"))
    assert not is_found(key)
    with read_model(to_bytes(without_calls())) as model:
        write_model(model, tmp_path / "cache" / f"{key}.tflite")  # without a seal
    assert not is_found(key)
