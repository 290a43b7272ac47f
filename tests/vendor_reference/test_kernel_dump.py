"""Tests dumped kernels for people to read: one self-contained file for each set of parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.writer import write_model
from vendor_reference.compiler.kernel_check import build_programs
from vendor_reference.compiler.kernel_dump import dump_kernels
from vendor_reference.executable.executable import Executable, Program, Source
from vendor_reference.executable.source_text import USER_DEFINES
from vendor_reference.programs.kernel_text import kernel_text

SOURCE = '#include "gain.h"\n__kernel void Gain(const __global float* x, __global float* y) {\n'
SOURCE += "  y[get_global_id(0)] = x[get_global_id(0)] * PARAM_gain + OFFSET;\n}\n"


def compile_gains(
    folder: Path, *ops: tuple[str, tuple[int, ...], float], source: str = SOURCE
) -> list[str]:
    """Compiles a model with ops given as (output name, shape, gain); returns the report's notes."""
    b = ModelBuilder()
    for index, (name, shape, gain) in enumerate(ops):
        x = b.input(f"x{index}", "float32", shape)
        b.output(b.custom("Gain", [x], [(name, "float32", shape)], options={"gain": gain}))
    write_model(b.build(), folder / "m.tflite")
    (folder / "gain.cl").write_text(source)
    (folder / "gain.h").write_text("#pragma once\n#define OFFSET 0.5f\n")
    compiler = CompilerOptions(
        [CustomOpInfo("Gain", str(folder / "gain.cl"))],
        dump=DumpOptions(str(folder / "dump"), kernels=True),
    )
    options = ApplyOptions(require_npu=["all"], compiler=compiler)
    return list(apply_plugin(folder / "m.tflite", folder / "c.tflite", options).notes)


def test_there_is_a_file_for_each_set_of_parameters(tmp_path: Path) -> None:
    notes = compile_gains(
        tmp_path, ("a", (4,), 0.5), ("b", (6,), 0.5), ("c", (4,), 0.5), ("d", (4,), 2.5)
    )
    files = sorted((tmp_path / "dump").iterdir())
    assert [path.name for path in files] == ["program0.cl", "program1.cl", "program2.cl"]
    texts = [path.read_text() for path in files]
    for text, name, items, gain in zip(texts, "abd", (4, 6, 4), (0.5, 0.5, 2.5), strict=True):
        assert f"// Layer {name} using Custom Layer Gain\n{USER_DEFINES}" in text
        assert f"#define GLOBAL_WORKSIZE (size_t []){{ {items}, }} \n" in text
        assert f"#define PARAM_gain {gain}f\n" in text
    assert any(note == f"3 kernels written to {tmp_path}/dump." for note in notes)


def test_a_dumped_kernel_compiles_by_itself(tmp_path: Path) -> None:
    compile_gains(tmp_path, ("out", (4,), 3))
    text = (tmp_path / "dump" / "program0.cl").read_text()
    assert "#include" not in text and "#pragma once" not in text and "#line" not in text
    assert text.count("#define OFFSET 0.5f") == 1
    (built,) = build_programs(Executable("EMU8", [], [Program(text, [])], []), {})
    assert built is not None and list(built.kernels) == ["Gain"]


def test_a_kernel_that_does_not_build_is_dumped_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(LiteRtError):
        compile_gains(tmp_path, ("y", (4,), 1), source=SOURCE.replace("OFFSET", "OFSET"))
    assert "OFSET" in (tmp_path / "dump" / "program0.cl").read_text()


@pytest.mark.parametrize("name", ["a\nb", "ends in \\", "a\u2028b", "caf\u00e9 1:0"])
def test_a_title_stays_in_its_line(name: str) -> None:
    program = Program(f"built-in\n{USER_DEFINES}", [Source(name, name, "")])
    text = kernel_text(program, f"Layer {name}", lambda _: memoryview(b"the source"))
    lines = text.split("\n")
    assert [line[:8] for line in lines] == [
        "built-in",
        "// Layer",
        "// Custo",
        "// Custo",
        "the sour",
        "",
    ]
    assert not any(line.endswith("\\") for line in lines)


def test_programs_of_the_library_are_nobodys_to_debug(tmp_path: Path) -> None:
    programs = [Program("library", []), Program(USER_DEFINES, [Source("k", "k", "")])]
    dump_kernels(str(tmp_path), programs, ["L"], lambda _: memoryview(b""))
    assert [path.name for path in tmp_path.iterdir()] == ["program0.cl"]
    assert (tmp_path / "program0.cl").read_text().startswith(f"// L\n{USER_DEFINES}")


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LiteRtError) as error:
        dump_kernels(
            str(tmp_path / "file"),
            [],
            [],
            lambda _: memoryview(b""),
        )
    assert error.value.status is Status.FILE_IO and str(tmp_path) in error.value.where
