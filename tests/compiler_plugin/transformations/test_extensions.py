"""Tests which files in folders of extensions are loaded, ignored and refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest

from compiler_plugin.transformations.extension_folders import Extensions, load_extensions
from litert.core.errors import LiteRtError
from litert.core.status import Status

SMALL = """
    from compiler_plugin.transformations import Transformation

    class {name}(Transformation):
        def find_and_replace_pattern(self, graph):
            return 0
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(dedent(text))
    return folder


def small(name: str) -> str:
    return SMALL.format(name=name)


def load(folder: Path) -> Extensions:
    return load_extensions([str(folder)])


def names(found: Extensions) -> Sequence[str]:
    return [item.name for item in found.transformations if not item.origin.is_builtin]


def refusal(folder: Path) -> LiteRtError:
    with pytest.raises(LiteRtError) as error:
        load(folder)
    return error.value


def test_the_folder_is_the_phase(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "front/a.py": small("InFront"),
            "front/tflite/b.py": small("ForTFLite"),
            "middle/c.py": small("InTheMiddle"),
            "back/d.py": small("AtTheBack"),
        },
    )
    found = {item.name: item for item in load(tmp_path).transformations}
    phases = ["in_front", "for_tf_lite", "in_the_middle", "at_the_back"]
    assert [found[name].phase.value for name in phases] == ["front", "front", "middle", "back"]
    assert found["in_front"].origin.path == str(tmp_path / "front/a.py")


def test_files_import_each_other_as_one_package(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "ops/numbers.py": "class Numbers:\n    two = 2\n",
            "front/tflite/_shared.py": "from ...ops.numbers import Numbers\nTHREE = Numbers.two + 1\n",
            "front/tflite/user.py": "from ._shared import THREE\nassert THREE == 3\n"
            + dedent(small("User")),
            "middle/other.py": "from ..ops.numbers import Numbers\n"
            "from ..front.tflite import user\nfrom .below.deep import FOUR\n"
            + dedent(small("Other")),
            "middle/below/deep.py": "from ...ops.numbers import Numbers\nFOUR = Numbers.two * 2\n",
        },
    )
    found = load(tmp_path)
    assert names(found) == ["user", "other"]  # the file that `other` imports is not loaded twice
    numbers = [
        vars(__import__("sys").modules[type(item.transformation).__module__]).get("Numbers")
        for item in found.transformations
        if item.name == "other"
    ]
    assert numbers[0] is not None and numbers[0].two == 2


def test_two_folders_with_equal_files_do_not_meet(tmp_path: Path) -> None:
    for name in ("One", "Two"):
        text = f"from ..ops.mine import NAME\nassert NAME == '{name}'\n" + dedent(small(name))
        write(tmp_path / name, {"front/it.py": text, "ops/mine.py": f"NAME = '{name}'\n"})
    found = load_extensions([str(tmp_path / "One"), str(tmp_path / "Two")])
    assert names(found) == ["one", "two"]


def test_a_folder_counts_once(tmp_path: Path) -> None:
    write(tmp_path, {"front/a.py": small("Once")})
    found = load_extensions([str(tmp_path), f"{tmp_path}/", f"{tmp_path}/front/.."])
    assert names(found) == ["once"]


def test_bases_and_what_is_imported_do_not_run(tmp_path: Path) -> None:
    text = """
        from abc import abstractmethod
        from compiler_plugin.transformations import Phase, Transformation
        from .._base import Shared

        class _Base(Transformation):
            def find_and_replace_pattern(self, graph): return self.count()

        class Counting(_Base):  # a base of the one below, since it lacks a method
            @abstractmethod
            def count(self): ...

        class CountsTwo(Counting):
            def count(self): return 2

        class Helper:
            pass
    """
    shared = "from compiler_plugin.transformations import Transformation\nclass Shared(Transformation): ...\n"
    write(tmp_path, {"middle/a.py": text, "_base.py": shared})
    assert names(load(tmp_path)) == ["counts_two"]


