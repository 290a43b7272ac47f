"""Tests passes by name, and the IR that is written after each pass."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from litert.core.compiler_options import DumpOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.vendor_reference.ir_texts import read
from vendor_reference.compiler import passes
from vendor_reference.compiler.ir.text import print_ir
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.pass_pipeline import (
    compile_passes,
    describe_pass,
    find_passes,
    make_dump_files,
    parse_passes,
    pipeline,
    run_passes,
    write_dump,
)

TEXT = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  func.return %x : tensor<4xf32>\n}"


def test_every_pass_says_what_it_does() -> None:
    for name, known in find_passes().items():
        assert describe_pass(known).endswith("."), name


def test_a_compilation_runs_passes_that_there_are() -> None:
    assert [one.name for one in compile_passes()] == pipeline()
    assert list(find_passes())[: len(pipeline())] == pipeline()


NEW_PASS = '''"""Does nothing."""

from dataclasses import dataclass

from vendor_reference.compiler.pass_pipeline import CompilerPass


@dataclass(frozen=True)
class Rest(CompilerPass):
    """Rests."""

    name = "rest"
    AFTER = "{after}"

    def apply(self, ctx, op):
        pass

PASS = Rest
'''


@pytest.fixture
def new_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Path of a module in the folder of passes; a pass written there is found."""
    monkeypatch.setattr(passes, "__path__", [*passes.__path__, str(tmp_path)])
    find_passes.cache_clear()
    yield tmp_path / "rest.py"
    find_passes.cache_clear()
    sys.modules.pop(f"{passes.__name__}.rest", None)


def test_a_new_pass_is_one_new_file(new_pass: Path) -> None:
    new_pass.write_text(NEW_PASS.format(after="adjust-layouts"))
    names = [one.name for one in compile_passes()]
    at = names.index("adjust-layouts")
    assert names[at : at + 3] == ["adjust-layouts", "rest", "optimize-reorders"]
    assert describe_pass(find_passes()["rest"]) == "Rests."


@pytest.mark.parametrize("after", ["make-coffee", "rest"])
def test_a_pass_stands_behind_one_that_a_compilation_runs(new_pass: Path, after: str) -> None:
    new_pass.write_text(NEW_PASS.format(after=after))
    with pytest.raises(
        LiteRtError,
        match=f"AFTER of pass 'rest' is '{after}', which is not the name of an earlier pass",
    ) as error:
        find_passes()
    assert "plan-memory" in error.value.hint


def test_a_pass_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(LiteRtError, match=r"'make-coffee'.*adjust-layouts") as error:
        parse_passes("convert-precisions,make-coffee")
    assert error.value.status is Status.NOT_FOUND


@pytest.mark.parametrize("text", ["a{", "adjust-layouts,,x", "adjust-layouts{a=}", "!", "{}"])
def test_a_list_of_passes_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(LiteRtError):
        parse_passes(text)


def test_an_option_that_a_pass_has_not_is_refused() -> None:
    with pytest.raises(LiteRtError) as error:
        parse_passes("adjust-layouts{speed=11}")
    assert error.value.where == "pass 'adjust-layouts'" and "speed" in error.value.what


def test_no_passes_are_none() -> None:
    assert parse_passes("") == []


@dataclass(frozen=True)
class Fails(ModulePass):
    """Fails."""

    name = "fails"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise PassFailedException("the op has no layout")


def test_a_pass_that_fails_is_named_with_those_before_it() -> None:
    passes = [*parse_passes("convert-precisions,adjust-layouts"), Fails()]
    with pytest.raises(LiteRtError, match="the op has no layout") as error:
        run_passes(make_context(), read(TEXT).module, passes)
    assert error.value.where == "pass 'fails', which ran after convert-precisions, adjust-layouts"


def test_the_ir_after_each_pass_is_written(tmp_path: Path) -> None:
    files = make_dump_files(DumpOptions(str(tmp_path / "new"), "all"))
    module = read(TEXT).module
    write_dump(files, "import", module)
    run_passes(make_context(), module, compile_passes(), partial(write_dump, files))
    names = [f"{number:02}_{name}.mlir" for number, name in enumerate(("import", *pipeline()))]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == names
    assert [Path(path).name for path in files.values()] == names
    for path in (tmp_path / "new").iterdir():
        assert print_ir(read(path.read_text()).module) == path.read_text()


def test_the_ir_after_one_pass_is_written_under_the_same_name(tmp_path: Path) -> None:
    files = make_dump_files(DumpOptions(str(tmp_path), pipeline()[-1]))
    run_passes(make_context(), read(TEXT).module, compile_passes(), partial(write_dump, files))
    assert [path.name for path in tmp_path.iterdir()] == [
        f"{len(pipeline()):02}_{pipeline()[-1]}.mlir"
    ]


def test_a_dump_after_a_pass_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LiteRtError, match=r"'make-coffee'.*import, convert-precisions"):
        make_dump_files(DumpOptions(str(tmp_path / "new"), "make-coffee"))
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LiteRtError) as error:
        make_dump_files(DumpOptions(str(tmp_path / "file"), "all"))
    assert error.value.status is Status.FILE_IO
