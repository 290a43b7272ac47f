"""Tests how files are loaded, and which files cannot be loaded."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litert.compiled_model import CompiledModel
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.environment import Environment
from litert.hardware_accelerator import HardwareAccelerator
from litert.model.assets import Asset
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.byte_code_container import pack
from litert.model.graph import Model
from litert.model.manifest import MANIFEST_KEY
from litert.model.stamp import STAMP_KEY, Stamp, set_stamp
from litert.model.writer import to_bytes
from litert.options import Options
from tests.runtime.conftest import Load
from tests.runtime.npu_models import FLOAT, NpuModelBuilder, cpu_around_npu, one_call

X = np.array([[1, 2, 3, 4]], np.float32)
CPU, NPU = HardwareAccelerator.CPU, HardwareAccelerator.NPU


def raw_model() -> bytes:
    """Returns a model with one ADD, which is not compiled for an NPU."""
    builder = ModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    builder.output(builder.op("ADD", [x, x], [("y", FLOAT, (1, 4))]))
    return to_bytes(builder.build())


def with_assets() -> NpuModelBuilder:
    """Returns the builder of a model with an asset and a companion."""
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    builder.output(builder.npu("double", [x], [("y", FLOAT, (1, 4))]))
    builder.assets = [
        Asset("MyOp", "", Blob(b"an asset")),
        Asset("MyOp", "part/one.h", Blob(b"a companion")),
    ]
    return builder


def edited(change: Callable[[Model], object]) -> bytes:
    """Returns a compiled model after a change."""
    model = with_assets().build()
    change(model)
    return to_bytes(model)


def drop_stamp(model: Model) -> None:
    model.metadata = [entry for entry in model.metadata if entry.name != STAMP_KEY]


def unknown_function() -> bytes:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    builder.output(builder.npu("nothing like it", [x], [("y", FLOAT, (1, 4))]))
    return builder.bytes()


def other_manufacturer() -> bytes:
    builder = NpuModelBuilder(manufacturer="Nobody")
    x = builder.input("x", FLOAT, (1, 4))
    builder.output(builder.npu("double", [x], [("y", FLOAT, (1, 4))]))
    return builder.bytes()


def unknown_custom_op() -> bytes:
    builder = ModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    builder.output(builder.custom("Mystery", [x], [("y", FLOAT, (1, 4))]))
    return to_bytes(builder.build())


def unknown_custom_op_beside_the_npu() -> bytes:
    """Returns a compiled model with an op that was left on the CPU, where no kernel exists for it."""
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    y = builder.npu("double", [x], [("y", FLOAT, (1, 4))])
    builder.output(builder.custom("Mystery", [y], [("z", FLOAT, (1, 4))]))
    return builder.bytes()


def changed_asset() -> bytes:
    return with_assets().bytes().replace(b"an asset", b"an ASSET")


def cut_module() -> bytes:
    data = one_call(padding=1)
    return data[: data.index(b'"padding"')]


def no_shape_output() -> bytes:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    y = builder.npu("double", [x], [("y", FLOAT, (1, 4))], shape_outputs={0: 1})
    builder.output(y)
    return builder.bytes()


def sparsity_lost() -> bytes:
    """Returns a model whose constants lost their sparsity, as stock's `apply_plugin_main` writes it."""
    builder = NpuModelBuilder()
    y = builder.npu("double", [builder.input("x", FLOAT, (1, 4))], [("y", FLOAT, (1, 4))])
    for index in range(20):
        weights = builder.constant(f"w{index}", np.ones((1, 2), np.float32))
        weights.shape = (1, 4)
        y = builder.op("ADD", [y, weights], [(f"y{index}", FLOAT, (1, 4))])
    builder.output(y)
    return builder.bytes()


