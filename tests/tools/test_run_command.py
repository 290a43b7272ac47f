"""Tests `litert-npu run`."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from litert_npu_tools.apply_plugin import main as apply_plugin
from litert_npu_tools.destinations import write_file
from litert_npu_tools.load_flags import LoadChoice
from litert_npu_tools.run_command import RunOptions, run_model

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.runtime.npu_models import VENDORS
from tests.tools.conftest import LitertNpu

Capture = pytest.CaptureFixture[str]
SHAPE = (1, 4, 6, 3)
RAMP = np.linspace(0, 1, 72, dtype=np.float32).reshape(SHAPE)


@pytest.fixture
def ramp(in_folder: Path) -> Path:
    np.save("ramp.npy", RAMP)
    return in_folder / "ramp.npy"


@pytest.mark.parametrize("text", ["ramp.npy", "image=ramp.npy", "0=ramp.npy"])
def test_an_input_goes_by_place_name_or_index(original: str, ramp: Path, text: str) -> None:
    run_model(original, RunOptions(inputs=[text], outputs=["out.npy"]))
    assert np.array_equal(np.load("out.npy"), RAMP / 2)


def test_a_compiled_file_runs(copying: str, ramp: Path) -> None:
    run_model(copying, RunOptions(inputs=["ramp.npy"], outputs=["half=out.npy"]))
    assert np.array_equal(np.load("out.npy"), RAMP / 2)


def test_arrays_of_a_npz_go_to_inputs_of_their_names(original: str, in_folder: Path) -> None:
    for key in ("image", "in0", "arr_0"):
        np.savez("in.npz", **dict[str, Any]({key: RAMP, "other": RAMP}))
        run_model(original, RunOptions(inputs=["in.npz"], outputs=["out.npz"]))
        assert np.array_equal(np.load("out.npz")["half"], RAMP / 2)


def test_a_file_name_may_hold_an_equals_sign(original: str, in_folder: Path) -> None:
    np.save("a=b.npy", RAMP)
    for text in ("a=b.npy", "image=a=b.npy"):
        report = run_model(original, RunOptions(inputs=[text]))
        assert report.inputs[0].origin == "a=b.npy"


def test_random_inputs_are_the_same_for_the_same_seed(original: str) -> None:
    outputs = []
    for seed in (1, 1, 2):
        run_model(original, RunOptions(seed=seed, outputs=["out.npy"]))
        outputs.append(np.load("out.npy"))
    assert np.array_equal(outputs[0], outputs[1]) and not np.array_equal(outputs[1], outputs[2])


def test_a_picture_is_resized_and_scaled(original: str, in_folder: Path) -> None:
    from PIL import Image

    Image.new("RGB", (12, 8), (255, 0, 51)).save("in.png")
    options = RunOptions(inputs=["in.png"], outputs=["out.npy"], value_range=(-1.0, 1.0))
    run_model(original, options)
    pixels = np.load("out.npy")[0] * 2
    assert np.allclose(pixels[..., 0], 1) and np.allclose(pixels[..., 1], -1)
    assert np.allclose(pixels[..., 2], -0.6)


def test_an_output_becomes_a_picture(original: str, ramp: Path) -> None:
    from PIL import Image

    run_model(original, RunOptions(inputs=["ramp.npy"], outputs=["out.png"]))
    with Image.open("out.png") as image:
        pixels = np.asarray(image)
    assert pixels.shape == (4, 6, 3)
    assert np.abs(pixels / 255 - RAMP[0] / 2).max() <= 0.5 / 255


def test_pictures_go_in_and_out_of_integers(in_folder: Path) -> None:
    from PIL import Image

    pixels = np.arange(16, dtype=np.uint8).reshape(4, 4) * 17
    Image.fromarray(pixels).save("in.png")
    for element_type in ("uint8", "int8"):
        b = ModelBuilder()
        x = b.input("x", element_type, (4, 4))
        b.output(
            b.op("RESHAPE", [x, b.constant("s", [4, 4], "int32")], [("y", element_type, (4, 4))])
        )
        write_model(b.build(), "copy.tflite")
        run_model("copy.tflite", RunOptions(inputs=["in.png"], outputs=["out.png"]))
        with Image.open("out.png") as image:
            assert np.array_equal(np.asarray(image), pixels)


def test_a_golden_file_gives_inputs_and_judges_outputs(
    original: str, in_folder: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    wrong = RAMP / 2
    wrong[0, 1, 2, 0] += 0.25
    np.savez("good.npz", in0=RAMP, out0=RAMP / 2)
    np.savez("wrong.npz", in0=RAMP, half=wrong)
    assert litert_npu("run", original, "--golden=good.npz") == 0
    assert litert_npu("run", original, "--golden=wrong.npz", "--report=json") == 1
    report = capsys.readouterr().out
    (comparison,) = json.loads(report[report.index("{") :])["comparisons"]
    assert comparison["index"] == [0, 1, 2, 0] and not comparison["passed"]
    assert comparison["greatest_difference"] == pytest.approx(0.25)
    assert litert_npu("run", original, "--golden=wrong.npz", "--tolerance=0.26") == 0


def test_a_golden_file_without_names_is_refused_with_the_call_that_writes_one(
    original: str, in_folder: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    np.save("half.npy", RAMP / 2)
    assert litert_npu("run", original, "--golden=half.npy") == 2
    assert "Write such a file with numpy.savez('half.npz', out0=array)." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("golden", "problem"),
    [(np.zeros((2, 2), np.float32), "shape"), (np.full(SHAPE, np.nan, np.float32), "inf")],
    ids=["shape", "not a number"],
)
def test_a_golden_output_of_another_kind_fails(
    original: str, in_folder: Path, golden: Any, problem: str
) -> None:
    np.savez("golden.npz", in0=RAMP, out0=golden)
    report = run_model(original, RunOptions(golden="golden.npz"))
    assert not report.passed and problem in report.to_text()
    json.loads(report.to_json(), parse_constant=pytest.fail)


def write_nothing(path: Path) -> None:
    """Writes nothing, so that the file is missing."""


def write_pickle(path: Path) -> None:
    np.save(path, np.array([{}], object), allow_pickle=True)


def write_cut(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), in0=RAMP)
    path.write_bytes(path.with_suffix(".npz").read_bytes()[:60])


@pytest.mark.parametrize(
    ("text", "write", "status"),
    [
        ("in.npy", write_nothing, Status.NOT_FOUND),
        ("in.png", write_nothing, Status.NOT_FOUND),
        ("in.npy", write_pickle, Status.INVALID_ARGUMENT),
        ("in.npz", write_cut, Status.INVALID_ARGUMENT),
        ("in.npy", lambda path: path.write_bytes(b""), Status.INVALID_ARGUMENT),
        ("in.png", lambda path: path.write_bytes(b"hello"), Status.INVALID_ARGUMENT),
        ("in.npy", lambda path: path.mkdir(), Status.INVALID_ARGUMENT),
        ("in.npy", lambda path: np.save(path, RAMP.astype(np.float64)), Status.INVALID_ARGUMENT),
        ("in.npy", lambda path: np.save(path, RAMP[0]), Status.INVALID_ARGUMENT),
        ("in.npz", lambda path: np.savez(path, other=RAMP), Status.INVALID_ARGUMENT),
        ("mask=in.npy", lambda path: np.save(path, RAMP), Status.INVALID_ARGUMENT),
        ("1=in.npy", lambda path: np.save(path, RAMP), Status.INVALID_ARGUMENT),
    ],
    ids=["missing", "missing picture", "pickle", "cut", "empty", "no picture", "folder", "type",
         "shape", "other names", "no such input", "no such index"],
)  # fmt: skip
def test_an_input_of_no_use_is_refused(
    original: str, in_folder: Path, text: str, write: Any, status: Status
) -> None:
    write(in_folder / text.rpartition("=")[2])
    with pytest.raises(LiteRtError) as error:
        run_model(original, RunOptions(inputs=[text], outputs=["out.npy"]))
    assert error.value.status is status
    assert "in." in error.value.where or "input 'image'" in error.value.where
    assert not (in_folder / "out.npy").exists()


def test_an_input_cannot_be_given_twice(original: str, ramp: Path) -> None:
    twice = "input 'image' already has a value from this file (ramp.npy). Give only one file for each input."
    more = (
        "there is a file for each input already: ramp.npy for 'image' (ramp.npy). Omit this file."
    )
    for last, text in (("image=ramp.npy", twice), ("ramp.npy", more)):
        with pytest.raises(LiteRtError, match=re.escape(text)):
            run_model(original, RunOptions(inputs=["ramp.npy", last]))


def test_a_file_that_holds_no_array_is_not_taken_for_a_pickle(
    original: str, in_folder: Path
) -> None:
    (in_folder / "kernel.cl").write_text("__kernel void K() {}")
    with pytest.raises(LiteRtError) as error:
        run_model(original, RunOptions(inputs=["kernel.cl"]))
    assert error.value.what == "the file is not a .npy file, a .npz file or a picture"


def test_a_disk_that_numpy_finds_full_is_said_to_be(in_folder: Path) -> None:
    def write(_: object) -> None:
        raise OSError("64 requested and 3 written")  # the message of `ndarray.tofile`

    with pytest.raises(
        LiteRtError, match=r"the disk is probably full: 64 requested and 3 written, in elements"
    ) as error:
        write_file("out.npy", write)
    assert error.value.status is Status.FILE_IO and not list(in_folder.glob("*out.npy*"))


def test_an_output_that_is_no_file_is_not_replaced(in_folder: Path) -> None:
    os.mkfifo("pipe")  # stands for special files such as /dev/null
    with pytest.raises(LiteRtError, match="the output is not a regular file"):
        write_file("pipe", lambda file: file.write(b"x"))
    assert stat.S_ISFIFO(os.stat("pipe").st_mode)


@pytest.mark.parametrize(
    "text",
    ["out.txt", "other=out.npy", "original.tflite.npy=x", "none/out.npy", "."],
    ids=["suffix", "no such output", "no such name", "no folder", "folder"],
)
def test_an_output_of_no_use_is_refused(original: str, in_folder: Path, text: str) -> None:
    before = sorted(path.name for path in in_folder.iterdir())
    with pytest.raises(LiteRtError):
        run_model(original, RunOptions(outputs=[text]))
    assert sorted(path.name for path in in_folder.iterdir()) == before


def test_an_output_never_replaces_an_input(original: str, in_folder: Path) -> None:
    np.savez("golden.npz", in0=RAMP, out0=RAMP / 2)
    before = (in_folder / "golden.npz").read_bytes()
    with pytest.raises(LiteRtError, match="the output file is also an input file"):
        run_model(original, RunOptions(golden="golden.npz", outputs=["golden.npz"]))
    assert (in_folder / "golden.npz").read_bytes() == before
    np.save("x.npy", RAMP)
    for text in ("x.npy", "0=x.npy"):
        with pytest.raises(LiteRtError, match="the output file is also an input file"):
            run_model(original, RunOptions(inputs=[text], outputs=["x.npy"]))
    np.testing.assert_array_equal(np.load("x.npy"), RAMP)


def test_two_outputs_cannot_be_in_one_file(original: str, in_folder: Path) -> None:
    with pytest.raises(LiteRtError, match="two --output flags name the same file"):
        run_model(original, RunOptions(outputs=["out.npz", "half=./out.npz"]))
    assert not (in_folder / "out.npz").exists()


def test_a_picture_of_what_is_none_leaves_the_old_output(in_folder: Path) -> None:
    b = ModelBuilder()
    b.output(b.op("RELU", [b.input("x", "float32", (5,))], [("y", "float32", (5,))]))
    write_model(b.build(), "flat.tflite")
    (in_folder / "out.png").write_bytes(b"old")
    with pytest.raises(LiteRtError, match="which is not the shape of a picture"):
        run_model("flat.tflite", RunOptions(outputs=["out.png"]))
    assert (in_folder / "out.png").read_bytes() == b"old"


@pytest.mark.parametrize(
    "flags",
    [
        ["--signature=other"],
        ["--accelerator=tpu"],
        ["--accelerator="],
        ["--threads=0"],
        ["--threads=1000000000000000000000"],
        ["--picture_range=1,0"],
        ["--picture_range=white"],
        ["--dispatch_option=opencl"],
        ["--tolerance=-1"],
        ["--tolerance=nan"],
        ["--golden=original.tflite"],
    ],
)
def test_a_wrong_flag_gives_one_line(
    original: str, litert_npu: LitertNpu, capfd: pytest.CaptureFixture[str], flags: list[str]
) -> None:
    assert litert_npu("run", original, *flags) == 2
    printed = capfd.readouterr()
    said = [line for line in printed.err.splitlines() if "INFO" not in line]
    assert len(said) == 1 and not printed.out


def test_the_npu_alone_refuses_ops_for_the_cpu(
    copying: str, litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("run", copying, "--accelerator=npu") == 2
    assert "MUL" in capsys.readouterr().err


@pytest.mark.parametrize("mib", [1, 33])
def test_too_little_memory_for_the_device_is_one_error_that_names_the_flag(
    litert_npu: LitertNpu, copying: str, capsys: Capture, mib: int
) -> None:
    """With 1 MiB, Python does not start; with 33 MiB, NumPy cannot be imported."""
    assert litert_npu("run", "--isolate", f"--device_memory={mib}", copying) == 2
    printed = capsys.readouterr().err
    assert printed.count("--device_memory") == 1 and "Traceback" not in printed
    assert (
        f"only {mib} MiB of memory" in printed
        or "the smallest limit is 33554432 bytes (32 MiB)" in printed
    )


def test_each_signature_can_be_run(in_folder: Path) -> None:
    b = ModelBuilder()
    b.output(b.op("NEG", [b.input("x", "float32", (2,))], [("y", "float32", (2,))]))
    b.signature("negate")
    other = b.subgraph("other")
    other.output(other.op("ABS", [other.input("x", "float32", (2,))], [("y", "float32", (2,))]))
    other.signature("absolute")
    write_model(b.build(), "two.tflite")
    np.save("in.npy", np.array([-1, 2], np.float32))
    for key, expected in (("negate", [1, -2]), ("absolute", [1, 2])):
        options = RunOptions(LoadChoice(signature=key), ["in.npy"], ["out.npy"])
        run_model("two.tflite", options)
        assert np.load("out.npy").tolist() == expected


def test_a_model_without_signatures_says_how_its_main_subgraph_runs(in_folder: Path) -> None:
    b = ModelBuilder()
    b.output(b.op("ABS", [b.input("x", "float32", (2,))], [("y", "float32", (2,))]))
    write_model(b.build(), "plain.tflite")
    with pytest.raises(
        LiteRtError, match=r"no signature 'main'.*omit --signature to run the main subgraph"
    ):
        run_model("plain.tflite", RunOptions(LoadChoice(signature="main")))


@pytest.mark.parametrize("name", ["selfie_segmentation"])
def test_a_real_network_meets_its_golden(models: Path, name: str) -> None:
    report = run_model(
        str(models / f"{name}.tflite"), RunOptions(golden=str(models / f"{name}.golden.npz"))
    )
    assert report.passed and report.comparisons


OP = "Convolution2DTransposeBias"
ASSET = f"--npu_custom_op_info={OP},{Path(__file__).parents[2]}/examples/kernels/{OP}.json"


def test_a_real_custom_op_runs_as_it_does_once_it_is_compiled(
    models: Path, in_folder: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    model = str(models / "selfie_segmentation.tflite")
    flags = [ASSET, "--soc_model=EMU4", "--reference_ops=ADD"]
    golden = f"--golden={models / 'selfie_segmentation.golden.npz'}"
    assert litert_npu("run", model, *flags, golden, "--output=at_load.npz", "--report=json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["passed"]
    assert "was compiled for Reference in" in printed.err and " of 246 ops" in printed.err
    assert apply_plugin(["apply_plugin", *flags, model, "compiled.tflite"]) == 0
    assert litert_npu("run", "compiled.tflite", golden, "--output=compiled.npz") == 0
    at_load, compiled = np.load("at_load.npz"), np.load("compiled.npz")
    assert sorted(at_load) == sorted(compiled)
    for name in at_load:
        np.testing.assert_array_equal(at_load[name], compiled[name])


def null_model() -> str:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (2,))
    builder.output(builder.custom("Copy", [x], [("y", "float32", (2,))]))
    builder.signature("serving_default", {"x": x})
    write_model(builder.build(), "raw.tflite")
    Path("copy.txt").write_text("an asset")
    return "raw.tflite"


def test_what_was_compiled_at_load_is_kept_in_a_folder(
    in_folder: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    flags = [null_model(), "--soc_manufacturer=Null", "--npu_custom_op_info=Copy,copy.txt"]
    for said in (
        "was compiled for Null in",
        "was compiled before: the kept file kept",
    ):
        assert litert_npu("run", *flags, "--accelerator=npu", "--cache_folder=kept") == 0
        assert said in capsys.readouterr().err
    assert len(os.listdir("kept")) == 1
    assert litert_npu("benchmark", *flags, "--runs=1", "--warm_up=0", "--cache_folder=kept") == 0
    assert "was compiled before" in capsys.readouterr().err


TWICE = {
    "layers/Twice.json": """{
        "version": 1, "sources": ["../common/twice.cl"],
        "arguments": [{"input": 0}, {"output": 0}], "output_shapes": [{"input": 0}]
    }""",
    "common/twice.cl": """
        kernel void Twice(global const float* x, global float* y) {
            const size_t i = get_global_id(0);
            y[i] = 2 * x[i];
        }""",
}


def test_layers_for_any_model_bounds_and_unchecked_kernels_hold_at_load_too(
    in_folder: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 3), shape_signature=(-1, 3))
    y = builder.tensor("y", "float32", (1, 3), shape_signature=(-1, 3))
    builder.output(builder.custom("Twice", [x], [y]))
    write_model(builder.build(), "raw.tflite")
    for name, text in TWICE.items():
        Path(name).parent.mkdir()
        Path(name).write_text(text)
    np.save("x.npy", np.ones((4, 3), np.float32))
    run = ["run", "raw.tflite", "--input=x.npy", "--output=y.npy", "--custom_layers=layers"]
    assert litert_npu(*run, "--shape_bounds=x:4x3") == 2
    assert "../common/twice.cl" in capsys.readouterr().err
    run.append("--asset_root=.")
    assert litert_npu(*run) == 2
    assert "has no bound" in capsys.readouterr().err
    run.append("--shape_bounds=x:4x3")
    assert litert_npu(*run) == 0
    assert np.array_equal(np.load("y.npy"), np.full((4, 3), 2, np.float32))
    kernel = Path("common/twice.cl")
    kernel.write_text(kernel.read_text().replace("2 *", "two *"))
    capsys.readouterr()
    for flag in ("--check_kernels", "--nocheck_kernels"):
        assert litert_npu(*run, flag) == 2
        printed = capsys.readouterr().err
        assert "use of undeclared identifier 'two'" in printed
        assert ("was compiled for Reference" in printed) == (flag == "--nocheck_kernels")


def test_a_vendor_in_a_folder_compiles_and_runs(
    in_folder: Path, litert_npu: LitertNpu, capsys: Capture
) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    builder.output(builder.custom("double", [x], [("y", "float32", (1, 4))]))
    builder.signature("serving_default", {"x": x})
    write_model(builder.build(), "raw.tflite")
    flags = ["--soc_manufacturer=Test", f"--libs={VENDORS}", f"--dispatch_library_path={VENDORS}"]
    named = "--test_name=double@named"
    assert litert_npu("run", "raw.tflite", *flags, named, "--accelerator=npu") == 0
    assert "was compiled for Test" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--npu_custom_op_info=Copy"], "--npu_custom_op_info='Copy' has no comma"),
        (["--npu_custom_op_info", "Copy", "copy.txt"], "--npu_custom_op_info='Copy' has no comma"),
        (["--npu_custom_op_info=Copy,nowhere.cl"], "NOT_FOUND"),
        (["--npu_custom_op_inf=Copy,copy.txt"], "Did you mean --npu_custom_op_info?"),
        (["--soc_model=N2", "--soc_manufacturer=Null"], "'Null' has no SoC model 'N2'"),
        (["--soc_manufacturer=Nobody"], "for vendor 'Nobody'"),
        (
            ["--require_npu=all"],
            "Only apply_plugin has the flag --require_npu; compile the model with apply_plugin first.",
        ),
        (
            ["--acme_tiles=4"],
            "Options of vendor 'Reference' begin with the vendor's name, as in --reference_option",
        ),
        (["--soc_manufacturer=Null", "--accelerator=cpu"], "--accelerator does not include npu"),
        (["--libs=a,b"], "--libs lists 2 folders"),
        (["--reference_ops=ADD", "--reference_ops=MUL"], "given twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_flag_to_compile_with_that_is_wrong_is_said(
    in_folder: Path, litert_npu: LitertNpu, capsys: Capture, flags: list[str], said: str
) -> None:
    assert litert_npu("run", null_model(), *flags) == 2
    printed = capsys.readouterr()
    assert said in printed.err and not printed.out


def test_flags_to_compile_with_mean_nothing_to_a_compiled_file(
    copying: str, litert_npu: LitertNpu, capsys: Capture
) -> None:
    assert litert_npu("run", copying, "--soc_manufacturer=Null") == 2
    printed = capsys.readouterr().err
    assert "the model is already compiled for Null's SoC NULL1" in printed
    assert "Remove the flags for compilation, such as --soc_manufacturer" in printed
