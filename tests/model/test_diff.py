"""Tests how two models are compared."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from litert.core.quantization import BlockwiseQuantization, Quantization
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.diff import diff_models
from litert.model.dispatch_op import DISPATCH_OP
from litert.model.graph import Appended, Buffer, Model, Op, OperatorCode, Tensor
from litert.model.positions import CONTROL_DEPENDENCIES_KEY
from litert.model.reader import read_model
from litert.model.subgraph_diff import Change, ModelDiff, SubgraphDiff
from litert.model.writer import to_bytes

F32 = ("float32", (1, 4))


def chain(
    ops: Sequence[str] = ("RELU", "ABS", "NEG"), *, named: bool = True, first: str = "x"
) -> Model:
    """Returns a chain of ops; `ADD` and `MUL` also read a constant."""
    b = ModelBuilder()
    x = b.input(first, *F32)
    for index, name in enumerate(ops):
        inputs = [x]
        if name in ("ADD", "MUL"):
            inputs.append(b.constant("c" if named else "", np.full(4, index, np.float32)))
        x = b.op(name, inputs, [(f"{name.lower()}{index}" if named else "", *F32)])
    b.output(x)
    b.signature("main", {"in": b.graph.inputs[0]}, {"out": x})
    b.metadata("note", b"text")
    return b.build()


def read(model: Model) -> Model:
    return read_model(to_bytes(model))


def compare(before: Model, after: Model) -> ModelDiff:
    """Compares two models after they are written and read."""
    return diff_models(read(before), read(after))


def main(diff: ModelDiff) -> SubgraphDiff:
    return diff.subgraphs[0]


def names(diff: SubgraphDiff) -> tuple[list[str], list[str], list[str]]:
    """Returns the names of the removed, added and changed ops."""
    return (
        [op.name for op in diff.removed],
        [op.name for op in diff.added],
        [op.after.name for op in diff.changed],
    )


def op_changes(diff: ModelDiff) -> list[Change]:
    """Returns the changes of the only changed op."""
    (found,) = main(diff).changed
    return list(found.changes)


@pytest.mark.parametrize("seed", range(60))
def test_a_model_that_was_written_again_is_the_same(
    random_model: Callable[[int], bytes], seed: int
) -> None:
    before = read_model(random_model(seed))
    after = read(read_model(random_model(seed)))
    assert diff_models(before, after).is_same


def test_the_order_of_tensors_and_shared_data_make_no_difference() -> None:
    before, after = chain(["ADD", "MUL"]), chain(["ADD", "MUL"])
    after.subgraphs[0].tensors.reverse()
    after.buffers.insert(1, after.buffers.pop())
    for model in (before, after):
        for op in model.ops():
            constant = op.inputs[1]
            assert constant is not None
            constant.buffer.blob = Blob(bytes(16))
    first, second = (op.inputs[1] for op in after.ops())
    assert first and second
    second.buffer = first.buffer
    after.buffers = [after.buffers[0], first.buffer, after.metadata[0].buffer]
    diff = compare(before, after)
    assert diff.is_same and diff.data_before == diff.data_after + 16


@pytest.mark.parametrize("named", [True, False], ids=["named", "without names"])
@pytest.mark.parametrize(
    ("before", "after", "gone", "new"),
    [
        (["RELU", "ABS", "NEG"], ["RELU", "NEG"], ["ABS"], []),
        (["RELU", "NEG"], ["RELU", "ABS", "NEG"], [], ["ABS"]),
        (["RELU", "ABS", "NEG"], ["RELU", "FLOOR", "NEG"], ["ABS"], ["FLOOR"]),
        (["ABS"], ["NEG"], ["ABS"], ["NEG"]),
        (["RELU", "ABS", "EXP", "NEG"], ["SIN", "ABS", "COS", "EXP", "NEG"], ["RELU"],
         ["SIN", "COS"]),
    ],
    ids=["removed", "added", "replaced", "nothing left", "two places"],
)  # fmt: skip
def test_ops_that_came_and_went_are_told_with_and_without_names(
    named: bool, before: list[str], after: list[str], gone: list[str], new: list[str]
) -> None:
    removed, added, _ = names(main(compare(chain(before, named=named), chain(after, named=named))))
    assert (removed, added) == (gone, new)


def test_ops_of_one_kind_that_have_neither_name_nor_input_in_common_are_different_ones() -> None:
    before, after = ModelBuilder(), ModelBuilder()
    for builder in (before, after):
        x = builder.input("x", "float32", (4,))
        first, second = ("EXP", "MUL") if builder is before else ("MUL", "SIN")
        inputs = [x] if builder is before else [x, builder.constant("half", 0.5, "float32")]
        a = builder.op(first, inputs, [(f"{first}/a", "float32", (4,))])
        b = builder.op(second, [a, a][: 1 + (second == "MUL")], [(f"{second}/b", "float32", (4,))])
        builder.output(builder.op("RELU", [b], [("y", "float32", (4,))]))
    (diff,) = diff_models(before.build(), after.build()).subgraphs
    assert [place.name for place in diff.removed] == ["EXP", "MUL"]
    assert [place.name for place in diff.added] == ["MUL", "SIN"]


def test_a_fused_activation_is_an_op_less_and_an_option_more() -> None:
    def model(fused: bool) -> Model:
        b = ModelBuilder()
        x, y = b.input("x", *F32), b.input("y", *F32)
        if fused:
            z = b.op("ADD", [x, y], [("r", *F32)], fused_activation_function="RELU")
        else:
            z = b.op("RELU", [b.op("ADD", [x, y], [("s", *F32)])], [("r", *F32)])
        b.output(b.op("ABS", [z], [("out", *F32)]))
        return b.build()

    diff = compare(model(False), model(True))
    assert names(main(diff)) == (["RELU"], [], ["ADD"])
    assert op_changes(diff) == [
        Change("fused_activation_function", '"NONE"', '"RELU"'),
        Change("output 0 name", '"s"', '"r"'),
    ]


def test_ops_that_run_in_another_order_are_counted() -> None:
    def model(*order: int) -> Model:
        b = ModelBuilder()
        x = b.input("x", *F32)
        b.output(*(b.op("ABS", [x], [(f"a{i}", *F32)]) for i in range(4)))
        ops = b.graph.ops
        b.graph.ops = [ops[i] for i in order]
        return b.build()

    diff = compare(model(0, 1, 2, 3), model(3, 0, 1, 2))
    assert main(diff).num_moved == 1 and not diff.is_same
    assert names(main(diff)) == ([], [], [])


def _version(model: Model, op: Op) -> None:
    op.code = OperatorCode(op.code.builtin_code, None, 2)
    model.operator_codes = [op.code]


def _retype(model: Model, op: Op) -> None:
    op.outputs[0].shape_signature = (-1, 4)


def _quantize(model: Model, op: Op) -> None:
    op.outputs[0].quantization = Quantization((0.5,), (3,))


def _constant(model: Model, op: Op) -> None:
    constant = op.inputs[1]
    assert constant is not None
    constant.buffer.blob = Blob(np.ones(4, np.float32).tobytes())


def _rewire(model: Model, op: Op) -> None:
    op.set_input(1, model.subgraphs[0].inputs[0])


def _leave_out(model: Model, op: Op) -> None:
    op.set_input(1, None)


@pytest.mark.parametrize(
    ("edit", "change"),
    [
        (_version, Change("version", "1", "2")),
        (_retype, Change("output 0 type", "tensor<1x4xf32>", "tensor<?x4xf32, #tfl.shape<1x4>>")),
        (_quantize, Change("output 0 type", "tensor<1x4xf32>",
                           "tensor<1x4x!quant.uniform<f32:f32, 0.5:3>>")),
        (_constant, Change("input 1 data", "dense<[0.0, 0.0, 0.0, 0.0]>",
                           "dense<[1.0, 1.0, 1.0, 1.0]>")),
        (_rewire, Change("input 1", '"c" dense<[0.0, 0.0, 0.0, 0.0]>', '"x"')),
        (_leave_out, Change("input 1", '"c" dense<[0.0, 0.0, 0.0, 0.0]>', "")),
    ],
    ids=["version", "shape", "quantization", "constant", "another input", "an input left out"],
)  # fmt: skip
def test_what_changed_in_an_op_is_told(edit: Callable[[Model, Op], None], change: Change) -> None:
    before, after = chain(["ADD"]), chain(["ADD"])
    edit(after, after.subgraphs[0].ops[0])
    assert op_changes(compare(before, after)) == [change]


def test_large_constants_are_told_by_digest() -> None:
    def model(value: float) -> Model:
        b = ModelBuilder()
        w = b.constant("w", np.full((1, 100), value, np.float32))
        x = b.input("x", "float32", (1, 100))
        b.output(b.op("MUL", [x, w], [("y", "float32", (1, 100))]))
        return b.build()

    (change,) = op_changes(compare(model(1), model(2)))
    assert change.what == "input 1 data" and change.before != change.after
    assert change.before.startswith("#tfl.bytes<400, sha256:")


def test_a_constant_that_many_ops_read_is_told_once() -> None:
    def model(value: float) -> Model:
        b = ModelBuilder()
        x, w = b.input("x", *F32), b.constant("w", value, "float32")
        for index in range(5):
            x = b.op("MUL", [x, w], [(f"y{index}", *F32)])
        b.output(x)
        return b.build()

    diff = compare(model(1), model(2))
    assert op_changes(diff) == [Change("input 1 data", "dense<1.0>", "dense<2.0>")]


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({"a": 1, "b": 2.5}, {"a": 1, "b": 3.5, "c": "x"},
         [Change("b", "2.5", "3.5"), Change("c", "", '"x"')]),
        (b"\1\0", b"\2\0", [Change("custom_options", '"0x0100"', '"0x0200"')]),
        (None, b"\2\0", [Change("custom_options", "", '"0x0200"')]),
    ],
    ids=["FlexBuffer", "C struct", "none before"],
)  # fmt: skip
def test_custom_options_are_told_by_key(
    before: dict[str, float] | bytes, after: dict[str, float] | bytes, changes: list[Change]
) -> None:
    models = []
    for options in (before, after):
        b = ModelBuilder()
        b.output(b.custom("MyOp", [b.input("x", *F32)], [("y", *F32)], options=options))
        models.append(b.build())
    assert op_changes(compare(*models)) == changes


def test_scales_in_a_tensor_of_their_own_are_compared() -> None:
    def model(scale: float) -> Model:
        b = ModelBuilder()
        scales = b.constant("scales", np.full(2, scale, np.float32), is_external=False)
        blocks = Quantization(blockwise=BlockwiseQuantization(scales, block_size=2))
        w = b.constant("w", bytes(4), "int8", (1, 4), quantization=blocks)
        b.output(b.op("DEQUANTIZE", [w], [("y", *F32)]))
        return b.build()

    assert compare(model(1), model(1)).is_same
    (change,) = op_changes(compare(model(1), model(2)))
    assert change.what == "input 0 scales data"


def _drop_signature(model: Model) -> None:
    model.signatures = []


def _rename_argument(model: Model) -> None:
    model.signatures[0].outputs[0] = ("other", model.signatures[0].outputs[0][1])


def _other_output(model: Model) -> None:
    model.signatures[0].outputs[0] = ("out", model.subgraphs[0].ops[0].outputs[0])


def _describe(model: Model) -> None:
    model.description = "new"


def _metadata(model: Model) -> None:
    model.metadata[0].buffer.blob = Blob(b"other")


def _more_metadata(model: Model) -> None:
    model.set_metadata(CONTROL_DEPENDENCIES_KEY, Blob(b"\1\0"))


def _unused_code(model: Model) -> None:
    model.operator_codes.append(OperatorCode(32, "Unused"))


def _unused_data(model: Model) -> None:
    model.buffers.append(Buffer(Blob(bytes(5))))


def _trailing(model: Model) -> None:
    model.trailing = Blob(b"PK")


@pytest.mark.parametrize(
    ("edit", "change"),
    [
        (_drop_signature, Change('signature "main"', '("in" = "x") -> ("out" = "neg2")', "")),
        (_rename_argument, Change('signature "main" outputs', '"out" = "neg2"',
                                  '"other" = "neg2"')),
        (_other_output, Change('signature "main" outputs', '"out" = "neg2"', '"out" = "relu0"')),
        (_describe, Change("description", "", '"new"')),
        (_metadata, Change('metadata "note"', '"text"', '"other"')),
        (_more_metadata, Change(f'metadata "{CONTROL_DEPENDENCIES_KEY}"', "", '"0x0100"')),
        (_unused_code, Change("unused operator code", "", "Unused")),
        (_unused_data, Change("bytes of unused data", "0", "5")),
        (_trailing, Change("trailing bytes", "", "#tfl.bytes<2, sha256:")),
    ],
    ids=lambda value: value.__name__[1:] if callable(value) else "",
)  # fmt: skip
def test_what_belongs_to_no_op_is_told(edit: Callable[[Model], None], change: Change) -> None:
    before, after = chain(), chain()
    edit(after)
    diff = diff_models(before, after)
    assert main(diff).is_same
    (found,) = diff.changes
    if change.after.endswith(":"):
        found = replace(found, after=found.after[: len(change.after)])
    assert found == change


def test_a_zip_behind_a_model_that_grew_is_the_same() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("labels.txt", "a\nb\n")
    before, after = read(chain()), read(chain())
    other = read(chain())
    for model, padding in ((before, 0), (after, 5000), (other, 5000)):
        model.trailing = Blob(archive.getvalue())
        model.set_metadata("more", Blob(bytes(padding)))
    changed = bytearray(archive.getvalue())
    changed[changed.index(b"a\nb")] = ord("c")
    other.trailing = Blob(bytes(changed))
    assert [c.what for c in compare(before, after).changes] == ['metadata "more"']
    assert [c.what for c in compare(before, other).changes] == [
        'metadata "more"', "trailing bytes",
    ]  # fmt: skip


def test_a_tensor_that_nothing_uses_is_told() -> None:
    before, after = chain(), chain()
    buffer = after.buffers[0]
    after.subgraphs[0].tensors.append(Tensor("loose", before.subgraphs[0].inputs[0].element_type,
                                             (2,), buffer))  # fmt: skip
    assert main(compare(before, after)).changes == [Change("unused tensor", "", '"loose"')]


def test_inputs_that_changed_places_are_told() -> None:
    def model(*inputs: str) -> Model:
        b = ModelBuilder()
        made = {name: b.input(name, *F32) for name in inputs}
        b.output(b.op("SUB", [made["a"], made["b"]], [("y", *F32)]))
        return b.build()

    diff = main(compare(model("a", "b"), model("b", "a")))
    assert not diff.changed
    assert diff.changes == [Change("inputs", '"a", "b"', '"b", "a"')]


def test_subgraphs_are_found_by_name() -> None:
    def model(*branches: str) -> Model:
        b = ModelBuilder()
        b.output(b.op("ABS", [b.input("x", *F32)], [("y", *F32)]))
        for name in branches:
            s = b.subgraph(name)
            s.output(s.op(name, [s.input("x", *F32)], [("y", *F32)]))
        return b.build()

    diff = compare(model("EXP", "NEG", "SIN"), model("SIN", "EXP"))
    assert [(s.before, s.after) for s in diff.subgraphs] == [(0, 0), (3, 1), (1, 2), (2, -1)]
    assert [s.is_same for s in diff.subgraphs] == [True, True, True, False]


def test_a_call_is_compared_by_its_byte_code_and_not_by_its_place() -> None:
    def compiled(code: bytes, note: bytes) -> Model:
        b = ModelBuilder()
        b.output(b.custom(DISPATCH_OP, [b.input("x", *F32)], [("y", *F32)]))
        b.metadata("note", note)
        model = b.build()
        model.byte_code.append(Appended(Blob(code), [(model.subgraphs[0].ops[0], "Partition_0")]))
        return model

    short, long = compiled(b"code", b""), compiled(b"code", bytes(5000))
    assert main(compare(short, long)).is_same
    other = compare(short, compiled(b"CODE", b""))
    assert [change.what for change in op_changes(other)] == ["byte_code"]
    assert [change.what for change in other.changes] == ["byte code", "byte code"]


def test_a_value_that_became_a_constant_is_told_where_it_is_read() -> None:
    def model(folded: bool) -> Model:
        b = ModelBuilder()
        x, w = b.input("x", *F32), b.constant("w", np.ones(4, np.float16))
        wide = (
            b.constant("wide", np.ones(4, np.float32))
            if folded
            else b.op("DEQUANTIZE", [w], [("wide", "float32", (4,))])
        )
        b.output(b.op("MUL", [x, wide], [("y", *F32)]))
        return b.build()

    diff = compare(model(False), model(True))
    assert names(main(diff)) == (["DEQUANTIZE"], [], ["MUL"])
    assert op_changes(diff) == [
        Change("input 1", '"wide" of op 0', '"wide" dense<[1.0, 1.0, 1.0, 1.0]>')
    ]


def test_numbers_that_are_none_do_not_differ_from_themselves() -> None:
    def model() -> Model:
        b = ModelBuilder()
        x = b.input("x", *F32, quantization=Quantization((float("nan"),), (0,)))
        b.output(b.op("LEAKY_RELU", [x], [("y", *F32)], alpha=float("nan")))
        return b.build()

    assert compare(model(), model()).is_same


def test_data_that_did_not_change_place_are_not_read() -> None:
    class Untouched(Blob):
        @property
        def view(self) -> memoryview:
            raise AssertionError("read")

    before, after = chain(["ADD", "ABS"]), chain(["ADD", "NEG"])
    blob = Untouched(bytes(16))
    for model in (before, after):
        constant = model.subgraphs[0].ops[0].inputs[1]
        assert constant is not None
        constant.buffer.blob = blob
    assert names(main(diff_models(before, after))) == (["ABS"], ["NEG"], [])


def test_ten_thousand_ops_without_names_take_as_many_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = [0]
    get = Op.inputs.fget  # type: ignore[attr-defined]

    def inputs(op: Op) -> Sequence[Tensor | None]:
        counted[0] += 1
        found: Sequence[Tensor | None] = get(op)
        return found

    monkeypatch.setattr(Op, "inputs", property(inputs))
    steps = []
    for length in (500, 1000):
        before = chain(["ABS", "NEG", "ABS", "EXP"] * length, named=False)
        after = chain(["ABS", "NEG", "ABS", "SIN"] * length, named=False)
        counted[0] = 0
        diff = main(diff_models(before, after))
        assert len(diff.removed) == len(diff.added) == length
        steps.append(counted[0])
    assert steps[1] < 2.2 * steps[0]