BAD: dict[str, tuple[Callable[[], bytes], Status, str]] = {
    "no vendor": (other_manufacturer, Status.NOT_FOUND, "no dispatch table.*'Nobody'"),
    "no stamp": (lambda: edited(drop_stamp), Status.INVALID_FLATBUFFER, "the stamp is missing"),
    "a changed asset": (changed_asset, Status.INVALID_FLATBUFFER, "asset 'MyOp' has changed"),
    "a cut file": (cut_module, Status.INVALID_FLATBUFFER, "The data are damaged"),
    "no such function": (unknown_function, Status.NOT_FOUND, "no such function.*'Test'"),
    "an unknown custom op": (
        unknown_custom_op,
        Status.RUNTIME_FAILURE,
        "Mystery.*Give the file that implements the op",
    ),
    "a custom op that was left on the CPU": (
        unknown_custom_op_beside_the_npu,
        Status.RUNTIME_FAILURE,
        "Mystery.*apply_plugin left the op on the CPU.*report.*--require_npu",
    ),
    "a constant that is too small": (
        sparsity_lost,
        Status.INVALID_FLATBUFFER,
        '^.{,300}Tensor [0-9]+ is invalidly specified in schema" '
        ".*lost the sparsity data of the constant.*litert-npu's apply_plugin",
    ),
    "no shape output": (
        no_shape_output,
        Status.INVALID_FLATBUFFER,
        "the file says that output 1 contains a shape, but the only output has index 0",
    ),
    "no model": (lambda: b"no model", Status.INVALID_FLATBUFFER, "not a TFLite model"),
    "nothing": (lambda: b"", Status.INVALID_FLATBUFFER, "empty"),
}


