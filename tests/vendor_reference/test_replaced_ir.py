"""Tests `--replace_ir`: the compiler continues from an edited stage of a previous compilation."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.core.errors import LiteRtError
from litert.core.option import options_of
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from tests.vendor_reference.ir_networks import (
    NETWORKS,
    Network,
    byte_code,
    convolutions,
    halves,
    layouts,
)
from tools.apply_plugin import main
from vendor_reference.compiler.pass_pipeline import IMPORT, pipeline
from vendor_reference.executable.byte_code import read_executable
from vendor_reference.executable.executable import ArgumentKind, Function, KernelTask

STAGES = [IMPORT, *pipeline()]


@pytest.mark.parametrize("name", NETWORKS)
def test_an_unedited_stage_gives_the_same_bytes(tmp_path: Path, name: str) -> None:
    network = NETWORKS[name](tmp_path)
    dumps = network.dump()
    assert len(dumps) == len(STAGES)
    for stage, text in zip(STAGES, dumps, strict=True):
        assert f'VPUIP.after = "{stage}"' in text.read_text()
        again = DumpOptions(str(tmp_path / "again"), STAGES[-1])
        report = network.compile("again.tflite", replace_ir={"Partition_0": str(text)}, dump=again)
        assert (tmp_path / "again.tflite").read_bytes() == (tmp_path / "out.tflite").read_bytes()
        assert f"Partition_0 is compiled from {text}, after '{stage}'." in report.notes
        assert (tmp_path / "again" / dumps[-1].name).read_bytes() == dumps[-1].read_bytes()


def selfie(models: Path, folder: Path) -> Network:
    """Returns a real network with a custom layer."""
    (folder / "in.tflite").symlink_to(models / "selfie_segmentation.tflite")
    asset = Path(__file__).parents[2] / "examples/kernels/Convolution2DTransposeBias.json"
    infos = [CustomOpInfo("Convolution2DTransposeBias", str(asset))]
    return Network(folder, CompilerOptions(infos, vendor_options={"reference_ops": "all"}))


def test_a_real_network_gives_the_same_bytes_from_each_level(models: Path, tmp_path: Path) -> None:
    network = selfie(models, tmp_path)
    dumps = network.dump()
    for stage in ("optimize-reorders", "place-parts", "plan-memory"):
        text = dumps[STAGES.index(stage)]
        network.compile("again.tflite", replace_ir={"Partition_0": str(text)})
        assert (tmp_path / "again.tflite").read_bytes() == (tmp_path / "out.tflite").read_bytes()


class Edit:
    """A network with dumped stages, which can be edited and compiled from there."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.dumps = network.dump()
        self.path = network.folder / "edited.mlir"

    def text(self, stage: str) -> str:
        """Returns the text that a pass has written."""
        return self.dumps[STAGES.index(stage)].read_text()

    def compile(self, text: str) -> Function:
        """Compiles an edited text, checks that it computes the same as before, and returns its function."""
        self.path.write_text(text)
        self.network.compile("edited.tflite", replace_ir={"Partition_0": str(self.path)})
        for made, expected in zip(
            self.network.run("edited.tflite"), self.network.run(), strict=True
        ):
            np.testing.assert_array_equal(made, expected)
        (module,) = byte_code(self.network.folder / "edited.tflite")
        return read_executable(module).functions[0]

    def refuse(self, text: str) -> LiteRtError:
        """Checks that an edited text is not compiled and writes no file; returns the error."""
        self.path.write_text(text)
        with pytest.raises(LiteRtError) as error:
            self.network.compile("edited.tflite", replace_ir={"Partition_0": str(self.path)})
        assert not (self.network.folder / "edited.tflite").exists()
        return error.value


@pytest.fixture
def edit(tmp_path: Path) -> Edit:
    return Edit(layouts(tmp_path))


PLANES, ROWS = "tensor<1x3x4x5xf32, #NCHW>", "tensor<1x3x4x5xf32>"
ADD = f"""\
    %s = IE.Add(%h, %0) {{name = "s"}} : {PLANES}, {PLANES} -> {PLANES}
"""
IN_ROWS = f"""\
    %rows = IE.Reorder(%h) : {PLANES} -> {ROWS}
    %sums = IE.Add(%rows, %x) {{name = "s"}} : {ROWS}, {ROWS} -> {ROWS}
    %s = IE.Reorder(%sums) : {ROWS} -> {PLANES}
"""


