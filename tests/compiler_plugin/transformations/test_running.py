"""Tests which transformations run and in which order, the report, and how errors in a user's file are raised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import dedent, indent

import pytest

from compiler_plugin.report import Report, TransformationReport
from compiler_plugin.transformations import TransformOptions
from compiler_plugin.transforming import transform_file
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.writer import write_model

Run = Callable[..., Report]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model file of two subgraphs: `y = RELU(ABS(x))`, and a single ABS."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (2, 3))
    y = builder.op("ABS", [x], [("a", "float32", (2, 3))])
    builder.output(builder.op("RELU", [y], [("y", "float32", (2, 3))]))
    other = builder.subgraph("other")
    z = other.input("z", "float32", (4,))
    other.output(other.op("ABS", [z], [("b", "float32", (4,))]))
    path = tmp_path / "in.tflite"
    write_model(builder.build(), path)
    return path


@pytest.fixture
def run(model: Path, tmp_path: Path) -> Run:
    """Runs transformations with given bodies of `find_and_replace_pattern`, as in `run(middle_a="return 1")`."""

    def transform(selection: Sequence[str] = (), dump: str = "", **bodies: str) -> Report:
        for name, body in bodies.items():
            folder, _, class_name = name.partition("_")
            path = tmp_path / "mine" / folder / f"{class_name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            before, _, body = body.rpartition("---")
            path.write_text(
                "import os\nfrom compiler_plugin.transformations import Phase, Transformation\n"
                f"class {class_name}(Transformation):\n"
                f"{indent(dedent(before), '    ')}\n"
                "    def find_and_replace_pattern(self, graph):\n"
                f"{indent(dedent(body).strip(), '        ')}\n"
            )
        options = TransformOptions(
            [str(tmp_path / "mine")],
            selection,
            dump_model_after=dump,
            dump_folder=str(tmp_path / "dumps"),
        )
        return transform_file(model, tmp_path / "out.tflite", options)

    return transform


def refusal(run: Run, **bodies: str) -> LiteRtError:
    with pytest.raises(LiteRtError) as error:
        run(**bodies)
    return error.value


def mine(report: Report) -> Sequence[TransformationReport]:
    return [item for item in report.transformations if item.path]


TO_NEG = """
    for node in graph.get_op_nodes(op="ABS"):
        new = graph.create_op("NEG", [node.in_port(0).get_source()])
        graph.replace_node(node, new)
