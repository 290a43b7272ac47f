"""Tests `litert-npu layer run`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.tools.conftest import LitertNpu
from tests.tools.layer.conftest import IN_BFYX, SHAPES

pytestmark = pytest.mark.usefixtures("in_this_process")

Capture = pytest.CaptureFixture[str]
OPTIONS = '--options={"alpha": 2.0}'
REFERENCE = """
import numpy as np

def softsign(inputs, options):
    (x,) = inputs
    return options["alpha"] * x / (1 + np.abs(x))

def wrong(inputs, options):
    y = softsign(inputs, options)
    y[1, 2] += 0.5
    return [y]

def fails(inputs, options):
    raise ValueError("of a kind")

def too_many(inputs, options):
    return inputs + inputs

def nothing(inputs, options):
    pass
"""
RUN = ("layer", "run", "Softsign.cl", *SHAPES, OPTIONS, "--repeat=0")


@pytest.fixture(autouse=True)
def reference(author: Path) -> None:
    (author / "ref.py").write_text(REFERENCE)


def test_a_layer_is_compared_with_a_reference(litert_npu: LitertNpu, capsys: Capture) -> None:
    assert litert_npu(*RUN, "--reference=ref.py:softsign", "--report=json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] and report["kernel"] == "Softsign" and not report["problems"]
    assert report["comparisons"][0]["greatest_difference"] < 1e-6


@pytest.mark.usefixtures("impatient")
def test_the_progress_names_the_run_and_not_a_step_within(
    litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu(*RUN[:-1], "--repeat=1") == 0
    steps = [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert [*dict.fromkeys(steps[steps.index("run") :])] == ["run", "measure"]


def test_a_reference_may_be_named_like_a_module_that_it_imports(
    author: Path, litert_npu: LitertNpu
) -> None:
    text = f"import os, statistics\nassert statistics.median([1]) and os.path.isabs(__file__)\n{REFERENCE}"
    (author / "statistics.py").write_text(text)
    assert litert_npu(*RUN, "--reference=statistics.py:softsign") == 0


def test_the_place_of_the_largest_difference_is_shown(
    litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu(*RUN, "--reference=ref.py:wrong") == 1
    printed = capsys.readouterr().out
    assert "FAILED: greatest difference 0.5" in printed and "at index [1, 2])" in printed
    assert litert_npu(*RUN, "--reference=ref.py:wrong", "--tolerance=0.6") == 0


def test_inputs_and_golden_outputs_come_from_files(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    x = np.linspace(-4, 4, 8, dtype=np.float32).reshape(2, 4)
    np.save("x.npy", x)
    np.save("y.npy", 2 * x / (1 + abs(x)))
    assert litert_npu(*RUN, "--input=x.npy", "--golden=y.npy", "--output=out.npz") == 0
    assert "-4 to" not in capsys.readouterr().out
    np.testing.assert_allclose(np.load("out.npz")["output0"], np.load("y.npy"), rtol=1e-6)
    np.savez("y.npz", out0=x)
    assert litert_npu(*RUN, "--input=0=x.npy", "--golden=y.npz") == 1
    np.savez("z.npz", answer=np.load("y.npy"))
    assert litert_npu(*RUN, "--input=x.npy", "--golden=output0=z.npz") == 0
    capsys.readouterr()
    assert litert_npu(*RUN, "--input=x.npy", "--golden=z.npz") == 2
    assert "no array in the file has the name of an output" in capsys.readouterr().err


def test_random_inputs_have_ranges_and_indices_are_valid(
    author: Path, litert_npu: LitertNpu
) -> None:
    (author / "GATHER.cl").write_text(
        "__kernel void GATHER(__global float* table, __global int* ids, __global float* y)\n"
        "{ size_t i = get_global_id(0); y[i] = table[ids[i]]; }\n"
    )
    (author / "gather.py").write_text(
        "def gather(inputs, options):\n"
        "    table, ids = inputs\n"
        "    assert set(ids) == {0, 1, 2} and table.min() > 6 and table.max() < 7\n"
        "    return table[ids]\n"
    )
    shapes = ("--inputs=3xf32,99xi32", "--outputs=99xf32", "--repeat=0", "--input_range=0:6:7")
    run = ("layer", "run", "GATHER.cl", *shapes, "--reference=gather.py:gather")
    assert litert_npu(*run) == 0
    assert litert_npu(*run, "--input_range=input1:0:1") == 2


def test_an_op_of_a_model_has_its_constants(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    from litert.core.quantization import Quantization
    from litert.model.builder import ModelBuilder
    from litert.model.writer import write_model

    b = ModelBuilder()
    x = b.input("x", "float32", (2, 3))
    stored = b.constant(
        "w8", np.array([[1], [3]], np.int8), quantization=Quantization((0.5, 0.25), (0, 1), 0)
    )
    w = b.op("DEQUANTIZE", [stored], [("w", "float32", (2, 1))])
    bias = b.constant("bias", np.array([10.0], np.float32))
    b.output(b.custom("Scale", [x, w, bias], [("y", "float32", (2, 3))], options=b"struct"))
    write_model(b.build(), "scale.tflite")
    (author / "Scale.cl").write_text(
        "__kernel void Scale(__global float* x, __global float* w, __global float* b, __global float* y)\n"
        "{ int i = get_global_id(0); y[i] = x[i] * w[i / 3] + b[0]; }\n"
    )
    (author / "scale.py").write_text(
        "def scale(inputs, options):\n"
        "    assert options == b'struct' and inputs[1].tolist() == [[0.5], [0.5]]\n"
        "    return inputs[0] * inputs[1] + inputs[2]\n"
    )
    arguments = ("Scale.cl", "--model=scale.tflite", "--reference=scale.py:scale", "--repeat=0")
    assert litert_npu("layer", "run", *arguments) == 0
    assert "y: ok: greatest difference" in capsys.readouterr().out


def test_speed_is_told_beside_the_device_s_limits(litert_npu: LitertNpu, capsys: Capture) -> None:
    run = [a for a in RUN if a != "--repeat=0"]
    assert litert_npu(*run, "--repeat=3", "--flops=3*B*F", "--report=json") == 0
    speed = json.loads(capsys.readouterr().out)["speed"]
    assert speed["runs"] == 3 and speed["moved_bytes"] == 64
    median, least, most = speed["kernel_us"]
    assert 0 < least <= median <= most
    assert speed["gb_per_s"] == pytest.approx(64e-9 / (median * 1e-6))
    assert speed["gflop_per_s"] == pytest.approx(24e-9 / (median * 1e-6))
    assert min(speed["copy_gb_per_s"]) > 0 and speed["peak_gflop_per_s"] > 0


FAULTS = {
    "many at once": (
        "if (i == 0) { y[-2] = 1; y[9] = 1; ((__global float*) x)[1] = 7; }\n  if (i != 5) y[i] = x[i];",
        [
            "the kernel writes outside its memory, 8 bytes before output 0, which is only 32 bytes long",
            "the kernel writes to input 0, which it may only read",
            "the kernel never writes 1 of 8 elements of output 0, the first at index [1, 1]",
        ],
    ),
    "its own output": (
        "y[i] = x[i] + (y[i] > 0 ? 1 : 2);",
        [
            "output 0 depends on the old content of output 0 in 8 of 8 elements, the first at index [0, 0], "
            "so the kernel reads elements that it has not written (in a .json description, "
            '"zero": true fills an output with zeros before the kernel runs)'
        ],
    ),
    "a read past an input": (
        "y[i] = x[i + 1];",
        [
            "output 0 depends on the bytes around input 0 in 1 of 8 elements, the first at index [1, 3], so the "
            "kernel reads outside input 0"
        ],
    ),
    "a read before an output": (
        "y[i] = x[i]; if (i == 2) y[i] += y[-1];",
        [
            "output 0 depends on the bytes around output 0 in 1 of 8 elements, the first at index [0, 2]"
        ],
    ),
}


@pytest.mark.parametrize(("body", "said"), FAULTS.values(), ids=FAULTS)
def test_what_a_kernel_must_not_do_is_found(
    author: Path, litert_npu: LitertNpu, capsys: Capture, body: str, said: list[str]
) -> None:
    (author / "k.cl").write_text(
        "__kernel void k(__global const float* x, __global float* y) {\n"
        f"  size_t i = get_global_id(0);\n  {body}\n}}\n"
    )
    assert litert_npu("layer", "run", "k.cl", *SHAPES, "--repeat=0") == 1
    printed = capsys.readouterr().out
    assert all(f"FAILED: {problem}" in printed for problem in said), printed


def test_a_read_past_a_constant_is_found(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    from litert.model.builder import ModelBuilder
    from litert.model.writer import write_model

    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    w = b.constant("w", np.arange(4, dtype=np.float32))
    b.output(b.custom("Add", [x, w], [("y", "float32", (4,))]))
    write_model(b.build(), "add.tflite")
    kernel = (
        "__kernel void Add(__global float* x, __global float* w, __global float* y)\n"
        "{ size_t i = get_global_id(0); y[i] = x[i] + w[i + 1]; }\n"
    )
    (author / "Add.cl").write_text(kernel)
    run = ("layer", "run", "Add.cl", "--model=add.tflite", "--repeat=0")
    assert litert_npu(*run) == 1
    assert "output 0 depends on the bytes around a constant" in capsys.readouterr().out
    (author / "Add.cl").write_text(kernel.replace("i + 1", "i"))
    assert litert_npu(*run) == 0


def test_nan_and_infinity_are_told_of(author: Path, litert_npu: LitertNpu, capsys: Capture) -> None:
    (author / "k.cl").write_text(
        "__kernel void k(__global const float* x, __global float* y)\n"
        "{ size_t i = get_global_id(0); y[i] = i == 5 ? NAN : i > 5 ? INFINITY : 3.0f; }\n"
    )
    assert litert_npu("layer", "run", "k.cl", *SHAPES, "--repeat=0") == 0
    printed = capsys.readouterr().out
    assert "out  output0: float32[2, 4], 3 to 3, mean 3" in printed
    note = "note: output 'output0' contains 1 NaN and 2 infinite among 8 elements, the first at index [1, 1]"
    assert note in printed


def test_faults_are_found_in_another_layout_too(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    (author / "k.cl").write_text(
        "__kernel void k(__global const float* x, __global float* y)\n"
        "{ size_t i = get_global_id(0); if (i != 3) y[i] = x[i]; y[12] = 0; }\n"
    )
    (author / "k.xml").write_text(IN_BFYX)
    shapes = ("--inputs=1x2x2x3xf32", "--outputs=1x2x2x3xf32")
    assert litert_npu("layer", "run", "k.xml", *shapes, "--repeat=0") == 1
    printed = capsys.readouterr().out
    assert (
        "48 bytes after the start of an intermediate buffer of the layer, which is only 48 bytes"
        in printed
    )
    assert "FAILED: the kernel never writes 1 of 12 elements of output 0" in printed


def test_a_layout_of_the_kernel_s_own_is_the_model_s_outside(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    (author / "k.cl").write_text(
        "__kernel void k(__global const float* x, __global float* y)\n"
        "{ size_t i = get_global_id(0); y[i] = x[i] + (i >= 4); }\n"  # feature 0 has 4 elements
    )
    (author / "k.xml").write_text(IN_BFYX)
    (author / "k.py").write_text("def k(inputs, options): return inputs[0] + [0, 1, 1]\n")
    shapes = ("--inputs=1x2x2x3xf32", "--outputs=1x2x2x3xf32", "--repeat=2")
    assert litert_npu("layer", "run", "k.xml", *shapes, "--reference=k.py:k") == 0
    assert "; reorders and conversions" in capsys.readouterr().out


def test_a_reference_may_change_what_it_gets(author: Path, litert_npu: LitertNpu) -> None:
    text = REFERENCE.replace("(x,) = inputs", "(x,) = inputs\n    x *= 0.5\n    x += x")
    (author / "ref.py").write_text(text.replace("x += x", "x += x; x = x.copy(); inputs[0][:] = 9"))
    assert litert_npu(*RUN, "--reference=ref.py:softsign") == 0


def test_a_reference_that_fails_shows_its_own_line(
    author: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    text = "import numpy as np\n\ndef f(inputs, options):\n    return np.ones(3) + np.ones(4)\n"
    (author / "f.py").write_text(text)
    assert litert_npu(*RUN, "--reference=f.py:f") == 2
    printed = capsys.readouterr().err
    assert (
        "INVALID_ARGUMENT: reference function 'f' fails: ValueError: operands could not be"
        in printed
    )
    assert "(3,) (4,) (f.py:4):\n      4 | return np.ones(3) + np.ones(4)\n" in printed
    for broken, line in (("x = 1 / 0\n", 1), ("\ndef f(:\n", 2)):
        (author / "f.py").write_text(broken)
        assert litert_npu(*RUN, "--reference=f.py:f") == 2
        printed = capsys.readouterr().err
        assert (
            f"the file cannot be imported: {'Syntax' if line == 2 else 'ZeroDivision'}Error"
            in printed
        )
        assert f" (f.py:{line}):\n      {line} | {broken.strip()}\n" in printed


WRONG = {
    "another shape": (
        ["--input=x.npy"],
        "the array for input 'input0' has the shape [3], but the op needs the shape [2, 4] (x.npy)",
    ),
    "no such input": (
        ["--input=z=x.npy"],
        "there is no input with the name or index 'z' (--input=z=x.npy)",
    ),
    "no reference": (["--reference=ref.py:none"], "the file has no function 'none'"),
    "no file": (["--reference=no.py:f"], "NOT_FOUND: no such file (no.py)"),
    "no module": (
        ["--reference=f"],
        "the reference function is 'f', but must have the form file.py:function",
    ),
    "a reference that fails": (["--reference=ref.py:fails"], "ValueError: of a kind"),
    "too many": (["--reference=ref.py:too_many"], "returns 2 arrays, but the op has 1 output"),
    "nothing": (
        ["--reference=ref.py:nothing"],
        "INVALID_ARGUMENT: reference function 'nothing' returns None (ref.py). Return one array for each output",
    ),
    "a formula": (["--flops=2*Q"], "formula '2*Q'"),
    "golden": (["--golden=nothing.npy"], "no such file"),
}


@pytest.mark.parametrize(("arguments", "said"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_give_a_message(
    author: Path, litert_npu: LitertNpu, capsys: Capture, arguments: list[str], said: str
) -> None:
    np.save("x.npy", np.zeros(3))
    assert litert_npu(*RUN, *arguments) == 2
    printed = capsys.readouterr()
    assert said in printed.err and "Traceback" not in printed.err


@pytest.mark.parametrize("memory", ["BYXF", "BFYX"])
def test_an_output_that_a_kernel_adds_to_begins_with_zeros(
    author: Path, litert_npu: LitertNpu, capsys: Capture, memory: str
) -> None:
    """The outputs also begin with zeros where the kernel's output is reordered afterwards."""
    (author / "k.cl").write_text(
        "__kernel void k(__global const float* x, __global float* y) {\n"
        "  for (int i = 0; i < 24; ++i) y[i % 12] += x[i];\n}\n"
    )
    places = (
        "reshape(1, 2, 3, 2)" if memory == "BYXF" else "reshape(1, 2, 2, 3).transpose(0, 2, 3, 1)"
    )
    (author / "k.py").write_text(
        f"def k(inputs, options): return inputs[0].reshape(2, 12).sum(0).{places}\n"
    )
    output = {"output": 0, "format": memory}
    description = {"version": 1, "sources": ["k.cl"], "work_sizes": {"global": [1]}}
    run = ("layer", "run", "k.json", "--inputs=24xf32", "--outputs=1x2x3x2xf32", "--repeat=2")
    for zero in ({"zero": True}, {}):
        description["arguments"] = [{"input": 0}, {**output, **zero}]
        (author / "k.json").write_text(json.dumps(description))
        assert litert_npu(*run, "--reference=k.py:k") == (0 if zero else 1)
    assert "depends on the old content of" in capsys.readouterr().out