def test_a_layout_takes_effect(edit: Edit) -> None:
    """Checks an addition in row order between two reorders, which `optimize-reorders` had removed."""
    text = edit.text("optimize-reorders")
    assert ADD in text
    assert len(edit.compile(text.replace(ADD, IN_ROWS)).tasks) == len(edit.compile(text).tasks) + 2


def test_an_offset_takes_effect(edit: Edit) -> None:
    text = edit.text("plan-memory")
    offsets = {int(number) for number in re.findall(r"@CMX\[(\d+)\]", text)}
    assert offsets and 65536 not in offsets
    function = edit.compile(text.replace(f"@CMX[{max(offsets)}]", "@CMX[65536]"))
    places = [a for task in function.tasks for a in task.arguments if a.kind is ArgumentKind.CMX]
    assert max(place.offset for place in places) == 65536 and function.cmx_size > 65536


def test_shaves_and_the_space_of_a_buffer_take_effect(edit: Edit) -> None:
    text = edit.text("assign-memory-spaces")
    assert "num_shaves = 8" in text and "@CMX" in text
    changed = text.replace("num_shaves = 8", "num_shaves = 3").replace("@CMX", "@DDR")
    function = edit.compile(changed)
    kernels = [task for task in function.tasks if isinstance(task, KernelTask)]
    assert {task.num_shaves for task in kernels} == {3} and not function.cmx_size


def test_another_order_takes_effect(tmp_path: Path) -> None:
    edit = Edit(convolutions(tmp_path))
    text = edit.text("place-parts")
    (alone,) = re.findall(r"\n    IERT\.Cos\(.*", text)
    first = text.index("\n    IERT.Chain(")
    changed = text.replace(alone, "")
    function = edit.compile(changed[:first] + alone + changed[first:])
    assert [task.tensor for task in function.tasks] == ["relu", "alone", "sum", "joined", "y"]
    tensors = [task.tensor for task in edit.compile(text).tasks]
    assert tensors.index("alone") > tensors.index("sum")


def test_a_text_of_ones_own_takes_the_place_of_a_partition(edit: Edit) -> None:
    """Checks a text that names no passes and whose functions, including the main one, have other names."""
    text = edit.text(IMPORT).replace(f', VPUIP.after = "{IMPORT}"', "")
    edit.compile(text.replace("@Partition_0", "@mine").replace("@Scale", "@Partition_0"))


def test_other_partitions_stay_as_they_are(tmp_path: Path) -> None:
    """Checks partitions that share a layer's function: the edited one gets a separate function."""
    network = layouts(tmp_path, "none")
    edit = Edit(network)
    for stage in STAGES:
        edit.path.write_text(edit.text(stage))
        network.compile("again.tflite", replace_ir={"Partition_1": str(edit.path)})
        assert (tmp_path / "again.tflite").read_bytes() == (tmp_path / "out.tflite").read_bytes()


def test_a_function_without_its_twin_leaves_the_twin(tmp_path: Path) -> None:
    network = halves(tmp_path)
    edit = Edit(network)
    text = edit.text(IMPORT)
    start = text.index("  func.func @Partition_0_fp16")
    edit.path.write_text(text[:start] + "}\n")
    report = network.compile("edited.tflite", replace_ir={"Partition_0": str(edit.path)})
    assert byte_code(tmp_path / "edited.tflite") == byte_code(tmp_path / "out.tflite")
    assert f"{edit.path} has no Partition_0_fp16: that function is not replaced." in report.notes


