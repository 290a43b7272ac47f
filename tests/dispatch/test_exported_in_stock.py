"""Tests that Python dispatch tables run in unmodified stock LiteRT, in Python and in a C program."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import ai_edge_litert
import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.exported_vendors import c_program, exported
from tests.stock_litert import run_in_stock

SIZE = 6
X = np.arange(SIZE, dtype=np.float32)
GAIN = """
    #include "lib/factor.h"
    __kernel void Gain(__global const float* x, __global float* y) {
      int i = get_global_id(0);
      y[i] = x[i] * PARAM_gain * FACTOR;
    }
"""


def compiled(folder: Path, op: str, manufacturer: str, asset: Path) -> Path:
    """Compiles a model with one op, y = op(x), for a vendor; returns its path."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (SIZE,))
    y = builder.custom(op, [x], [("y", "float32", (SIZE,))], options={"gain": 3.0})
    builder.output(y)
    builder.signature("serving_default", {"x": x}, {"y": y})
    write_model(builder.build(), folder / "in.tflite")
    options = ApplyOptions(manufacturer, compiler=CompilerOptions([CustomOpInfo(op, str(asset))]))
    apply_plugin(folder / "in.tflite", folder / "out.tflite", options)
    return folder / "out.tflite"


@pytest.fixture
def copying(tmp_path: Path) -> Path:
    """A model for the null vendor: y = x."""
    (tmp_path / "copy.asset").write_bytes(b"of no use to Null")
    return compiled(tmp_path, "Copy", "Null", tmp_path / "copy.asset")


@pytest.fixture
def gaining(tmp_path: Path) -> Path:
    """A model for the reference vendor, whose kernel has a companion: y = 6 x."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "Gain.cl").write_text(textwrap.dedent(GAIN))
    (tmp_path / "lib/factor.h").write_text("#define FACTOR 2.0f\n")
    return compiled(tmp_path, "Gain", "Reference", tmp_path / "Gain.cl")


def run_in_c(
    model: Path, libraries: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs a model with stock's C API in a C program."""
    stock = Path(ai_edge_litert.__file__).with_name("libLiteRt.so")
    runs, threads = arguments[:2] or ("3", "1")
    command: list[str | Path] = [c_program("stock_host"), stock, model, libraries, str(SIZE)]
    return subprocess.run(
        [*command, runs, threads, *arguments[2:]],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def outputs(done: subprocess.CompletedProcess[str]) -> list[list[float]]:
    """Returns the outputs that the C program's threads printed."""
    lines = [line.split() for line in done.stdout.splitlines()]
    return [list(map(float, values)) for kind, *values in lines if kind == "y"]


@pytest.mark.parametrize("manufacturer", ["Null", "Reference"])
def test_a_table_in_python_runs_in_stock(request: pytest.FixtureRequest, manufacturer: str) -> None:
    model = request.getfixturevalue({"Null": "copying", "Reference": "gaining"}[manufacturer])
    run = run_in_stock(model, exported("dispatch", manufacturer), {"x": X}, runs=3)
    assert run.exit_status == 0, run.log
    np.testing.assert_array_equal(run.outputs["y"], X * (6 if manufacturer == "Reference" else 1))
    assert "ERROR" not in run.log


@pytest.mark.parametrize("way", [(), ("async",)], ids=["waits", "does not wait"])
@pytest.mark.parametrize("threads", [1, 4])
def test_assets_and_kernels_run_in_a_c_program(
    gaining: Path, threads: int, way: tuple[str, ...]
) -> None:
    done = run_in_c(gaining, exported("dispatch", "Reference"), "20", str(threads), *way)
    assert done.returncode == 0, done.stdout + done.stderr
    assert outputs(done) == [list(6 * X)] * threads
    assert "ERROR" not in done.stderr
    assert ("async 1" in done.stdout) == bool(way)


def test_a_c_program_compiles_at_load_with_plugin_and_table_in_one_interpreter(
    gaining: Path,
) -> None:
    plugins, asset = exported("compiler_plugin", "Reference"), gaining.with_name("Gain.cl")
    variables = {"PLUGINS": str(plugins), "LITERT_NPU_CUSTOM_OP_INFO": f"Gain,{asset}"}
    raw = gaining.with_name("in.tflite")
    done = run_in_c(raw, exported("dispatch", "Reference"), **variables)
    assert done.returncode == 0 and outputs(done) == [list(6 * X)], done.stdout + done.stderr
    assert "1 compiler plugins were applied successfully" in done.stderr
    without = run_in_c(raw, exported("dispatch", "Reference"))
    assert without.returncode == 1  # the CPU has no such op


def test_many_threads_of_a_c_program_run_models_of_their_own(copying: Path) -> None:
    done = run_in_c(copying, exported("dispatch", "Null"), "200", "16")
    assert done.returncode == 0 and outputs(done) == [list(X)] * 16, done.stdout + done.stderr


FAILING = """
    import os
    from litert.core.errors import LiteRtError
    from litert.core.status import Status
    from litert_npu_null.dispatch import NullDispatch

    class FailingDispatch(NullDispatch):
        vendor_id = "Failing"

    def failing(function):
        def fail(self, *arguments):
            if os.environ.get("ERROR") == "exit":
                raise SystemExit(5)
            if os.environ.get("ERROR") == "bug":
                return len(None)
            raise LiteRtError(Status.UNSUPPORTED, "the tiles are wet", "tile 3", "Dry them.")
        return fail

    function = os.environ.get("FAILING")
    if function:
        setattr(FailingDispatch, function, failing(function))

    DISPATCH = FailingDispatch()
"""


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exports a table that fails in the function that the environment names; returns the library's folder."""
    path = tmp_path_factory.mktemp("failing") / "LiteRtDispatch_Failing.py"
    path.write_text(textwrap.dedent(FAILING))
    return exported("dispatch", str(path))


@pytest.mark.parametrize(
    "function",
    [
        "initialize", "check_runtime_compatibility", "device_context_create", "register_asset",
        "invocation_context_create", "get_input_requirements", "get_output_requirements",
        "register_tensor_buffer", "attach_input", "attach_output", "invoke",
    ],
)  # fmt: skip
def test_an_error_in_python_fails_the_run_with_words(
    copying: Path, failing: Path, function: str
) -> None:
    done = run_in_c(copying, failing, FAILING=function, ERROR="")
    assert done.returncode == 1 and not outputs(done)
    (line, *_) = [line for line in done.stderr.splitlines() if "the tiles are wet" in line]
    assert line.startswith("ERROR: [litert_npu] ") and "Failing" in line and function in line


@pytest.mark.parametrize(
    "function", ["detach_input", "unregister_tensor_buffer", "device_context_destroy"]
)
def test_an_error_at_the_end_is_said_and_no_more(
    copying: Path, failing: Path, function: str
) -> None:
    done = run_in_c(copying, failing, FAILING=function, ERROR="")
    assert done.returncode == 0 and outputs(done) == [list(X)]
    assert "the tiles are wet" in done.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [("bug", "object of type 'NoneType' has no len()"), ("exit", "SystemExit: 5")],
)
def test_whatever_python_raises_ends_nothing(
    copying: Path, failing: Path, error: str, said: str
) -> None:
    done = run_in_c(copying, failing, FAILING="invoke", ERROR=error)
    assert done.returncode == 1 and said in done.stderr


