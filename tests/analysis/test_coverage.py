"""Tests which ops of a model a plugin selects for the NPU, and the reasons why others stay on the CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.apply_options import ApplyOptions
from compiler_plugin.commands import partition_model
from compiler_plugin.pipeline import apply_plugin
from compiler_plugin.transform_options import TransformOptions
from litert.analysis.coverage import ModelCoverage, find_coverage
from litert.analysis.model_files import find_models
from litert.analysis.op_costs import CostOptions
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.core.formula import Formula
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.writer import write_model
from tests.compiler_plugin.composite_models import MODELS, between_sums, rms_norm
from tests.compiler_plugin.conftest import VENDORS, build_chain

ALL = ApplyOptions(
    compiler=CompilerOptions(vendor_options={"reference_ops": "all"}, check_kernels=False)
)
VECTOR = ("float32", (1, 8))


def fake(**options: str) -> ApplyOptions:
    """Returns options for the fake vendor, such as `ops="ADD,MUL"`."""
    vendor = {f"fake_{name}": value for name, value in options.items()}
    return ApplyOptions(
        "Fake", libs=[str(VENDORS)], compiler=CompilerOptions(vendor_options=vendor)
    )


def save(model: Model, path: Path) -> str:
    write_model(model, path)
    return str(path)


def cover(path: str, options: ApplyOptions, *, compiles: bool = False) -> ModelCoverage:
    (model,) = find_coverage([path], options, compiles=compiles).models
    return model


def places(model: ModelCoverage) -> list[tuple[object, ...]]:
    return [(op.subgraph, op.index, op.name, op.call, op.reason) for op in model.ops]


def test_coverage_agrees_with_apply_plugin_op_by_op(networks: Path) -> None:
    paths = find_models([str(networks)])
    assert len(paths) == 14
    for model in find_coverage(paths, ALL).models:
        report = apply_plugin(model.path, "", ALL)
        assert not model.problem
        assert places(model) == [
            (op.subgraph, op.index, op.name, op.call, op.reason) for op in report.ops
        ]
        assert (model.num_npu_ops, model.num_calls) == (len(report.npu_ops), len(report.calls))


def test_with_a_compilation_it_agrees_with_what_is_compiled(tmp_path: Path) -> None:
    path = save(build_chain("A", "B", "C", "D"), tmp_path / "chain.tflite")
    options = fake(refuse="C")
    report = apply_plugin(path, "", options)
    compiled, asked = cover(path, options, compiles=True), cover(path, options)
    assert [op.call for op in compiled.ops] == [op.call for op in report.ops]
    assert [op.reason for op in compiled.ops] == [op.reason for op in report.ops]
    assert (compiled.num_npu_ops, compiled.num_calls) == (3, 2)
    assert (asked.num_npu_ops, asked.num_calls) == (4, 1)


def test_intel_s_plugin_is_asked_in_a_process_of_its_own(networks: Path, intel: Path) -> None:
    options = ApplyOptions("IntelOpenVINO", libs=[str(intel / "compiler")])
    path = str(networks / "selfie_segmentation.tflite")
    model, report = cover(path, options), partition_model(path, "", options)
    assert places(model) == [
        (op.subgraph, op.index, op.name, op.call, op.reason) for op in report.ops
    ]
    assert (model.num_npu_ops, model.num_calls) == (245, 2)
    assert model.refusals[0].calls_change == -1  # the custom op splits the network into two calls


def test_the_c_example_is_asked(c_vendor: Path, tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", *VECTOR)
    y = b.op("MUL", [x, x], [("y", *VECTOR)])
    b.output(b.op("TANH", [y], [("z", *VECTOR)]))
    model = cover(
        save(b.build(), tmp_path / "m.tflite"),
        ApplyOptions("Cobalt", libs=[str(c_vendor)]),
        compiles=True,
    )
    assert [op.call != "" for op in model.ops] == [True, False] and not model.problem
    assert model.arithmetic_share == 8 / (8 + 8 * 64)


def test_what_goes_wrong_with_a_model_is_its_problem(
    tmp_path: Path, c_vendor: Path, networks: Path
) -> None:
    good = str(networks / "hand_recrop.tflite")
    (tmp_path / "cut.tflite").write_bytes(Path(good).read_bytes()[:1000])
    compiled = str(tmp_path / "compiled.tflite")
    b = ModelBuilder()
    x = b.input("x", *VECTOR)
    b.output(b.op("MUL", [x, x], [("y", *VECTOR)]))
    cobalt = ApplyOptions("Cobalt", libs=[str(c_vendor)])
    apply_plugin(save(b.build(), tmp_path / "m.tflite"), compiled, cobalt)
    paths = [str(tmp_path / "cut.tflite"), compiled, good]
    cut, twice, fine = find_coverage(paths, cobalt).models
    assert "INVALID_FLATBUFFER" in cut.problem and not cut.ops
    assert "is already compiled" in twice.problem
    assert not fine.problem and fine.num_ops == 63


@pytest.mark.parametrize("mode", ["partition_raises", "partition_foreign"])
def test_a_vendor_s_fault_is_the_model_s_problem(mode: str, tmp_path: Path) -> None:
    path = save(build_chain("A", "B"), tmp_path / "chain.tflite")
    assert "vendor 'Fake', in partition" in cover(path, fake(mode=mode)).problem


def test_what_is_wrong_for_all_models_is_an_error(tmp_path: Path) -> None:
    path = save(build_chain("A"), tmp_path / "chain.tflite")
    info = CustomOpInfo("A", str(tmp_path / "none.cl"))
    for options, status in (
        (ApplyOptions("Nobody"), Status.NOT_FOUND),
        (replace(fake(), soc_model="F9"), Status.INVALID_TOOL_CONFIG),
        (replace(fake(), compiler=CompilerOptions([info])), Status.NOT_FOUND),
    ):
        with pytest.raises(LiteRtError) as error:
            find_coverage([path], options)
        assert error.value.status is status


def test_refusals_of_all_models_are_counted_by_name_types_and_reason(tmp_path: Path) -> None:
    """The models have a product of 2 * 8 * 8 operations, sums of 8 each, and a custom op of unknown cost."""

    def build(num_sums: int) -> Model:
        b = ModelBuilder()
        x = b.input("x", *VECTOR)
        for index in range(num_sums):
            x = b.op("ADD", [x, x], [(f"s{index}", *VECTOR)])
        weights = b.constant("w", np.ones((8, 8), np.float32))
        y = b.op("FULLY_CONNECTED", [x, weights, None], [("p", *VECTOR)])
        b.output(b.custom("My", [b.op("ADD", [y, y], [("t", *VECTOR)])], [("m", *VECTOR)]))
        return b.build()

    paths = [save(build(n), tmp_path / f"{n}.tflite") for n in (1, 3)]
    coverage = find_coverage(paths, fake(ops="FULLY_CONNECTED"))
    product, sums, custom = 2 * 64, 8, coverage.refusals[1]
    found = coverage.refusals[0]
    assert (found.name, found.types, found.count, found.num_models) == ("ADD", "float32", 6, 2)
    assert found.reason == "the plugin refuses the op without giving a reason"
    assert found.arithmetic_share == 6 * sums / (6 * sums + 2 * product)
    # On the NPU, the sums before and after a model's call would join it: still one call.
    assert found.calls_change == 0
    assert (custom.name, custom.arithmetic_share, custom.calls_change) == ("My", None, 2)
    assert custom.bytes_share and [m.num_unknown for m in coverage.models] == [1, 1]
    assert coverage.models[0].macs == 64 and coverage.models[0].macs_share == 1.0
    assert coverage.models[0].arithmetic_share == product / (product + 2 * sums)


def test_calls_that_a_repair_would_join_are_counted(tmp_path: Path) -> None:
    path = save(build_chain(*"ABABA"), tmp_path / "chain.tflite")
    model = cover(path, fake(ops="A"))
    assert model.num_calls == 3 and model.refusals[0].calls_change == -2
    apart = cover(path, fake(ops="B", indices="1"))  # each B gets a call of its own
    assert (apart.num_calls, apart.refusals[0].calls_change) == (2, 1)


def test_what_is_handed_between_cpu_and_npu_is_counted(tmp_path: Path) -> None:
    model = cover(save(build_chain(*"ABBA"), tmp_path / "chain.tflite"), fake(ops="B"))
    assert (model.num_transitions, model.transition_bytes) == (2, 2 * 4 * 4)
    whole = cover(save(build_chain(*"ABBA"), tmp_path / "chain.tflite"), fake())
    assert whole.num_transitions == 0


def test_a_composite_costs_the_same_whole_and_apart(tmp_path: Path) -> None:
    path = save(between_sums("odml.rms_norm", rms_norm), tmp_path / "m.tflite")
    whole = cover(path, fake(ops="STABLEHLO_COMPOSITE"))
    apart = cover(path, fake(ops="MUL"))
    left = cover(path, fake(ops="NOTHING"))
    assert [(op.index, op.composite) for op in whole.ops] == [
        (0, ""),
        (1, "odml.rms_norm"),
        (2, ""),
    ]
    assert [op.index for op in apart.ops] == [0, 1, 1, 1, 1, 1, 1, 2]
    assert {op.composite for op in apart.ops if op.index == 1} == {"odml.rms_norm"}
    assert {m.operations for m in (whole, apart, left)} == {8 + 8 + 8 + 1 + 1 + 8 + 8 + 8}
    assert len({m.bytes for m in (whole, apart, left)}) == 1
    assert whole.arithmetic_share == 34 / 50
    assert "odml.rms_norm" in {refusal.name for refusal in left.refusals}


@pytest.mark.parametrize("case", MODELS)
def test_ops_with_composites_are_those_of_apply_plugin(case: str, tmp_path: Path) -> None:
    path = save(MODELS[case](), tmp_path / "m.tflite")
    report = partition_model(path, "", fake(ops="MUL,ADD"))
    model = cover(path, fake(ops="MUL,ADD"))
    assert [(op.name, op.call, op.reason) for op in model.ops] == [
        (op.name, op.call, op.reason) for op in report.ops
    ]
    assert all(op.index >= 0 for op in model.ops)


def test_ops_have_their_places_in_the_file_after_transformations(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", *VECTOR)
    y = b.op("RELU", [b.op("ADD", [x, x], [("sum", *VECTOR)])], [("positive", *VECTOR)])
    b.output(b.op("MUL", [y, y], [("z", *VECTOR)]))
    path = save(b.build(), tmp_path / "m.tflite")
    fused = replace(fake(), transform=TransformOptions(selection=["fuse_activation"]))
    model = cover(path, fused)
    assert [(op.name, op.output) for op in model.ops] == [("ADD", "positive"), ("MUL", "z")]
    assert model.ops[1].index == 2


def test_the_types_are_those_of_data(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", "int8", (1, 8))
    w = b.constant("w", np.ones((8, 8), np.int8))
    bias = b.constant("b", np.ones(8, np.int32))
    y = b.op("FULLY_CONNECTED", [x, w, bias], [("y", "int8", (1, 8))])
    f = b.op("DEQUANTIZE", [y], [("f", *VECTOR)])
    h = b.op("FULLY_CONNECTED", [f, w, None], [("h", *VECTOR)])
    shape = b.constant("s", np.array([8], np.int32))
    r = b.op("RESHAPE", [h, shape], [("r", "float32", (8,))])
    b.output(b.op("SHAPE", [r], [("n", "int32", (1,))], out_type="INT32"))
    model = cover(save(b.build(), tmp_path / "m.tflite"), fake())
    assert [op.types for op in model.ops] == [
        "int8", "int8 to float32", "float32, int8", "float32", "float32 to int32",
    ]  # fmt: skip


def dynamic(path: Path) -> str:
    """Writes a model with a sum and a custom op, of any number of rows."""
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 8), shape_signature=(-1, 8))
    y = b.tensor("y", "float32", (1, 8), shape_signature=(-1, 8))
    z = b.tensor("z", "float32", (1, 8), shape_signature=(-1, 8))
    b.output(b.custom("My", [b.op("ADD", [x, x], [y])], [z]))
    return save(b.build(), path)


def costs_of(path: str, costs: CostOptions) -> ModelCoverage:
    return find_coverage([path], fake(), costs).models[0]


def test_a_formula_for_an_op_that_the_model_lacks_is_reported(tmp_path: Path) -> None:
    costs = CostOptions({name: Formula("2*B") for name in ("My", "Mine")})
    (warning,) = costs_of(dynamic(tmp_path / "m.tflite"), costs).warnings
    assert warning == "--flops: the model has no op 'Mine'"


def test_dynamic_shapes_are_unknown_or_the_user_s(tmp_path: Path) -> None:
    path = dynamic(tmp_path / "m.tflite")
    unknown = costs_of(path, CostOptions())
    assert (unknown.num_unknown, unknown.arithmetic_share, unknown.operations) == (2, None, 0)
    known = costs_of(path, CostOptions(shapes={"x": (5, 8)}))
    assert known.ops[0].operations == 40 and known.ops[0].bytes == 2 * 40 * 4
    (warning,) = known.warnings
    assert "--shape" in warning and "the output shapes of My" in warning and "not known" in warning
    for shapes, words in (
        ({"x": (5, 9)}, "cannot have shape 5x9"),
        ({"q": (1,)}, "the model has no input 'q'"),
    ):
        wrong = costs_of(path, CostOptions(shapes=shapes))
        assert words in wrong.warnings[0] and wrong.num_unknown == 2


def test_a_bound_goes_to_the_models_that_have_such_a_tensor(tmp_path: Path) -> None:
    paths = [
        dynamic(tmp_path / "dynamic.tflite"),
        save(build_chain("My"), tmp_path / "static.tflite"),
    ]

    def bounded(name: str, *shape: int) -> ApplyOptions:
        return replace(ALL, compiler=replace(ALL.compiler, shape_bounds={name: shape}))

    models = find_coverage(paths, bounded("x", 5, 8)).models
    assert not any(model.problem for model in models)
    models = find_coverage(paths, bounded("x", 5, 9)).models
    assert (
        "the shape bound 5x9 does not fit tensor 'x' of type tensor<?x8xf32>" in models[0].problem
        and not models[1].problem
    )
    with pytest.raises(LiteRtError, match="no model has a tensor 't0'") as error:
        find_coverage(paths, bounded("t0", 5))  # t0 has a fixed shape
    assert error.value.status is Status.INVALID_TOOL_CONFIG and "x." in error.value.hint


def test_a_custom_op_s_arithmetic_is_the_user_s(tmp_path: Path) -> None:
    path = save(build_chain("My", "Other"), tmp_path / "m.tflite")
    model = costs_of(path, CostOptions({"My": Formula("2*B*INPUT0_SHAPE[0]")}))
    assert [op.operations for op in model.ops] == [2 * 4 * 4, None]
    wrong = costs_of(path, CostOptions({"My": Formula("INPUT3_DIMS[0]")}))
    assert "INPUT3_DIMS[0]" in wrong.problem


def test_folders_are_searched_and_each_file_is_taken_once(tmp_path: Path) -> None:
    for name in ("b.tflite", "sub/a.tflite", "sub/deep/c.tflite", "other.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "sub" / "deep" / "loop").symlink_to(tmp_path)
    (tmp_path / "same.tflite").symlink_to(tmp_path / "b.tflite")
    (tmp_path / "gone.tflite").symlink_to(tmp_path / "nowhere")
    found = find_models([str(tmp_path / "sub" / "a.tflite"), str(tmp_path), str(tmp_path)])
    names = [str(Path(path).relative_to(tmp_path)) for path in found]
    assert names == ["sub/a.tflite", "b.tflite", "sub/deep/c.tflite"]


@pytest.mark.parametrize("case", ["empty", "none"])
def test_a_path_without_models_is_an_error(case: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(LiteRtError) as error:
        find_models([str(tmp_path / case)])
    assert error.value.status is Status.NOT_FOUND and case in str(error.value)