@pytest.mark.parametrize(
    ("stage", "old", "new", "message", "line"),
    [
        (
            "import",
            "(%x: tensor<1x3x4x5xf32>)",
            "(%x: tensor<1x3x4x5xf32>, %more: tensor<4xf32>)",
            "'Partition_0', which it replaces after 'import', has 1",
            "func.func @Partition_0",
        ),
        (
            "place-parts",
            "%0: memref<1x3x4x5xf32>)",
            "%0: memref<1x3x4x5xf32, #NCHW>)",
            "argument 1 has type memref<1x3x4x5xf32, ",
            "func.func @Partition_0",
        ),
        ("import", "@Scale(%s", "@Scales(%s", "'@Scales' could not be found", "@Scales(%s"),
        (
            "import",
            "dense_resource<constant_0>",
            "dense_resource<weights>",
            "the data of constant 'weights' is missing",
            "dense_resource<weights>",
        ),
        (
            "plan-memory",
            "memref<1x3x4x5xf32, #CHWN> = dense_resource",
            "memref<1x5x4x3xf32, #CHWN> = dense_resource",
            "constant 'constant_0' has type ",
            "dense_resource",
        ),
        ("import", '["Scale/scale.cl"', '["Other/scale.cl"', "but no flag gives this asset", "@Scale("),
        ("import", 'op_name = "Scale"', 'op_name = "Scales"', "but no flag gives this asset", "@Scale("),
        ("plan-memory", "@CMX[256]", "@CMX[0]", "overlap", "@CMX[0]"),
        ("plan-memory", "num_shaves = 8", "num_shaves = 9", "but EMU8 has only 8", "VPUIP.OCL @Scale "),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_line(
    edit: Edit, stage: str, old: str, new: str, message: str, line: str
) -> None:
    text = edit.text(stage)
    print(text)
    assert old in text
    changed = text.replace(old, new, 1)
    error = edit.refuse(changed)
    assert message in error.what
    found = re.search(r"edited\.mlir:(\d+):", error.where)
    assert found and line in changed.splitlines()[int(found[1]) - 1]


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        (
            {"Partition_7": "IN"},
            Status.NOT_FOUND,
            "--replace_ir names function 'Partition_7'",
        ),
        ({"Partition_0": "nowhere.mlir"}, Status.NOT_FOUND, "nowhere.mlir"),
        ({"Partition_0": "garbage.mlir"}, Status.INVALID_ARGUMENT, "garbage.mlir:1:"),
        ({"Partition_0": "after.mlir"}, Status.NOT_FOUND, "VPUIP.after is 'lunch'"),
        ({"Partition_0": "several.mlir"}, Status.NOT_FOUND, "no function 'Partition_0'"),
        ({"Partition_0": "large.mlir"}, Status.COMPILATION, "of DDR"),
    ],
)
def test_what_is_no_text_of_a_partition_is_refused(
    edit: Edit, given: dict[str, str], status: Status, message: str
) -> None:
    folder = edit.path.parent
    text = edit.text(IMPORT)
    body = text[text.index("  func.func @Partition_0") :].removesuffix("}\n")
    texts = {
        "IN": text,
        "garbage.mlir": "lorem ipsum",
        "after.mlir": text.replace('"import"', '"lunch"'),
        "several.mlir": text.replace("@Partition_0", "@a").removesuffix("}\n")
        + body.replace("@Partition_0", "@b")
        + "}\n",
        "large.mlir": edit.text("place-parts").replace(
            "  func.func @Partition_0(%x: memref<1x3x4x5xf32>, %0: memref<1x3x4x5xf32>) {\n",
            "  func.func @Partition_0(%x: memref<1x3x4x5xf32>, %0: memref<1x3x4x5xf32>) {\n"
            "    %large = memref.alloc() : memref<1024x1024x1024xf32>\n"
            "    IERT.Copy(%large, %large)\n"
            "    memref.dealloc %large : memref<1024x1024x1024xf32>\n",
        ),
    }
    for name, content in texts.items():
        (folder / name).write_text(content)
    with pytest.raises(LiteRtError) as error:
        paths = {name: str(folder / path) for name, path in given.items()}
        edit.network.compile("edited.tflite", replace_ir=paths)
    assert error.value.status is status, error.value
    assert message in str(error.value)
    assert not (folder / "edited.tflite").exists()


