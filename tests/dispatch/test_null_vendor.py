"""Tests that the null vendor, from which vendors start, works when installed as its own package."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.plugin import OpList
from dispatch.api import Dispatch
from dispatch.loader import find_dispatch
from dispatch.mem_buffer import MemBuffer
from dispatch.session import Session
from dispatch.tensor_buffer import TensorBuffer
from litert.compiled_model import CompiledModel
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.element_type import ElementType
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.hardware_accelerator import HardwareAccelerator
from litert.model.builder import ModelBuilder
from litert.model.writer import to_bytes, write_model
from litert.options import Options

pytest.importorskip("litert_npu_null", reason="needs pip install -e tests/null_vendor")

BYTES = RankedTensorType.of(ElementType.UINT8, (3,))


def compile_two() -> tuple[bytes, list[str]]:
    """Compiles two partitions; returns the byte code and the names of the calls."""
    from litert_npu_null.compiler_plugin import PLUGIN

    builder = ModelBuilder()
    x = builder.input("x", "uint8", (3,))
    y = builder.custom("Copy", [x], [("y", "uint8", (3,))])
    z = builder.custom("Other", [y], [("z", "uint8", (3,))])
    wide = builder.custom("Copy", [z], [("wide", "int32", (3,))])
    builder.output(wide)
    graph = builder.build().subgraphs[0]
    options = CompilerOptions(custom_op_infos=[CustomOpInfo("Copy", "copy.txt")])
    plugin = PLUGIN.create(EnvironmentOptions(), options)
    ops = OpList()
    plugin.partition("NULL1", graph, ops)
    assert [s.op for s in ops.selected] == [graph.ops[0]]
    assert list(ops.refusals.values()) == ["input 0 and output 0 differ in type"]
    result = plugin.compile("NULL1", [graph, graph])
    plugin.close()
    assert [call.byte_code_index for call in result.calls] == [0, 0]
    return bytes(result.byte_code[0]), [call.name for call in result.calls]


def test_a_kernel_is_another_vendor_s_where_the_user_names_none(tmp_path: Path) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    builder.output(builder.custom("Twice", [x], [("y", "float32", (1, 4))]))
    kernel = "__kernel void Twice(__global float* x, __global float* y) {"
    path = tmp_path / "Twice.cl"
    path.write_text(f"{kernel} y[get_global_id(0)] = 2 * x[get_global_id(0)]; }}")
    infos = [CustomOpInfo("Twice", str(path))]
    options = Options(HardwareAccelerator.NPU, custom_op_infos=infos)
    with CompiledModel.from_buffer(to_bytes(builder.build()), options=options) as model:
        ones = np.ones((1, 4), np.float32)
        assert np.array_equal(model.run({"x": ones})["y"], 2 * ones)


def open_null(dispatch: Dispatch[object, object]) -> Session:
    return Session(
        dispatch,
        environment_options=EnvironmentOptions(),
        options={},
        assets=[("Copy", MemBuffer.from_memory(b"an asset"))],
    )


def test_what_its_compiler_writes_its_driver_runs() -> None:
    byte_code, names = compile_two()
    with open_null(find_dispatch("Null")) as session:
        calls = [
            session.open_call(MemBuffer.from_memory(byte_code), name, [BYTES], [BYTES])
            for name in names
        ]
        buffers = [TensorBuffer.allocate(BYTES) for _ in range(3)]
        for call, source, target in zip(calls, buffers[:2], buffers[1:], strict=True):
            call.bind_input(0, source)
            call.bind_output(0, target)
        buffers[0].array()[:] = [1, 2, 3]
        for call in calls:
            call.invoke()
        assert list(buffers[2].array()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("byte_code", "function", "status"),
    [
        (b"", "copy_0", Status.INCOMPATIBLE_BYTE_CODE_VERSION),
        (b"NULL2\ncopy_0", "copy_0", Status.INCOMPATIBLE_BYTE_CODE_VERSION),
        (b"NULL1\ncopy_0", "copy_1", Status.NOT_FOUND),
        (b"NULL1\n\xff\xfe", "copy_0", Status.NOT_FOUND),
    ],
)
def test_byte_code_that_it_did_not_write_is_refused(
    byte_code: bytes, function: str, status: Status
) -> None:
    with open_null(find_dispatch("Null")) as session:
        with pytest.raises(LiteRtError) as error:
            session.open_call(MemBuffer.from_memory(byte_code), function, [BYTES], [BYTES])
        assert error.value.status is status
        assert "vendor 'Null', in invocation_context_create" in error.value.where


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
def test_a_model_goes_from_the_file_to_the_npu_and_back(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    """The vendor is found by its entry points only; its op lies between ops that stay on the CPU."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", shape)
    doubled = builder.op("ADD", [x, x], [("doubled", "float32", shape)])
    copied = builder.custom("Copy", [doubled], [("copied", "float32", shape)])
    y = builder.op("NEG", [copied], [("y", "float32", shape)])
    builder.output(y)
    builder.signature("serving_default", {"x": x}, {"y": y})
    write_model(builder.build(), tmp_path / "in.tflite")
    (tmp_path / "copy.asset").write_bytes(b"of no use to Null")
    infos = [CustomOpInfo("Copy", str(tmp_path / "copy.asset"))]
    options = ApplyOptions("Null", compiler=CompilerOptions(infos))
    report = apply_plugin(tmp_path / "in.tflite", tmp_path / "out.tflite", options)
    assert [op.name for op in report.ops if op.call] == ["Copy"]

    values = np.arange(math.prod(shape), dtype=np.float32).reshape(shape) + 1
    with CompiledModel.from_file(tmp_path / "out.tflite") as model:
        for _ in range(2):
            result = model.run({"x": values})
            np.testing.assert_array_equal(result["y"], -2 * values)