def test_what_is_left_alone_is_noted(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "front/a.py": small("Runs"),
            "front/onnx/b.py": "1 / 0\n",
            "midle/c.py": "1 / 0\n",
            "back/constants.py": "ONE = 1\n",
            "docs/readme.txt": "",
            "front/__pycache__/x.py": "1 / 0\n",
            "front/.hidden.py": "1 / 0\n",
            "front/_private.py": "1 / 0\n",
        },
    )
    (tmp_path / "back" / "folder.py").mkdir()
    found = load(tmp_path)
    assert names(found) == ["runs"]
    assert found.notes == [
        f"folder {tmp_path}/midle was ignored, because only these folders are read: ops, front, "
        "front/tflite, middle, back",
        f"folder {tmp_path}/front/onnx was ignored, because it is for a framework other than TFLite",
        f"file {tmp_path}/back/constants.py defines no transformation, op or extractor",
    ]


def test_a_name_taken_twice_names_both_files(tmp_path: Path) -> None:
    write(tmp_path, {"front/a.py": small("Twice"), "back/b.py": small("Twice")})
    error = refusal(tmp_path)
    assert error.status is Status.ALREADY_EXISTS
    assert f"{tmp_path}/front/a.py" in error.what and f"{tmp_path}/back/b.py" in error.what


@pytest.mark.parametrize("name", ["All", "Front", "Middle", "Back"])
def test_a_word_of_the_flags_is_no_name(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"front/a.py": small(name)})
    error = refusal(tmp_path)
    assert error.status is Status.ALREADY_EXISTS
    assert f"--transformations={name.lower()}" in error.what and error.where.endswith("a.py")


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda path: None, "no such folder"),
        (lambda path: path.write_text(""), "is not a folder"),
        (lambda path: path.mkdir(), "none of the subfolders ops, front, middle and back"),
    ],
    ids=["missing", "file", "empty"],
)
def test_a_folder_that_is_none_is_refused(tmp_path: Path, make: object, what: str) -> None:
    path = tmp_path / "extensions"
    make(path)  # type: ignore[operator]
    error = refusal(path)
    assert error.status is Status.NOT_FOUND
    assert what in error.what and error.where == str(path) and error.hint


_BROKEN = {
    "syntax": ("def f(:\n", "SyntaxError"),
    "missing import": ("import no_such_module_at_all\n", "no_such_module_at_all"),
    "missing name": ("from compiler_plugin.transformations import Nothing\n", "Nothing"),
    "missing neighbour": ("from ..ops.gone import Gone\n", ".ops'"),
    "raises": ("x = 1\nraise RuntimeError('on line two')\n", "x.py:2"),
    "exits": ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
    "not text": ("\0\1", "null bytes"),
    "lacks its method": (
        "from compiler_plugin.transformations import Transformation\nclass Empty(Transformation): ...\n",
        "class Empty does not define find_and_replace_pattern",
    ),
    "no base": (
        "class Free:\n    def find_and_replace_pattern(self, graph): ...\n",
        "function find_and_replace_pattern of class Free would never run, because the class has no base class "
        "for extensions",
    ),
    "cannot be made": (
        dedent(small("Made")) + "    def __init__(self):\n        self.x = 1 / 0\n",
        "ZeroDivisionError",
    ),
    "wants arguments": (
        dedent(small("Made")) + "    def __init__(self, size): ...\n",
        "size",
    ),
    "its rules raise": (
        dedent(small("Made")) + "    def run_after(self): return [1 / 0]\n",
        "x.py:7",
    ),
    "its rules are no list": (
        dedent(small("Made")) + "    def run_after(self): return 'other'\n",
        "run_after of transformation 'made' must return a list of transformations, but returns 'other'",
    ),
}


@pytest.mark.parametrize(("text", "what"), _BROKEN.values(), ids=_BROKEN.keys())
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str, what: str) -> None:
    write(tmp_path, {"middle/x.py": text})
    error = refusal(tmp_path)
    assert what in str(error) and str(tmp_path / "middle/x.py") in error.where and error.hint


def test_a_class_of_the_model_optimizer_is_told_where_it_is(tmp_path: Path) -> None:
    text = "from compiler_plugin.transformations import FrontReplacementOp\n"
    write(tmp_path, {"front/x.py": text})
    error = refusal(tmp_path)
    assert (
        "FrontReplacementOp is in compiler_plugin.transformations.model_optimizer" in error.what
        and error.where.endswith("x.py:1")
    )