def test_the_flag_is_heard_by_a_plugin_in_a_process_of_its_own(
    edit: Edit, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = edit.path.parent
    edit.path.write_text(edit.text("plan-memory").replace("num_shaves = 8", "num_shaves = 2"))
    command = [
        "apply_plugin",
        "--isolate_plugin",
        "--reference_ops=all",
        f"--npu_custom_op_info=Scale,{folder / 'scale.xml'}",
        f"--replace_ir=Partition_0={edit.path}",
        str(folder / "in.tflite"),
        str(folder / "edited.tflite"),
    ]
    assert main(command) == 0
    assert f"compiled from {edit.path}, after 'plan-memory'" in capsys.readouterr().out
    (module,) = byte_code(folder / "edited.tflite")
    tasks = read_executable(module).functions[0].tasks
    assert {task.num_shaves for task in tasks if isinstance(task, KernelTask)} == {2}


@pytest.fixture
def all_on_the_cpu(tmp_path: Path) -> Path:
    """A model of which the NPU takes no op."""
    b = ModelBuilder()
    b.output(b.op("NEG", [b.input("x", "float32", (4,))], [("y", "float32", (4,))]))
    write_model(b.build(), tmp_path / "cpu.tflite")
    return tmp_path / "cpu.tflite"


def test_nothing_is_replaced_where_no_op_goes_to_the_npu(all_on_the_cpu: Path) -> None:
    output = all_on_the_cpu.with_name("out.tflite")
    options = ApplyOptions(compiler=CompilerOptions(replace_ir={"Partition_0": "no.mlir"}))
    with pytest.raises(
        LiteRtError, match="cannot replace the IR of function 'Partition_0'"
    ) as error:
        apply_plugin(all_on_the_cpu, output, options)
    assert error.value.status is Status.NOT_FOUND and error.value.where == "no.mlir"
    assert "no op went to the NPU" in error.value.what and not output.exists()


@pytest.mark.parametrize(
    ("flag", "dump"),
    [
        ("--dump_ir_after", DumpOptions("ir", ir_after="all")),
        ("--dump_kernels", DumpOptions("ir", kernels=True)),
    ],
)
def test_a_dump_of_nothing_is_a_warning(all_on_the_cpu: Path, flag: str, dump: DumpOptions) -> None:
    options = ApplyOptions(compiler=CompilerOptions(dump=dump))
    report = apply_plugin(all_on_the_cpu, all_on_the_cpu.with_name("out.tflite"), options)
    assert f"{flag} wrote no files, because no op went to the NPU" in report.warnings


def test_a_vendor_that_takes_no_ir_says_so(edit: Edit) -> None:
    options = ApplyOptions(
        soc_manufacturer="Null", compiler=CompilerOptions(replace_ir={"Partition_0": "a.mlir"})
    )
    with pytest.raises(LiteRtError, match="vendor 'Null' does not compile IR files") as error:
        apply_plugin(edit.path.parent / "in.tflite", edit.path, options)
    assert error.value.status is Status.UNSUPPORTED and error.value.where == "--replace_ir"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["edited.mlir"], "Write the value like Partition_0=edited.mlir."),
        (["Partition_0="], "Write the value like Partition_0=edited.mlir."),
        (
            ["Partition_0=a", "Partition_0=b"],
            "--replace_ir gives function 'Partition_0' two different files: a and b",
        ),
    ],
)
def test_a_flag_that_names_no_function_and_text_is_refused(texts: list[str], message: str) -> None:
    (declared,) = [o for o in options_of(CompilerOptions) if o.field == "replace_ir"]
    with pytest.raises(LiteRtError) as error:
        declared.read(texts)
    assert error.value.status is Status.INVALID_TOOL_CONFIG and message in str(error.value)


@pytest.mark.parametrize(
    ("pattern", "change", "message", "line"),
    [
        (
            r"global_size = array<.*?>,\n",
            "",
            "VPUIP.OCL needs the attribute global_size",
            "VPUIP.OCL @Scale ",
        ),
        (
            r"-> \(%y\)",
            "-> (%1)",
            "the task reads %y, which no earlier task writes",
            "@Reorder_1 ",
        ),
        (
            r"-> \(%0\)",
            "-> (%y)",
            "argument 1 is a result of function 'Partition_0', but in the IR text, no task writes it",
            "func.func @Partition_0",
        ),
        (
            "    func.return",
            "    VPUIP.Command @Reorder_1 (%y) -> (%x)\n    func.return",
            "argument 0 is an input of function 'Partition_0', but in the IR text, a task writes it",
            "func.func @Partition_0",
        ),
    ],
)
def test_tasks_that_cannot_run_are_refused_with_their_line(
    edit: Edit, pattern: str, change: str, message: str, line: str
) -> None:
    changed, count = re.subn(pattern, change, edit.text("plan-memory"), count=1)
    print(changed)
    assert count
    error = edit.refuse(changed)
    assert message in error.what
    found = re.search(r"edited\.mlir:(\d+):", error.where)
    assert found and line in changed.splitlines()[int(found[1]) - 1]