"""


def op_names(path: Path) -> list[str]:
    with read_model(path) as model:
        return [op.name for op in model.ops()]


def test_each_runs_on_all_subgraphs_phase_by_phase(run: Run, tmp_path: Path) -> None:
    body = f"""
        with open({str(tmp_path / "log")!r}, "a") as log:
            print(self.name, graph.stage.value, len(graph.nodes), file=log)
        return len(graph.nodes)
    """
    report = run(back_a=body, front_z=body, middle_k=body, middle_j=body)
    assert (tmp_path / "log").read_text().splitlines() == [
        "z front 2", "z front 1", "j middle 2", "j middle 1",
        "k middle 2", "k middle 1", "a back 2", "a back 1",
    ]  # fmt: skip
    assert [(item.name, item.phase, item.matches) for item in mine(report)] == [
        ("z", "front", 3), ("j", "middle", 3), ("k", "middle", 3), ("a", "back", 3),
    ]  # fmt: skip
    assert mine(report)[0].path == str(tmp_path / "mine/front/z.py")


def test_an_edit_is_written_and_counts_once_where_no_count_is_given(
    run: Run, tmp_path: Path
) -> None:
    report = run(middle_a=TO_NEG, middle_b="pass", middle_c="return None", middle_d="return 0")
    assert [item.matches for item in mine(report)] == [2, 0, 0, 0]  # once in each subgraph
    assert op_names(tmp_path / "out.tflite") == ["NEG", "RELU", "NEG"]


def test_what_a_condition_forbids_does_not_run(run: Run) -> None:
    condition = "graph_condition = [lambda graph: len(graph.nodes) == 2]\n---\nreturn 1"
    assert mine(run(middle_a=condition))[0].matches == 1


@pytest.mark.parametrize(("says_so", "abs_after"), [(False, 2), (True, 1)])
def test_ops_that_nobody_reads_go_where_the_transformation_says_so(
    run: Run, tmp_path: Path, says_so: bool, abs_after: int
) -> None:
    leave = """
        for node in graph.get_op_nodes(op="RELU"):
            source = node.in_port(0).get_source().node.in_port(0).get_source()
            node.in_port(0).get_connection().set_source(source)
    """
    count = "return len(graph.get_op_nodes(op='ABS'))"
    report = run(middle_a=f"force_clean_up = {says_so}\n---\n{leave}", middle_b=count)
    assert mine(report)[1].matches == abs_after
    assert op_names(tmp_path / "out.tflite") == ["RELU", "ABS"]  # removed at the end of the phase


def test_the_report_has_a_line_for_each(run: Run, tmp_path: Path) -> None:
    text = run(middle_a="return 1").to_text()
    assert f"  a  middle    2 matches, 0.000 s, {tmp_path}/mine/middle/a.py" in text
    assert "ops: 3 before, 3 after" in text


@pytest.mark.parametrize(
    ("body", "status", "what"),
    [
        ("x = 1\nreturn 1 / 0", Status.INVALID_TRANSFORMATION, "ZeroDivisionError"),
        ("x = 1\nraise SystemExit(3)", Status.INVALID_TRANSFORMATION, "SystemExit: 3"),
        ("x = 1\ngraph.nodes[0].in_port(7)", Status.INDEX_OOB, "7"),
        ("x = 1\ngraph.create_op('NOPE')", Status.INVALID_ARGUMENT, "NOPE"),
        ("x = 1\nassert graph is None", Status.INVALID_TRANSFORMATION, "AssertionError"),
    ],
)
def test_a_crash_names_transformation_file_line_and_what_ran_before(
    run: Run, tmp_path: Path, body: str, status: Status, what: str
) -> None:
    error = refusal(run, front_a="return 0", middle_b="return 0", middle_c=body, back_d="return 0")
    path = tmp_path / "mine/middle/c.py"
    line = next(n for n, text in enumerate(path.read_text().split("\n"), 1) if "x = 1" in text) + 1
    assert what in error.what
    assert error.where.startswith(f"transformation 'c' of {path}:{line}, subgraph 0")
    assert error.hint.endswith("Transformations that ran before: a, b.")
    assert not (tmp_path / "out.tflite").exists()


@pytest.mark.parametrize(
    ("body", "status", "what"),
    [
        ("raise KeyboardInterrupt", Status.CANCELLED, "interrupted"),
        ("raise GeneratorExit", Status.INVALID_TRANSFORMATION, "GeneratorExit"),
        ("raise SystemExit(3)", Status.INVALID_TRANSFORMATION, "SystemExit: 3"),
    ],
)
def test_what_is_no_exception_names_the_transformation_too(
    run: Run, tmp_path: Path, body: str, status: Status, what: str
) -> None:
    error = refusal(run, middle_a=body)
    assert (error.status, error.what) == (status, what)
    assert error.where.startswith(f"transformation 'a' of {tmp_path}/mine/middle/a.py:6")
    assert not (tmp_path / "out.tflite").exists()


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("graph.create_edge(1, 2)", "Use node.in_port(i)"),
        ("graph.edges(data=True)", "Use node.in_port(i)"),
        ("graph.nodes(data=True)", "Loop over graph.nodes, the list"),
        ("graph.nodes['x']", "Loop over graph.nodes, the list"),
        ("graph.node['x']", "Loop over graph.nodes, the list"),
        (
            "graph.nodes[0].in_port(0).data.get_shape().copy()",
            "Shapes and list attributes are tuples",
        ),
        (
            "graph.nodes[0].in_port(0).data.get_shape()[[0, 1]]",
            "Shapes and list attributes are tuples",
        ),
        ("graph.no_such_thing", "Fix the code at this line. No transformation had run"),
    ],
)
def test_a_name_of_the_model_optimizer_s_is_told_its_counterpart(
    run: Run, body: str, hint: str
) -> None:
    error = refusal(run, middle_a=body)
    assert hint in error.what or error.hint.startswith(hint)


@pytest.mark.parametrize("result", ["'three'", "-1", "[1]", "graph", "1.5"])
def test_a_result_that_is_no_count_is_refused(run: Run, result: str) -> None:
    error = refusal(run, middle_a=f"return {result}")
    assert error.status is Status.INVALID_TRANSFORMATION
    assert "must return a number of matches or None, but returns" in error.what
    assert error.hint.endswith("No transformation had run before this error.")


def test_a_condition_that_crashes_is_an_error_of_its_transformation(
    run: Run, tmp_path: Path
) -> None:
    error = refusal(run, middle_a="graph_condition = [lambda graph: 1 / 0]\n---\nreturn 1")
    assert "ZeroDivisionError" in error.what and f"{tmp_path}/mine/middle/a.py:4" in error.where


def test_a_cycle_is_found_after_the_transformation_that_made_it(run: Run, tmp_path: Path) -> None:
    tie = """
        for relu in graph.get_op_nodes(op="RELU"):
            first = relu.in_port(0).get_source().node
            first.in_port(0).get_connection().set_source(relu.out_port(0))
    """
    error = refusal(run, middle_a=tie, middle_b="return 0")
    assert error.status is Status.INVALID_GRAPH_INVARIANT
    assert error.where.startswith(f"transformation 'a' of {tmp_path}/mine/middle/a.py")


@pytest.mark.parametrize("phase", ["front", "middle", "back"])
def test_an_input_that_dangles_is_found_after_the_transformation_that_left_it(
    run: Run, tmp_path: Path, phase: str
) -> None:
    loosen = 'graph.get_op_nodes(op="RELU")[0].in_port(0).disconnect()'
    error = refusal(run, **{f"{phase}_a": loosen, f"{phase}_b": "return 0"})
    assert f"transformation 'a' of {tmp_path}/mine/{phase}/a.py" in error.where
    assert "input 0" in error.what and "RELU" in str(error)


def test_a_dump_shows_the_model_after_a_transformation(run: Run, tmp_path: Path) -> None:
    run(dump="b", middle_a="return 0", middle_b=TO_NEG, middle_c="return 0")
    (dump,) = (tmp_path / "dumps").iterdir()
    assert dump.name.endswith("_b.tflite")
    assert op_names(dump) == ["NEG", "RELU", "NEG"]


def test_all_dumps_are_numbered_in_the_order_of_the_plan(run: Run, tmp_path: Path) -> None:
    run(dump="all", front_k=TO_NEG, middle_a="return 0", back_b="return 0")
    names = sorted(path.name for path in (tmp_path / "dumps").iterdir())
    assert names == ["01_k.tflite", "02_a.tflite", "03_b.tflite"]
    assert op_names(tmp_path / "dumps" / names[0]) == ["NEG", "RELU", "NEG"]


def test_a_dump_after_what_does_not_run_is_refused(run: Run) -> None:
    with pytest.raises(LiteRtError) as error:
        run(dump="nothing", middle_a="return 0")
    assert (
        error.value.status is Status.NOT_FOUND
        and "These transformations run: a." in error.value.hint
    )


def test_a_dump_that_cannot_be_written_is_an_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "dumps").write_text("in the way")
    with pytest.raises(LiteRtError) as error:
        run(dump="all", middle_a="return 0")
    assert error.value.status is Status.FILE_IO and "dumps" in error.value.where


def test_a_model_that_nothing_changes_is_written_as_it_was(
    run: Run, model: Path, tmp_path: Path
) -> None:
    run(front_a="return 0", middle_b="return 0", back_c="return 0")
    with read_model(model) as untouched:
        write_model(untouched, tmp_path / "rewritten.tflite")
    assert (tmp_path / "out.tflite").read_bytes() == (tmp_path / "rewritten.tflite").read_bytes()


def test_a_dump_of_the_front_phase_has_types_that_are_not_known_yet(
    run: Run, tmp_path: Path
) -> None:
    add = """
        for node in graph.get_op_nodes(op="ABS"):
            neg = graph.create_op("NEG", [node.in_port(0).get_source()])
            graph.replace_node(node, graph.create_op("EXP", [neg]))
    """
    run(dump="all", front_a=add, middle_b="return 0")
    front, middle = sorted((tmp_path / "dumps").iterdir())
    types = [
        [op.outputs[0].element_type.name for op in read_model(path).ops()]
        for path in (front, middle, tmp_path / "out.tflite")
    ]
    assert types == [
        ["VARIANT", "FLOAT32", "FLOAT32", "VARIANT", "FLOAT32"],
        ["FLOAT32"] * 5,
        ["FLOAT32"] * 5,
    ]


def test_shapes_are_inferred_again_where_the_transformation_says_so(
    run: Run, tmp_path: Path
) -> None:
    grow = """
        (x, *_), (y, *_) = graph.parameters, graph.nodes
        if len(graph.nodes) == 2:
            x.tensor.shape = (5, 3)  # behind the graph's back
    """
    run(middle_a=f"force_shape_inference = True\n---\n{grow}")
    with read_model(tmp_path / "out.tflite") as model:
        assert [op.outputs[0].shape for op in model.subgraphs[0].ops] == [(5, 3), (5, 3)]