def test_a_pattern_that_cannot_be_is_found_at_the_author_s_line(tmp_path: Path) -> None:
    header = "from compiler_plugin.transformations import Any, Match, PatternReplacement\n"
    text = (
        f"{header}class A(PatternReplacement):\n    pattern = Match('MULL', Any('x'), Any('x'))\n"
    )
    write(tmp_path, {"middle/x.py": text})
    error = refusal(tmp_path)
    assert error.hint == "Did you mean 'MUL'?" and error.where.endswith("x.py:3, in a pattern")


def test_a_transformation_among_the_ops_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"ops/a.py": small("Lost")})
    error = refusal(tmp_path)
    assert "Lost" in error.what and "middle" in error.hint


@pytest.mark.parametrize("name", ["a.b.py", "1st.py", "my-file.py", "a b.py", "x\n.py", "é'\".py"])
def test_a_file_whose_name_is_no_modules_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, {f"front/{name}": small("Fine")})
    error = refusal(tmp_path)
    assert error.status is Status.DYNAMIC_LOADING and error.where == str(tmp_path / "front" / name)
    assert "\n" not in str(error)


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = write(tmp_path / "extensions of 'mine'.py é\n", {"front/été.py": small("Fine")})
    assert names(load(folder)) == ["fine"]


def test_a_repaired_file_loads_the_next_time(tmp_path: Path) -> None:
    write(tmp_path, {"front/a.py": "1 / 0\n"})
    refusal(tmp_path)
    write(tmp_path, {"front/a.py": small("Repaired"), "front/b.py": small("Added")})
    assert names(load(tmp_path)) == ["repaired", "added"]


OP = """
    from compiler_plugin.transformations import Op

    class {name}(Op):
        op = "{name}"

        def __init__(self, graph, attrs):
            super().__init__(graph, {{"infer": {name}.infer, "scale": 2.0}}, attrs)

        @staticmethod
        def infer(node):
            node.out_port(0).data.set_shape(node.in_port(0).data.get_shape())
"""

EXTRACTOR = """
    from compiler_plugin.transformations import Extractor

    class {name}Extractor(Extractor):
        op = "{name}"

        def extract(self, node):
            return False
"""


def test_ops_and_extractors_are_found_beside_transformations(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "ops/twice.py": OP.format(name="Twice"),
            "front/tflite/twice.py": EXTRACTOR.format(name="Twice"),
            "middle/both.py": small("Both") + OP.format(name="Thrice"),
        },
    )
    found = load(tmp_path)
    assert [cls.__name__ for cls in found.ops] == ["Twice", "Thrice"]
    assert [cls.__name__ for cls in found.extractors] == ["TwiceExtractor"]
    assert names(found) == ["both"]


def test_an_extractor_belongs_to_the_front(tmp_path: Path) -> None:
    write(tmp_path, {"back/twice.py": EXTRACTOR.format(name="Twice")})
    error = refusal(tmp_path)
    assert "TwiceExtractor is an extractor" in error.what and "front/tflite" in error.hint


@pytest.mark.parametrize(
    "module", ["mo.front.common.replacement", "openvino.tools.mo", "extensions.ops"]
)
def test_an_import_of_the_model_optimizer_s_says_where_its_counterparts_are(
    tmp_path: Path, module: str
) -> None:
    error = refusal(write(tmp_path, {"front/x.py": f"import {module}\n"}))
    assert "ModuleNotFoundError" in error.what and f"{tmp_path}/front/x.py:1" in error.where
    assert "compiler_plugin.transformations" in error.hint


@pytest.mark.parametrize("value", ["True", "lambda graph: True", "[True]", "'NHWC'", "None"])
def test_conditions_that_are_no_functions_are_refused(tmp_path: Path, value: str) -> None:
    text = f"{dedent(small('Conditional'))}    graph_condition = {value}\n"
    error = refusal(write(tmp_path, {"middle/x.py": text}))
    assert error.what.startswith(
        "graph_condition of class Conditional must be a list of functions, but is "
    )
    assert error.where == str(tmp_path / "middle/x.py")


def test_folders_that_are_joined_by_commas_are_told_apart(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / name, {"middle/x.py": small(f"Of{name}")})
    with pytest.raises(LiteRtError) as error:
        load_extensions([f"{tmp_path}/a,{tmp_path}/b"])
    assert "give --extensions once for each" in error.value.hint