def test_a_file_that_is_replaced_while_it_is_loaded_is_the_one_that_was_opened(
    environment: Environment, vendor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(one_call())
    (tmp_path / "new.tflite").write_bytes(cpu_around_npu())
    create = vendor.device_context_create

    def replace_and_create(options: Any) -> Any:
        (tmp_path / "new.tflite").replace(path)
        return create(options)

    monkeypatch.setattr(vendor, "device_context_create", replace_and_create)
    with CompiledModel.from_file(path, environment=environment) as model:
        assert list(model.run({"x": X})) == ["y"]


def test_a_file_s_name_may_be_any_bytes(environment: Environment, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff\xfe.tflite"
    with open(path, "wb") as file:
        file.write(one_call())
    with CompiledModel.from_file(os.fsdecode(path), environment=environment) as model:
        assert list(model.run({"x": X})) == ["y"]


@pytest.mark.parametrize("where", ["file", "buffer"])
@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_loaded_says_why_and_leaves_nothing_open(
    environment: Environment, vendor: Any, tmp_path: Path, kind: str, where: str
) -> None:
    make, status, message = BAD[kind]
    path = tmp_path / "model.tflite"
    path.write_bytes(make())
    gc.collect()
    files = os.listdir("/proc/self/fd")
    with pytest.raises(LiteRtError, match=message) as error:
        if where == "file":
            CompiledModel.from_file(path, environment=environment)
        else:
            CompiledModel.from_buffer(path.read_bytes(), environment=environment)
    assert error.value.status is status
    del error
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == len(files)
    assert not vendor.devices and not vendor.calls


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LiteRtError, match=r"no such file.*missing\.tflite") as error:
        CompiledModel.from_file(tmp_path / "missing.tflite")
    assert error.value.status is Status.NOT_FOUND


def test_assets_are_handed_over_mapped_companions_first(
    environment: Environment, vendor: Any, tmp_path: Path
) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(with_assets().bytes())
    with CompiledModel.from_file(str(path), environment=environment):
        (device,) = vendor.devices
        assert list(device.assets.items()) == [
            ("MyOp/part/one.h", b"a companion"),
            ("MyOp", b"an asset"),
        ]
        assert min(device.asset_fds) >= 0


def carrying(byte_code: bytes, assets: list[Asset], embedded: list[Asset]) -> bytes:
    """Returns a file whose byte code contains assets, as plugins in stock's compiler write it."""
    builder = with_assets()
    builder.assets = embedded
    model = builder.build()
    model.metadata = [entry for entry in model.metadata if entry.name != MANIFEST_KEY]
    model.byte_code[0].blob = Blob(pack(Blob(byte_code), assets))
    return to_bytes(model)


def test_assets_that_byte_code_carries_are_handed_over_like_others(
    environment: Environment, tmp_path: Path, vendor: Any
) -> None:
    carried, path = with_assets().assets, tmp_path / "model.tflite"
    path.write_bytes(carrying(b"{}", carried, []))
    with CompiledModel.from_file(str(path), environment=environment) as model:
        (device,) = vendor.devices
        assert list(device.assets.items()) == [
            ("MyOp/part/one.h", b"a companion"),
            ("MyOp", b"an asset"),
        ]
        assert min(device.asset_fds) >= 0
        np.testing.assert_array_equal(model.run({"x": X})["y"], 2 * X)


def test_an_asset_that_is_embedded_and_carried_is_registered_once(load: Load, vendor: Any) -> None:
    assets = with_assets().assets
    load(carrying(b"{}", assets[1:], assets))
    assert list(vendor.devices[-1].assets) == ["MyOp/part/one.h", "MyOp"]


def test_two_assets_of_one_name_that_differ_are_refused(load: Load) -> None:
    other = [Asset("MyOp", "", Blob(b"another"))]
    with pytest.raises(LiteRtError, match="two different assets have the name 'MyOp'"):
        load(carrying(b"{}", with_assets().assets, other))


def test_a_buffer_s_assets_have_no_file(load: Load, vendor: Any) -> None:
    load(with_assets().bytes())
    (device,) = vendor.devices
    assert device.asset_fds == [-1, -1]


def test_options_reach_the_vendor(load: Load, vendor: Any) -> None:
    options = Options(dispatch_options={"clock": "low"}, allow_native_assets=True)
    options.qualcomm_options.vtcm_size = 4
    load(one_call(), options)
    (device,) = vendor.devices
    assert dict(device.options) == {
        "allow_native_assets": "true",
        "clock": "low",
        "qualcomm.vtcm_size": "4",
    }


@pytest.mark.parametrize("must_check", [False, True], ids=["as usual", "on request"])
def test_digests_of_large_parts_are_checked_on_request(
    monkeypatch: pytest.MonkeyPatch, load: Load, must_check: bool
) -> None:
    monkeypatch.setattr("litert.runtime.loading.AT_LOAD_LIMIT", 4)  # each part is larger than this
    if must_check:
        with pytest.raises(LiteRtError, match="asset 'MyOp' has changed"):
            load(changed_asset(), Options(verify=True))
    else:
        load(changed_asset(), Options())


@pytest.mark.parametrize("accelerators", [CPU, NPU, CPU | NPU], ids=str)
def test_npu_calls_run_on_the_npu_whatever_is_asked_for(
    load: Load, vendor: Any, accelerators: HardwareAccelerator
) -> None:
    model = load(one_call(), Options(accelerators))
    np.testing.assert_array_equal(model.run({"x": X})["y"], 2 * X)
    assert vendor.calls[0].num_runs == 1


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (
            raw_model,
            "No vendor compiled the model when it was loaded. Vendor 'Reference' was not tried, because",
        ),
        (cpu_around_npu, "--accelerator=npu,cpu"),
    ],
    ids=["not compiled", "compiled in part"],
)
def test_the_npu_alone_refuses_what_the_cpu_would_run(
    load: Load, make: Callable[[], bytes], hint: str
) -> None:
    with pytest.raises(
        LiteRtError, match=r"(op \(ADD\) is|ops \(ADD\) are) not compiled for the NPU"
    ) as error:
        load(make(), Options(NPU))
    assert error.value.status is Status.COMPILATION
    assert hint in str(error.value)