AT_EXIT = """
    import atexit, sys
    import numpy as np

    def late():
        try:
            model.run_by_name("serving_default", inputs, outputs)
        except RuntimeError:
            print("too late")

    atexit.register(late)
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.environment import Environment
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator

    environment = Environment.create(dispatch_library_path=sys.argv[2])
    hardware = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    model = CompiledModel.from_file(sys.argv[1], hardware, environment=environment)
    inputs = {"x": model.create_input_buffer_by_name("serving_default", "x")}
    outputs = {"y": model.create_output_buffer_by_name("serving_default", "y")}
    inputs["x"].write(np.ones(6, np.float32))
    model.run_by_name("serving_default", inputs, outputs)
    print(outputs["y"].read(6, np.float32))
"""


@pytest.mark.parametrize("manufacturer", ["Null", "Reference"])
def test_a_python_program_ends_with_its_models_open(
    request: pytest.FixtureRequest, manufacturer: str
) -> None:
    """Checks that runs are refused once Python has begun to end, and that releases then do no harm."""
    model = request.getfixturevalue({"Null": "copying", "Reference": "gaining"}[manufacturer])
    command: list[str | Path] = [sys.executable, "-c", textwrap.dedent(AT_EXIT), model]
    libraries = exported("dispatch", manufacturer)
    done = subprocess.run([*command, libraries], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    value = "6. 6." if manufacturer == "Reference" else "1. 1."
    assert value in done.stdout and "too late" in done.stdout


IN_THREADS = """
    import sys, threading
    import numpy as np
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.environment import Environment
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator

    sys.setswitchinterval(1e-6)
    environment = Environment.create(dispatch_library_path=sys.argv[2])
    hardware = HardwareAccelerator.NPU | HardwareAccelerator.CPU
    creation = threading.Lock()  # stock takes a lock of its own here, and keeps the GIL
    right = []

    def run(number):
        with creation:
            model = CompiledModel.from_file(sys.argv[1], hardware, environment=environment)
        inputs = {"x": model.create_input_buffer_by_name("serving_default", "x")}
        outputs = {"y": model.create_output_buffer_by_name("serving_default", "y")}
        for value in range(number, number + 200):
            inputs["x"].write(np.full(6, value, np.float32))
            model.run_by_name("serving_default", inputs, outputs)
            right.append((outputs["y"].read(6, np.float32) == value).all())

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(len(right), all(right))
"""


def test_many_threads_of_a_python_program_run_models_of_their_own(copying: Path) -> None:
    command: list[str | Path] = [sys.executable, "-c", textwrap.dedent(IN_THREADS), copying]
    libraries = exported("dispatch", "Null")
    done = subprocess.run([*command, libraries], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "1600 True" in done.stdout, done.stderr


def test_a_model_in_memory_has_its_assets(gaining: Path) -> None:
    code = AT_EXIT.replace("from_file(sys.argv[1]", "from_buffer(open(sys.argv[1], 'rb').read()")
    command: list[str | Path] = [sys.executable, "-c", textwrap.dedent(code), gaining]
    libraries = exported("dispatch", "Reference")
    done = subprocess.run([*command, libraries], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "6. 6." in done.stdout, done.stderr


def test_options_come_from_the_environment(gaining: Path) -> None:
    variables = {"LITERT_NPU_DISPATCH_OPTIONS": "tiles=4"}
    done = run_in_c(gaining, exported("dispatch", "Reference"), **variables)
    assert done.returncode == 1 and "there is no dispatch option 'tiles'" in done.stderr
