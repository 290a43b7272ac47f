"""Tests the whole way from a model and a plugin to a compiled file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler_plugin.commands import compile_model, copy_model, list_plugins, partition_model
from compiler_plugin.pipeline import ApplyOptions, apply_in_memory, apply_plugin
from compiler_plugin.report import NO_OUTPUTS, Report
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.model.assets import read_assets
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.dispatch_op import is_dispatch_op
from litert.model.graph import Model
from litert.model.manifest import find_mismatches, read_manifest
from litert.model.reader import read_model
from litert.model.stamp import STAMP_KEY, Stamp, read_stamp
from litert.model.writer import to_bytes, write_model

Options = Callable[..., ApplyOptions]
Chain = Callable[..., Path]


def ops(model: Model, subgraph: int = 0) -> list[str]:
    return [op.name for op in model.subgraphs[subgraph].ops]


def calls(model: Model) -> list[tuple[str, str]]:
    """Returns the function name and byte code of each NPU call, in run order."""
    found = {
        op: (name, bytes(module.blob).decode())
        for module in model.byte_code
        for op, name in module.users
    }
    return [found[op] for op in model.ops() if is_dispatch_op(op)]


def reasons(report: Report) -> dict[str, str]:
    return {op.name: op.reason for op in report.cpu_ops}


def test_a_model_is_compiled_into_one_file(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    output = tmp_path / "out.bin"
    report = apply_plugin(chain("A", "B", "C"), output, fake_options(fake_ops="A,B"))
    with read_model(output) as model:
        assert ops(model) == ["DISPATCH_OP", "C"]
        assert calls(model) == [("Partition_0_on_F1", "FAKE\nPartition_0: ['A', 'B']")]
        assert read_stamp(model) == Stamp("Fake", "F1")
        manifest = read_manifest(model)
    assert manifest and manifest.plugin_sdk_version == "9.8.7"
    assert manifest.flags == {"fake_ops": "A,B"}
    assert [op.name for op in report.npu_ops] == ["A", "B"]
    assert reasons(report) == {"C": "a custom op that Fake does not know"}
    assert report.output_size == output.stat().st_size
    assert report.notes == ["compiled 1"]


def test_calls_share_a_module_of_byte_code(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    output = tmp_path / "out.bin"
    report = apply_plugin(chain("A", "B", "A"), output, fake_options(fake_ops="A"))
    with read_model(output) as model:
        found = calls(model)
        assert len(model.byte_code) == 1
    assert [name for name, _ in found] == ["Partition_0_on_F1", "Partition_1_on_F1"]
    assert found[0][1] == found[1][1]
    assert [call.module for call in report.calls] == [0, 0]


def test_the_same_input_gives_the_same_bytes(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    source = chain("A", "B", "A")
    outputs = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        apply_plugin(source, folder / "out.bin", fake_options(fake_ops="A"))
        outputs.append((folder / "out.bin").read_bytes())
    assert outputs[0] == outputs[1]


def test_a_refused_partition_is_compiled_alone_and_then_in_halves(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    output = tmp_path / "out.bin"
    source = chain("A", "B", "C", "D", "E", "Cpu", "F")
    report = apply_plugin(
        source, output, fake_options(fake_ops="A,B,C,D,E,F", fake_max_ops="2", fake_refuse="B")
    )
    assert reasons(report) == {
        "B": "no B today (Partition_0_0_0_1)",
        "Cpu": "a custom op that Fake does not know",
    }
    with read_model(output) as model:
        assert ops(model) == [
            "DISPATCH_OP",
            "B",
            "DISPATCH_OP",
            "DISPATCH_OP",
            "Cpu",
            "DISPATCH_OP",
        ]
        byte_code = [code.splitlines()[1] for _, code in calls(model)]
    assert byte_code == [
        "Partition_0_0_0_0: ['A']",
        "Partition_0_0_1: ['C']",
        "Partition_0_1: ['D', 'E']",
        "Partition_1: ['F']",
    ]


def test_a_model_of_which_all_is_refused_is_stamped_all_the_same(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    output = tmp_path / "out.bin"
    report = apply_plugin(chain("A", "B"), output, fake_options(fake_max_ops="0"))
    assert reasons(report) == {
        "A": "1 ops (Partition_0_0)",
        "B": "1 ops (Partition_0_1)",
    }
    assert report.warnings == ["no op went to the NPU"]
    with read_model(output) as model:
        assert ops(model) == ["A", "B"]
        assert read_stamp(model) == Stamp("Fake", "F1")


def test_other_errors_of_the_compiler_end_the_command(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    output = tmp_path / "out.bin"
    output.write_text("old")
    with pytest.raises(LiteRtError) as error:
        apply_plugin(chain("A"), output, fake_options(fake_mode="compile_fails"))
    assert str(error.value) == (
        "COMPILATION: line 3 is wrong (my.cl; vendor 'Fake', in compile). Repair it."
    )
    assert output.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == ["out.bin"]


def test_the_largest_partitions_stay_where_there_is_a_limit(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    source = chain("A", "Cpu", "B", "B", "Cpu", "C")
    report = apply_plugin(
        source, tmp_path / "out.bin", fake_options(fake_ops="A,B,C", max_partitions=1)
    )
    assert [op.name for op in report.npu_ops] == ["B", "B"]
    assert reasons(report)["A"] == (
        "the op's partition is one of the smallest: there are 3 partitions, "
        "and --compiler_options_max_partitions is 1"
    )


def test_the_limit_holds_for_what_a_refused_partition_becomes(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    options = fake_options(fake_max_ops="2", max_partitions=2)
    report = apply_plugin(chain("A", "B", "C", "D", "E"), tmp_path / "out.bin", options)
    assert [op.name for op in report.npu_ops] == ["A", "B", "D", "E"]
    assert reasons(report) == {
        "C": "the op's partition is one of the smallest: there are 3 partitions, "
        "and --compiler_options_max_partitions is 2"
    }
    with read_model(tmp_path / "out.bin") as model:
        assert len(model.byte_code) == len(calls(model)) == 2


def two_subgraphs(path: Path) -> Path:
    b = ModelBuilder()
    b.output(b.custom("A", [b.input("x", "float32", (4,))], [("y", "float32", (4,))]))
    b.signature("one")
    other = b.subgraph("other")
    x = other.input("x2", "float32", (4,))
    other.output(other.custom("A", [x], [("y2", "float32", (4,))]))
    other.signature("two")
    write_model(b.build(), path)
    return path


def test_each_subgraph_is_compiled_and_signatures_survive(
    fake_options: Options, tmp_path: Path
) -> None:
    output = tmp_path / "out.bin"
    apply_plugin(two_subgraphs(tmp_path / "in.tflite"), output, fake_options())
    with read_model(output) as model:
        assert [ops(model, i) for i in range(2)] == [["DISPATCH_OP"]] * 2
        assert [name for name, _ in calls(model)] == ["Partition_0_on_F1", "Partition_1_on_F1"]
        assert [(s.key, s.outputs[0][0], s.outputs[0][1].name) for s in model.signatures] == [
            ("one", "y", "y"),
            ("two", "y2", "y2"),
        ]


def test_chosen_subgraphs_alone_are_compiled(fake_options: Options, tmp_path: Path) -> None:
    output = tmp_path / "out.bin"
    source = two_subgraphs(tmp_path / "in.tflite")
    report = apply_plugin(source, output, fake_options(subgraphs=[1]))
    assert [(op.subgraph, op.reason) for op in report.cpu_ops] == [
        (0, "--subgraphs does not select subgraph 0 for compilation")
    ]
    with pytest.raises(LiteRtError, match="subgraph index 2 is out of range: the 2 subgraphs"):
        apply_plugin(source, tmp_path / "other.bin", fake_options(subgraphs=[2]))


def test_assets_and_companions_are_embedded_byte_for_byte(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    folder = tmp_path / "assets, with a comma"
    (folder / "b").mkdir(parents=True)
    files = {"my kernel.cl": b"kernel\0\xff", "a.h": b"header", "b/c.h": b""}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    output = tmp_path / "out.bin"
    report = apply_plugin(
        chain("A"),
        output,
        fake_options(assets={"A": folder / "my kernel.cl"}, fake_companions="a.h,b/c.h"),
    )
    with read_model(output) as model:
        assets = read_assets(model)
        found = {asset.name: bytes(asset.blob) for asset in assets}
        manifest = read_manifest(model)
        assert manifest and not find_mismatches(manifest, assets, [m.blob for m in model.byte_code])
    assert found == {"A": b"kernel\0\xff", "A/a.h": b"header", "A/b/c.h": b""}
    assert [(asset.name, asset.size) for asset in report.assets] == [
        ("A", 8),
        ("A/a.h", 6),
        ("A/b/c.h", 0),
    ]
    assert str(tmp_path).encode() not in output.read_bytes()


def test_an_asset_for_an_op_that_the_model_lacks_is_a_warning(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    (tmp_path / "k.cl").write_bytes(b"kernel")
    output = tmp_path / "out.bin"
    report = apply_plugin(chain("A"), output, fake_options(assets={"Other": tmp_path / "k.cl"}))
    assert report.warnings == [
        "an asset is given for op 'Other', but the model has no such op; the asset is still embedded"
    ]
    with read_model(output) as model:
        assert [asset.name for asset in read_assets(model)] == ["Other"]


def test_a_model_without_outputs_is_a_warning(fake_options: Options, tmp_path: Path) -> None:
    builder = ModelBuilder()
    builder.custom("A", [builder.input("x", "float32", (1,))], [("y", "float32", (1,))])
    source = tmp_path / "m.tflite"
    write_model(builder.build(), source)
    report = apply_plugin(source, tmp_path / "out.bin", fake_options(fake_ops="A"))
    assert report.warnings == [NO_OUTPUTS]


def test_an_asset_for_a_name_in_other_capitals_is_told_of(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    (tmp_path / "k.cl").write_bytes(b"k")
    options = fake_options(assets={"relu": tmp_path / "k.cl"}, fake_ops="A")
    report = apply_plugin(chain("A", "RELU"), tmp_path / "out.bin", options)
    assert report.warnings == [
        "an asset is given for op 'relu', but the model has no such op (did you mean 'RELU'?); "
        "the asset is still embedded"
    ]


def test_an_asset_for_a_name_that_is_nearly_an_op_s_is_told_of(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    (tmp_path / "k.cl").write_bytes(b"k")
    options = fake_options(assets={"LEAKYRELU": tmp_path / "k.cl"}, fake_ops="A")
    report = apply_plugin(chain("A", "LEAKY_RELU"), tmp_path / "out.bin", options)
    assert report.warnings == [
        "an asset is given for op 'LEAKYRELU', but the model has no such op (did you mean 'LEAKY_RELU'?); "
        "the asset is still embedded"
    ]


def test_an_asset_whose_op_stays_on_the_cpu_is_a_warning(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    (tmp_path / "k.cl").write_bytes(b"kernel")
    options = fake_options(assets={"A": tmp_path / "k.cl"}, fake_ops="B")
    report = apply_plugin(chain("A", "B", "A"), tmp_path / "out.bin", options)
    assert report.warnings == [
        "2 ops 'A' stay on the CPU, although an asset is given: a custom op that Fake does not know"
    ]


def test_one_op_and_one_byte_are_told_of_as_one(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    (tmp_path / "k.cl").write_bytes(b"k")
    options = fake_options(assets={"A": tmp_path / "k.cl"}, fake_ops="B")
    report = apply_plugin(chain("A", "B"), tmp_path / "out.bin", options)
    assert report.warnings == [
        "1 op 'A' stays on the CPU, although an asset is given: a custom op that Fake does not know"
    ]
    report.modules = [1]
    text = report.to_text()
    assert "NPU: 1 of 2 ops in 1 call, 1 byte of byte code" in text
    assert f"  A: 1 byte, from {tmp_path / 'k.cl'}\n" in text


@pytest.mark.parametrize("kind", ["missing", "a folder", "a pipe"])
def test_an_asset_that_cannot_be_read_is_named(
    chain: Chain, fake_options: Options, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "k.cl"
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    with pytest.raises(LiteRtError) as error:
        apply_plugin(chain("A"), tmp_path / "out.bin", fake_options(assets={"A": path}))
    expected = Status.NOT_FOUND if kind == "missing" else Status.INVALID_ARGUMENT
    assert error.value.status is expected
    assert "asset file of op 'A'" in str(error.value) and str(path) in str(error.value)
    assert not (tmp_path / "out.bin").exists()


def test_an_op_that_is_required_on_the_npu_may_not_stay(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    source, output = chain("A", "B"), tmp_path / "out.bin"
    apply_plugin(source, output, fake_options(fake_ops="A", require_npu=["A"]))
    for required in ("B", "all"):
        with pytest.raises(LiteRtError) as error:
            apply_plugin(source, tmp_path / "x", fake_options(fake_ops="A", require_npu=[required]))
        assert error.value.status is Status.UNSUPPORTED
        what = "--require_npu requires the NPU for op B, but the op stays on the CPU"
        assert error.value.what == what
        assert error.value.hint.startswith("Reason: a custom op that Fake does not know. ")
    with pytest.raises(LiteRtError, match="names op 'Typo', but the model has no such op"):
        apply_plugin(source, tmp_path / "x", fake_options(require_npu=["Typo"]))
    with pytest.raises(
        LiteRtError, match=r"for op B, .*Reason: a custom op that Fake does not know"
    ):
        partition_model(source, tmp_path / "x", fake_options(fake_ops="A", require_npu=["all"]))
    assert not (tmp_path / "x").exists()


def test_a_compiled_model_is_not_compiled_again(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    apply_plugin(chain("A"), tmp_path / "out.bin", fake_options())
    with pytest.raises(LiteRtError, match="already compiled for Fake's SoC F1"):
        apply_plugin(tmp_path / "out.bin", tmp_path / "again.bin", fake_options())
    with read_model(tmp_path / "out.bin") as model:
        model.set_metadata(STAMP_KEY, Blob(b"a stamp of another size"))
        write_model(model, tmp_path / "old.bin")
    with pytest.raises(LiteRtError, match="already compiled"):
        apply_plugin(tmp_path / "old.bin", tmp_path / "again.bin", fake_options())


@pytest.mark.parametrize("command", [apply_plugin, partition_model, compile_model])
def test_a_model_without_a_subgraph_is_refused(
    fake_options: Options, tmp_path: Path, command: Callable[..., object]
) -> None:
    write_model(Model(), tmp_path / "empty.tflite")
    with pytest.raises(LiteRtError, match="the model has no subgraph") as error:
        command(tmp_path / "empty.tflite", tmp_path / "out.bin", fake_options())
    assert error.value.status is Status.INVALID_FLATBUFFER
    assert not (tmp_path / "out.bin").exists()


def test_the_output_is_none_of_the_inputs(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    source = chain("A")
    before = source.read_bytes()
    kernel = tmp_path / "k.cl"
    kernel.write_bytes(b"kernel")
    (tmp_path / "link").symlink_to(source)
    (tmp_path / "hard").hardlink_to(source)
    for output in (source, tmp_path / "link", tmp_path / "hard", kernel, tmp_path):
        with pytest.raises(LiteRtError) as error:
            apply_plugin(source, output, fake_options(assets={"A": kernel}))
        assert error.value.status is Status.INVALID_ARGUMENT
    with pytest.raises(LiteRtError, match="the directory of the output does not exist"):
        apply_plugin(source, tmp_path / "no" / "out.bin", fake_options())
    assert source.read_bytes() == before and kernel.read_bytes() == b"kernel"


def test_the_output_is_no_companion_of_an_asset(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "A.json").write_bytes(b"asset")
    (folder / "A.h").write_bytes(b"header")
    (tmp_path / "linked.json").symlink_to(folder / "A.json")
    (tmp_path / "A.h").symlink_to(folder / "A.h")
    for asset in (folder / "A.json", tmp_path / "linked.json"):
        options = fake_options(assets={"A": asset}, fake_companions="A.h")
        with pytest.raises(
            LiteRtError, match=r"the output file (is also an input file|and the input file) .*A\.h"
        ):
            apply_plugin(chain("A"), folder / "A.h", options)
    assert (folder / "A.h").read_bytes() == b"header"


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("create_raises", "vendor 'Fake', in create, at"),
        ("create_none", "(NoneType) has no method 'partition'"),
        ("create_half", "(FakePlugin) has no method 'companions'"),
        ("transform_raises", "KeyError: 'missing' (vendor 'Fake', in transform, at"),
        (
            "transform_none",
            "the plugin's transform returns NoneType, not a mapping (vendor 'Fake', in transform)",
        ),
        (
            "transform_count",
            "the plugin's transform returns the invalid entry 't': -1; "
            "an entry must map a name to the number of matches, at least 0",
        ),
        ("partition_raises", "ZeroDivisionError: of the fake (vendor 'Fake', in partition, at"),
        ("partition_exits", "SystemExit: 3 (vendor 'Fake', in partition"),
        ("partition_twice", "the plugin passed op 0 (A) of subgraph 0 to op_list.push twice"),
        (
            "partition_foreign",
            "the plugin passed Op(Foreign) to op_list.push, but subgraph 0 has no such op",
        ),
        (
            "partition_text",
            "the plugin passed 'CONV_2D' to op_list.push, but subgraph 0 has no such op",
        ),
        (
            "partition_index",
            "the plugin passed partition index -1 to op_list.push, but the index must be a whole number of "
            "at least 0",
        ),
        ("partition_list", "op_list.selected has type int, but must be a list or another sequence"),
        (
            "partition_bare",
            "op_list.selected contains an item of type Op, but each item must be of type Selection",
        ),
        (
            "partition_refusal",
            "op_list.refusals has the entry Op(A): 7; an entry must map an op of the subgraph to a string",
        ),
        (
            "partition_changes",
            "the plugin has changed the ops of subgraph 0",
        ),
        (
            "partition_returns",
            "the plugin's partition returns list, but must return None, and select ops with op_list.push",
        ),
        ("compile_raises", "KeyError: 'missing' (vendor 'Fake', in compile, at"),
        ("compile_none", "the plugin's compile returns NoneType, not a CompiledResult"),
        (
            "compile_count",
            "the plugin returns 0 NPU calls for 1 partition, but must return one NPU call for each partition",
        ),
        (
            "compile_index",
            "NPU call 'f' has byte code index 1, but the only byte code module has index 0",
        ),
        (
            "compile_bytes",
            "byte_code of the CompiledResult contains an item of type bytes, but each item must be of type Blob",
        ),
        ("compile_empty", "byte code module 0 is empty"),
        ("compile_name", "NPU call 0 has the invalid name ''"),
        ("compile_surrogate", "NPU call 0 has the invalid name '\\udc80'"),
        (
            "compile_shape",
            "NPU call 'f' has the invalid shape_outputs [1], because output index 1 is out of range: the only",
        ),
        (
            "companions_raises",
            "IndexError: list index out of range (vendor 'Fake', in companions, at",
        ),
        (
            "companions_text",
            "the list that companions returns has type str, but must be a list or another sequence",
        ),
        (
            "companions_outside",
            "'../secret' is not a plain relative path (asset of op 'A'; vendor 'Fake', in companions",
        ),
        ("companions_twice", "the plugin returns the companion file 'a.h' twice"),
        ("companions_bytes", "the plugin returns the invalid companion file Companion"),
    ],
)
def test_what_a_vendor_does_wrong_names_the_vendor_and_the_call(
    chain: Chain, fake_options: Options, tmp_path: Path, mode: str, says: str
) -> None:
    (tmp_path / "k.cl").write_bytes(b"kernel")
    output = tmp_path / "out.bin"
    output.write_text("old")
    with pytest.raises(LiteRtError) as error:
        apply_plugin(
            chain("A", "B"), output, fake_options(assets={"A": tmp_path / "k.cl"}, fake_mode=mode)
        )
    assert says in str(error.value)
    assert f"vendor 'Fake', in {mode.partition('_')[0]}" in str(error.value)
    assert output.read_text() == "old"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("order", "the plugin has changed the ops of subgraph 0"),
        ("tensors", "the plugin has changed the tensors of"),
        ("outputs", "the plugin has changed the name, inputs or outputs of"),
        ("code", "the plugin has changed op 1 (Renamed) of"),
        ("input", "the plugin has changed op 1 (B) of"),
        ("release", "the plugin has changed tensor 't0' of"),
        ("shape", "the plugin has changed tensor 't0' of"),
        ("quantization", "the plugin has changed tensor 't0' of"),
        ("buffer", "AttributeError"),
    ],
)
def test_a_vendor_may_not_change_the_model_that_it_is_asked_about(
    chain: Chain, fake_options: Options, tmp_path: Path, change: str, says: str
) -> None:
    options = fake_options(fake_mode="partition_vandal", fake_change=change)
    with pytest.raises(LiteRtError) as error:
        apply_plugin(chain("A", "B"), tmp_path / "out.bin", options)
    assert says in str(error.value) and "(vendor 'Fake', in partition)" in str(error.value)
    assert not (tmp_path / "out.bin").exists()


def test_a_vendor_may_look_at_all_that_it_is_asked_about(
    fake_options: Options, tmp_path: Path
) -> None:
    builder = ModelBuilder()
    quantization = Quantization([0.5], [3])
    x = builder.input("x", "int8", (4,), quantization=quantization)
    y = builder.op("RELU", [x], [builder.tensor("y", "int8", (4,), quantization=quantization)])
    builder.output(y)
    write_model(builder.build(), tmp_path / "in.tflite")
    report = apply_plugin(tmp_path / "in.tflite", "", fake_options(fake_mode="partition_looks"))
    assert [op.name for op in report.npu_ops] == ["RELU"]


def test_a_vendor_may_rewrite_the_model_as_graphs(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    options = fake_options(fake_mode="transform_edits", fake_ops="B")
    report = apply_plugin(chain("A", "B", "C"), tmp_path / "out.tflite", options)
    assert [(item.name, item.matches) for item in report.transformations] == [("no_a", 1)]
    assert [op.name for op in report.npu_ops] == ["B"]
    with read_model(tmp_path / "out.tflite") as model:
        assert ops(model) == ["DISPATCH_OP", "C"]


def test_a_vendor_may_rewrite_the_model_before_it_is_partitioned(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    source, output = chain("A", "B", "C"), tmp_path / "out.tflite"
    options = fake_options(fake_mode="transform_renames", fake_ops="B")
    report = apply_plugin(source, output, options)
    assert [op.name for op in report.npu_ops] == ["B", "B"]
    done = [(item.name, item.phase, item.matches) for item in report.transformations]
    assert done == [("a_to_b", "Fake", 1), ("b_to_c", "Fake", 0)]
    assert "a_to_b  Fake" in report.to_text()
    with read_model(output) as model:
        assert ops(model) == ["DISPATCH_OP", "C"]
    report = partition_model(source, output, options)
    assert [op.name for op in report.npu_ops] == ["B", "B"]


def test_a_vendor_that_cannot_close_is_told_of_and_its_file_is_good(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    output = tmp_path / "out.bin"
    report = apply_plugin(chain("A"), output, fake_options(fake_mode="close_raises"))
    assert "KeyError: 'closed' (vendor 'Fake', in close, at" in report.warnings[-1]
    with read_model(output) as model:
        assert ops(model) == ["DISPATCH_OP"]


def test_a_vendor_may_change_the_partitions_it_is_given(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    apply_plugin(
        chain("A", "B", "A"),
        tmp_path / "out.bin",
        fake_options(fake_ops="A", fake_mode="compile_vandal", max_partitions=1),
    )
    with read_model(tmp_path / "out.bin") as model:
        assert ops(model) == ["DISPATCH_OP", "B", "A"]
        assert [tensor.name for tensor in model.subgraphs[0].tensors] == ["x", "t0", "t1", "t2"]


def test_assets_that_are_machine_code_are_named(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    for name in "AB":
        (tmp_path / name).write_bytes(b"kernel")
    assets = {name: tmp_path / name for name in "AB"}
    options = fake_options(assets=assets, fake_mode="compile_native", fake_native="B")
    report = apply_plugin(chain("A", "B"), tmp_path / "out.bin", options)
    assert [(a.name, a.is_native) for a in report.assets] == [("A", False), ("B", True)]
    assert "B: 6 bytes" in report.to_text() and "allow_native_assets" in report.to_text()
    with read_model(tmp_path / "out.bin") as model:
        manifest = read_manifest(model)
    assert manifest and manifest.native_assets == ("B",)


def test_machine_code_of_no_asset_names_the_vendor(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    options = fake_options(fake_mode="compile_native", fake_native="Nobody")
    with pytest.raises(LiteRtError) as error:
        apply_plugin(chain("A"), tmp_path / "out.bin", options)
    assert "native_assets of the CompiledResult contains 'Nobody'" in str(
        error.value
    ) and "'Fake'" in str(error.value)


def test_byte_code_that_no_call_is_in_is_left_out(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    output = tmp_path / "out.bin"
    report = apply_plugin(chain("A"), output, fake_options(fake_mode="compile_unused"))
    assert report.warnings == [
        "byte code module 1 (8 bytes) is not stored, because no NPU call uses the module"
    ]
    assert b"left out" not in output.read_bytes()


def test_an_op_whose_results_nobody_reads_is_a_call_all_the_same(
    fake_options: Options, tmp_path: Path
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    b.custom("Dead", [b.custom("Dead", [x], [("c", "float32", (4,))])], [("d", "float32", (4,))])
    b.output(b.custom("A", [x], [("a", "float32", (4,))]))
    write_model(b.build(), tmp_path / "in.tflite")
    report = apply_plugin(tmp_path / "in.tflite", tmp_path / "out.bin", fake_options())
    assert reasons(report) == {}  # on the CPU, which lacks this op, the model could not run
    with read_model(tmp_path / "out.bin") as model:
        dead, alive = model.subgraphs[0].ops
        assert [tensor.name for tensor in (*dead.outputs, *alive.outputs)] == ["d", "a"]


def test_an_op_without_outputs_stays_on_the_cpu(fake_options: Options, tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    b.custom("Sink", [x], [])
    b.output(b.custom("A", [x], [("a", "float32", (4,))]))
    write_model(b.build(), tmp_path / "in.tflite")
    report = apply_plugin(tmp_path / "in.tflite", tmp_path / "out.bin", fake_options())
    assert reasons(report) == {
        "Sink": "the op has no output, but an NPU call needs at least one output"
    }


def test_a_subgraph_without_an_order_stays_on_the_cpu(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    with read_model(chain("A", "B")) as model:
        model.subgraphs[0].ops.reverse()
        write_model(model, tmp_path / "in.tflite")
    report = apply_plugin(tmp_path / "in.tflite", tmp_path / "out.bin", fake_options())
    assert {op.name: op.reason for op in report.cpu_ops}["A"] == (
        "tensor 't0' has an ambiguous value: op B reads the tensor before the tensor is written "
        "(op 0 of subgraph 'main')"
    )


def test_state_stays_on_the_cpu_whatever_a_vendor_takes(
    fake_options: Options, tmp_path: Path
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    body = b.subgraph("body")
    body.output(body.custom("A", [body.input("x", "float32", (4,))], [("y", "float32", (4,))]))
    b.output(b.op("CALL", [x], [("y", "float32", (4,))], subgraph=body))
    write_model(b.build(), tmp_path / "in.tflite")
    report = apply_plugin(tmp_path / "in.tflite", tmp_path / "out.bin", fake_options())
    assert reasons(report) == {
        "CALL": "the op runs other subgraphs, and an NPU call cannot contain subgraphs"
    }
    assert [op.name for op in report.npu_ops] == ["A"]


def test_partition_leaves_the_partitions_as_subgraphs(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    output = tmp_path / "out.tflite"
    report = partition_model(chain("A", "B", "C", "A"), output, fake_options(fake_ops="A,C"))
    with read_model(output) as model:
        assert [ops(model, i) for i in range(len(model.subgraphs))] == [
            ["DISPATCH_OP", "B", "DISPATCH_OP"],
            ["A"],
            ["C", "A"],
        ]
        assert not any(op.custom_options for op in model.ops())
        assert read_stamp(model) is None
    assert [call.name for call in report.calls] == ["Partition_0", "Partition_1"]


def test_partitions_that_are_subgraphs_share_the_models_constants(
    fake_options: Options, tmp_path: Path
) -> None:
    b = ModelBuilder()
    w = b.constant("w", np.arange(64, dtype=np.float32))
    x = b.input("x", "float32", (64,))
    a = b.custom("A", [x, w], [("a", "float32", (64,))])
    b.output(b.custom("B", [a, w], [("b", "float32", (64,))]))
    write_model(b.build(), tmp_path / "in.tflite")
    partition_model(tmp_path / "in.tflite", tmp_path / "out.tflite", fake_options(fake_ops="A"))
    data = np.arange(64, dtype=np.float32).tobytes()
    assert (tmp_path / "out.tflite").read_bytes().count(data) == 1


def test_compile_writes_the_byte_code_alone(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    output = tmp_path / "out.bin"
    report = compile_model(chain("A", "B"), output, fake_options(soc_model="F2", fake_ops="A"))
    assert output.read_bytes() == b"FAKE\nSubgraph_0: ['A', 'B']"
    assert [call.function_name for call in report.calls] == ["Subgraph_0_on_F2"]


def test_noop_copies_a_model(chain: Chain, tmp_path: Path) -> None:
    source = chain("A", "B")
    report = copy_model(source, tmp_path / "out.tflite")
    assert (tmp_path / "out.tflite").read_bytes() == source.read_bytes()
    assert report.to_text().startswith("Wrote ")


def test_nothing_is_written_where_no_output_is_named(chain: Chain, fake_options: Options) -> None:
    source = chain("A")
    for report in (
        apply_plugin(source, "", fake_options()),
        partition_model(source, "", fake_options()),
        compile_model(source, "", fake_options()),
        copy_model(source, ""),
    ):
        assert not report.output_path
        assert "Nothing was written" in report.to_text()
    assert list(source.parent.iterdir()) == [source]


def test_a_report_is_for_people_and_machines(
    chain: Chain, fake_options: Options, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    (tmp_path / "k.cl").write_bytes(b"kernel")
    report = apply_plugin(
        chain("A", "B", "A", "C"),
        tmp_path / "out.bin",
        fake_options(fake_ops="A,C", fake_refuse="C", assets={"A": tmp_path / "k.cl"}),
    )
    report.seconds, report.output_size = 0.25, 1234
    report.output_path = report.output_path.replace(str(tmp_path), "here")
    report.model_path = report.model_path.replace(str(tmp_path), "here")
    report.plugin = Path(report.plugin).name
    report.assets = [replace(asset, path="here/k.cl") for asset in report.assets]
    golden("report.txt", report.to_text() + "\n")
    golden("report.json", report.to_json() + "\n")
    document = json.loads(report.to_json())
    assert [op["name"] for op in document["ops"] if not op["call"]] == ["B", "C"]


def test_installed_plugins_and_those_of_folders_are_listed() -> None:
    infos = {info.soc_manufacturer: info for info in list_plugins()}
    assert infos["Reference"].soc_models[0] == "EMU8"
    assert infos["Null"].soc_models == ("NULL1",)


def test_a_model_in_memory_is_compiled_as_its_file_is(
    chain: Chain, fake_options: Options, tmp_path: Path
) -> None:
    source, output = chain("A", "B"), tmp_path / "out.bin"
    options = fake_options(fake_ops="A")
    report = apply_plugin(source, output, options)
    with apply_in_memory(source.read_bytes(), options) as (model, other):
        data, written = to_bytes(model), output.read_bytes()
        assert data[:16] + data[80:] == written[:16] + written[80:]  # only a file has a seal
    assert other.model_path == "model from a buffer"
    assert other.calls == report.calls
    with (
        pytest.raises(LiteRtError, match=r"already compiled.*\(model from a buffer\)"),
        apply_in_memory(output.read_bytes(), options),
    ):
        pass


@pytest.mark.parametrize(
    ("strategy", "taken"),
    [("default", [["A", "B"], ["A"]]), ("weakly_connected", [["A", "A"], ["B"]])],
)
def test_a_strategy_goes_before_a_plugin_s_own_grouping(
    fake_options: Options, tmp_path: Path, strategy: str, taken: list[list[str]]
) -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    first = b.custom("A", [x], [("a", "float32", (4,))])
    b.output(b.custom("B", [x], [("b", "float32", (4,))]))
    b.output(b.custom("Cpu", [x], [("c", "float32", (4,))]))
    b.output(b.custom("A", [first], [("d", "float32", (4,))]))
    source, output = tmp_path / "model.tflite", tmp_path / "out.tflite"
    write_model(b.build(), source)
    options = fake_options(fake_ops="A,B", fake_mode="grouping_runs")
    compiler = replace(options.compiler, partition_strategy=strategy)
    partition_model(source, output, replace(options, compiler=compiler))
    with read_model(output) as model:
        assert [ops(model, index) for index in (1, 2)] == taken
    apply_plugin(source, output, replace(options, compiler=compiler))
    with read_model(output) as model:
        manifest = read_manifest(model)
    assert manifest
    assert manifest.flags.get("partition_strategy") == (None if strategy == "default" else strategy)