def test_a_model_that_was_not_compiled_runs_on_the_cpu_and_says_so(
    load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        model = load(raw_model(), Options(CPU | NPU))
    assert "not compiled for an NPU" in caplog.text
    assert "Vendor 'Reference' was not tried, because you gave no asset" in caplog.text
    np.testing.assert_array_equal(model.run({"x": X})["y"], 2 * X)


def test_a_model_that_nothing_can_run_has_an_error_and_no_warning(
    load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    builder = ModelBuilder()
    builder.output(
        builder.custom("Unknown", [builder.input("x", FLOAT, (4,))], [("y", FLOAT, (4,))])
    )
    with pytest.raises(
        LiteRtError,
        match=r"No vendor compiled the model when it was loaded\. Vendor 'Reference' was not tried",
    ):
        load(to_bytes(builder.build()), Options(CPU | NPU))
    assert not caplog.messages


def test_a_compiled_model_without_npu_calls_is_not_said_to_be_compiled_again(
    load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    builder = ModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    builder.output(builder.op("ADD", [x, x], [("y", FLOAT, (1, 4))]))
    model = builder.build()
    set_stamp(model, Stamp("Test", "T1"))
    with caplog.at_level(logging.WARNING):
        load(to_bytes(model), Options(CPU | NPU))
    assert "has no op for the NPU (see the report of apply_plugin)" in caplog.text
    assert "Compile the model" not in caplog.text


def test_a_gpu_is_left_out_with_a_warning_or_refused(
    load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        load(raw_model(), Options(HardwareAccelerator.GPU | CPU))
    assert "does not support GPUs" in caplog.text
    with pytest.raises(LiteRtError, match="does not support GPUs"):
        load(raw_model(), Options(HardwareAccelerator.GPU))


def test_two_signatures_have_their_own_calls(load: Load, vendor: Any) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    builder.output(builder.npu("double", [x], [("y", FLOAT, (1, 4))]))
    builder.signature("twice", {"value": x})
    other = builder.subgraph("other")
    a, b = other.input("a", FLOAT, (4,)), other.input("b", FLOAT, (4,))
    difference = builder.npu("subtract", [a, b], [("difference", FLOAT, (4,))], graph=other)
    other.output(difference)
    other.signature("minus")
    model = load(builder.bytes())
    for _ in range(2):
        np.testing.assert_array_equal(model.run({"value": X}, "twice")["y"], 2 * X)
        found = model.run({"a": X[0], "b": 3 * X[0]}, "minus")
        np.testing.assert_array_equal(found["difference"], -2 * X[0])
    assert [call.num_runs for call in vendor.calls] == [2, 2]


def test_signatures_of_one_graph_keep_out_of_each_other_s_buffers(load: Load) -> None:
    builder = NpuModelBuilder()
    x = builder.input("x", FLOAT, (1, 4))
    y = builder.op("ADD", [x, x], [("y", FLOAT, (1, 4))])
    z = builder.npu("double", [y], [("z", FLOAT, (1, 4))])
    builder.output(y, z)
    builder.signature("both", {"x": x}, {"y": y, "z": z})
    builder.signature("last", {"x": x}, {"z": z})
    model = load(builder.bytes())
    inputs, both = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(X)
    model.run_by_index(0, inputs, both)
    other, last = model.create_input_buffers(1), model.create_output_buffers(1)
    other[0].write(5 * X)
    model.run_by_index(1, other, last)
    np.testing.assert_array_equal(last[0].array(), 20 * X)
    np.testing.assert_array_equal(both[0].array(), 2 * X)
    np.testing.assert_array_equal(both[1].array(), 4 * X)


def test_a_closed_model_says_so(load: Load) -> None:
    model = load(one_call())
    model.close()
    model.close()
    with pytest.raises(LiteRtError, match="the model is closed"):
        model.run({"x": X})
