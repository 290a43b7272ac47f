"""Tests that a Python dispatch table can have its own kind of memory."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dispatch.api import Dispatch, TensorBuffer
from dispatch.device_buffer import DeviceBuffer
from dispatch.native.export import export_table
from dispatch.table_check import check_table
from litert.abi.tensor_types import to_c
from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.dispatch.exported_library import through_c
from tests.dispatch.strict_vendor import FLOATS, open_call, open_session
from tests.dispatch.vendors.LiteRtDispatch_OwnMemory import (
    BUFFER_TYPE,
    Handlers,
    OwnMemoryDispatch,
)
from tests.exported_vendors import exported
from tests.runtime.npu_models import FLOAT, NpuModelBuilder
from tests.stock_litert import StockRun, run_in_ours, run_in_stock

VENDOR = Path(__file__).parent / "vendors" / "LiteRtDispatch_OwnMemory.py"


@pytest.mark.parametrize("is_exported", [False, True], ids=["in Python", "through C"])
def test_a_run_works_in_the_memory_that_the_table_makes(is_exported: bool) -> None:
    vendor = OwnMemoryDispatch()
    table: Dispatch[Any, Any] = through_c(vendor) if is_exported else vendor
    with open_session(table) as session:
        call = open_call(session)
        buffers = [
            call.allocate(wanted, FLOATS, wanted.size)
            for wanted in (*call.input_requirements, *call.output_requirements)
        ]
        x, y = (buffer for buffer in buffers if buffer is not None)
        assert isinstance(x, DeviceBuffer) and x.buffer_type == BUFFER_TYPE
        call.bind_input(0, x)
        call.bind_output(0, y)
        for start in (0, 100):
            data = bytes(range(start, start + 16))
            ctypes.memmove(x.address, data, 16)
            call.invoke()
            assert ctypes.string_at(y.address, 16) == data[::-1]
        with pytest.raises(
            LiteRtError, match="its buffer type is HOST_MEMORY, but the vendor supports only"
        ):
            call.bind_input(0, TensorBuffer.allocate(FLOATS))
    del x, y, buffers
    gc.collect()
    handlers: Any = vendor.buffer_handlers
    assert handlers.alive == 0


@pytest.fixture
def reversing(tmp_path: Path) -> Path:
    """A model for the vendor, which reverses the bytes of its input."""
    builder = NpuModelBuilder(manufacturer="OwnMemory")
    x = builder.input("x", FLOAT, (1, 4))
    y = builder.npu("main", [x], [("y", FLOAT, (1, 4))])
    builder.output(y)
    builder.signature("serving_default", {"x": x}, {"y": y})
    (tmp_path / "model.tflite").write_bytes(builder.bytes())
    return tmp_path / "model.tflite"


@pytest.mark.parametrize("run", [run_in_stock, run_in_ours])
def test_an_exported_table_s_memory_is_made_and_locked_by_any_host(
    run: Callable[..., StockRun], reversing: Path
) -> None:
    value = np.array([[1, 2, 3, 4]], np.float32)
    found = run(reversing, exported("dispatch", str(VENDOR)), {"x": value}, runs=2)
    assert found.exit_status == 0, found.log
    assert found.outputs["y"].tobytes() == value.tobytes()[::-1]


KEEPING = """
    import atexit, importlib, sys
    import numpy as np

    def part(name):
        return importlib.import_module(f"{sys.argv[1]}.{name}")

    def late():
        try:
            inputs["x"].write(np.ones(4, np.float32))
        except RuntimeError:
            print("too late")

    atexit.register(late)
    hardware = part("hardware_accelerator").HardwareAccelerator
    environment = part("environment").Environment.create(dispatch_library_path=sys.argv[3])
    model = part("compiled_model").CompiledModel.from_file(
        sys.argv[2], hardware.NPU | hardware.CPU, environment=environment
    )
    inputs = {"x": model.create_input_buffer_by_name("serving_default", "x")}
    outputs = {"y": model.create_output_buffer_by_name("serving_default", "y")}
    inputs["x"].write(np.ones(4, np.float32))
    model.run_by_name("serving_default", inputs, outputs)
    sys.kept = model, inputs, outputs, environment  # for as long as there is Python, and longer
"""


@pytest.mark.parametrize("package", ["ai_edge_litert", "litert"])
def test_memory_of_an_exported_table_may_outlive_python(package: str, reversing: Path) -> None:
    command: list[str | Path] = [sys.executable, "-c", textwrap.dedent(KEEPING), package, reversing]
    folder = exported("dispatch", str(VENDOR))
    done = subprocess.run([*command, folder], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "too late" in done.stdout and "ERROR" not in done.stderr


@pytest.mark.parametrize("types", [(), (1,), (0,), "150", ("a",), None, (150, 1)], ids=str)
def test_handlers_for_no_memory_or_the_host_s_are_refused(types: Any) -> None:
    table = OwnMemoryDispatch()
    assert isinstance(table.buffer_handlers, Handlers)
    table.buffer_handlers.supported_types = types
    with pytest.raises(LiteRtError, match="supported_types of buffer_handlers is"):
        check_table(table, "here")


def test_handlers_of_another_class_are_refused() -> None:
    table: Any = OwnMemoryDispatch()
    table.buffer_handlers = object()
    with pytest.raises(LiteRtError, match="not an instance of a class derived from BufferHandlers"):
        check_table(table, "here")


@pytest.mark.parametrize("answer", [None, 0, "0x10"])
def test_a_lock_without_an_address_is_nonsense(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handlers, "lock", lambda *_: answer)
    with open_session(OwnMemoryDispatch()) as session:
        call = open_call(session)
        with pytest.raises(LiteRtError, match="which is not a valid address") as error:
            call.allocate(call.input_requirements[0], FLOATS, 16)
    assert error.value.where == f"vendor 'OwnMemory', in lock of buffer type {BUFFER_TYPE}"


def test_exported_handlers_take_only_memory_that_they_have_made() -> None:
    from litert.abi.definitions import ffi

    table = export_table(OwnMemoryDispatch())
    handlers = table.api.tensor_buffer_handlers_def
    assert list(handlers.supported_buffer_types[0 : handlers.num_supported_buffer_types]) == [
        BUFFER_TYPE
    ]
    c_type, made = ffi.new("LiteRtRankedTensorType*"), ffi.new("HwMemoryInfoPtr*")
    to_c(FLOATS, c_type)
    nothing = ffi.NULL
    assert handlers.create_func(nothing, nothing, c_type, 121, 16, 16, made) != 0
    assert handlers.create_func(nothing, nothing, nothing, BUFFER_TYPE, 16, 16, made) != 0
    assert handlers.create_func(nothing, nothing, c_type, BUFFER_TYPE, 16, 16, nothing) != 0
    assert handlers.create_func(nothing, nothing, c_type, BUFFER_TYPE, 16, 16, made) == 0
    foreign = ffi.new("HwMemoryInfoPtr")
    address = ffi.new("void**")
    for info in (nothing, foreign):
        assert handlers.lock_func(info, 2, address) == Status.INVALID_ARGUMENT
        assert handlers.unlock_func(info) == Status.INVALID_ARGUMENT
        assert handlers.destroy_func(info) == Status.INVALID_ARGUMENT
    assert handlers.lock_func(made[0], 2, address) == 0 and address[0]
    assert handlers.lock_func(made[0], 7, address) != 0  # there is no such lock mode
    assert handlers.unlock_func(made[0]) == 0
    assert handlers.destroy_func(made[0]) == 0
