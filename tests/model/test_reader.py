from __future__ import annotations

import gc
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model import reader
from litert.model.assembler import Assembler
from litert.model.blob import Blob, MappedFile
from litert.model.dispatch_op import DISPATCH_OP
from litert.model.graph import Appended, Buffer, Model, Op, OperatorCode, Subgraph, Tensor
from litert.model.reader import read_model
from litert.model.schema_reader import read_metadata
from litert.model.table import Table
from litert.model.writer import to_bytes, write_model

Make = Callable[[int], bytes]


def small_model() -> Model:
    """Returns a model with one ADD, of the input `x` and a constant, and only the required fields."""
    model = Model(
        buffers=[Buffer(), Buffer(Blob(bytes(range(64))))], operator_codes=[OperatorCode(0)]
    )
    x, w, y = (Tensor(name, ElementType.FLOAT32, (1, 16), model.buffers[0]) for name in "xwy")
    w.buffer = model.buffers[1]
    op = Op(model.operator_codes[0], [x, w], [y], Table.make("AddOptions"))
    model.subgraphs = [Subgraph("main", [x, w, y], [x], [y], [op])]
    return model


def refusal(data: bytes) -> LiteRtError:
    """Returns the error that `data` cause in the reader or, if it accepts them, in the writer."""
    with pytest.raises(LiteRtError) as error:
        to_bytes(read_model(data))
    assert error.value.status is Status.INVALID_FLATBUFFER
    assert error.value.where and error.value.hint
    return error.value


def test_indices_become_objects() -> None:
    main = read_model(to_bytes(small_model())).subgraphs[0]
    (op,) = main.ops
    assert op.name == "ADD" and op.inputs == main.tensors[:2] and op.outputs == [main.tensors[2]]
    assert main.tensors[2].producer is op and main.tensors[0].uses == [op]
    assert main.tensors[1].is_constant and bytes(main.tensors[1].data) == bytes(range(64))
    assert str(main.tensors[0].type) == "tensor<1x16xf32>"


def test_a_file_is_mapped_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    write_model(small_model(), path)
    with read_model(path) as model:
        assert model.source is not None and model.source.is_open
        blob = model.buffers[1].blob
        assert blob is not None and blob.file is model.source
        assert path.read_bytes()[blob.offset :][:64] == bytes(range(64))
    assert not model.source.is_open
    assert bytes(blob) == bytes(range(64))  # views remain valid after the file is closed
    with MappedFile(path) as file:
        assert read_model(file).source is file


@pytest.mark.parametrize("end", [0, 3, 7, 8, 12, 64, 100, 200, 300])
def test_a_cut_file_is_refused(end: int) -> None:
    refusal(to_bytes(small_model())[:end])


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not a TFLite model: the file is empty"),
        (b"PK\3\4" + bytes(60), "not a TFLite model: the data are a ZIP archive"),
        (b"\x1c\0\0\0TFL2" + bytes(60), "the identifier 'TFL2', not 'TFL3'"),
        (b"not a model at all", "not a TFLite model: the data are text"),
    ],
)
def test_what_is_not_a_model_is_named(data: bytes, what: str) -> None:
    assert what in refusal(data).what


def test_a_path_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path, status in (
        (tmp_path / "none", Status.NOT_FOUND),
        (tmp_path, Status.INVALID_ARGUMENT),
    ):
        with pytest.raises(LiteRtError) as error:
            read_model(path)
        assert error.value.status is status and str(path) in str(error.value)


def test_an_error_names_the_file_and_the_place(tmp_path: Path) -> None:
    model = small_model()
    model.subgraphs[0].tensors[1].name = "n" * 64
    data = to_bytes(model)
    path = tmp_path / "m.tflite"
    path.write_bytes(data.replace(struct.pack("<I", 64) + b"nnnn", b"\xff\xff\xff\x7fnnnn"))
    with pytest.raises(LiteRtError, match=r"m\.tflite, tensor 1"):
        read_model(path)


@pytest.fixture(scope="module")
def whole_models(random_model: Make) -> list[bytes]:
    return [to_bytes(read_model(random_model(seed))) for seed in range(20)]


def test_damage_ends_in_one_error(whole_models: list[bytes]) -> None:
    @settings(max_examples=300)
    @given(
        st.integers(0, 19),
        st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=8),
        st.booleans(),
    )
    def check(number: int, changes: list[tuple[int, int]], in_tables: bool) -> None:
        data = bytearray(whole_models[number])
        for place, value in changes:
            data[place % (len(data) // (4 if in_tables else 1))] = value
        try:
            again = to_bytes(read_model(bytes(data)))
        except LiteRtError as error:
            assert error.where and error.hint
        else:
            assert len(again) < 8 * len(data) + 100_000

    check()


def test_an_offset_anywhere_may_point_anywhere(whole_models: list[bytes]) -> None:
    @settings(max_examples=300)
    @given(
        st.integers(0, 19),
        st.integers(0, 2**20),
        st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 300)),
    )
    def check(number: int, place: int, offset: int) -> None:
        data = bytearray(whole_models[number])
        struct.pack_into("<I", data, place % (len(data) // 4) * 4, offset)
        try:
            model = read_model(bytes(data))
            for op in model.ops():
                repr(op.options)
            to_bytes(model)
        except LiteRtError as error:
            assert error.where and error.hint

    check()


def hostile(subgraphs: Callable[[Assembler], int], **more: Callable[[Assembler], int]) -> bytes:
    """Returns a model in which some fields were built manually."""
    out = Assembler()
    slots = {"operator_codes": 1, "buffers": 4}
    offsets = [(2, out.offset_vector([subgraphs(out)]))]
    offsets += [(slots[name], make(out)) for name, make in more.items()]
    return bytes(out.finish(out.table(offsets, [(0, "I", 3)]), b"TFL3"))


def test_a_tensor_that_is_named_a_million_times_is_refused() -> None:
    def subgraph(out: Assembler) -> int:
        return out.table([(0, out.offset_vector([out.table([])] * 1_000_000))])

    assert "more tensors and ops than" in refusal(hostile(subgraph)).what


def test_a_name_that_ten_thousand_tensors_share_is_refused() -> None:
    def subgraph(out: Assembler) -> int:
        name = out.text("n" * 200_000)
        return out.table([(0, out.offset_vector([out.table([(3, name)]) for _ in range(10_000)]))])

    assert "more data than" in refusal(hostile(subgraph)).what


def test_options_that_share_a_vector_do_not_unfold_when_written() -> None:
    def subgraph(out: Assembler) -> int:
        options = out.table([(0, out.int_vector(tuple(range(100_000))))])
        op = out.table([(4, options)], [(3, "B", 17)])
        return out.table([(3, out.offset_vector([op] * 5_000))])

    data = hostile(subgraph, operator_codes=lambda out: out.offset_vector([out.table([])]))
    assert "more data than" in refusal(data).what


def test_data_that_overlap_are_refused_and_the_same_data_shared() -> None:
    def make(places: list[int]) -> bytes:
        def buffers(out: Assembler) -> int:
            vector = out.byte_vector(struct.pack("<256I", *[1000] * 256))
            return out.offset_vector([out.table([(0, vector - place)]) for place in places])

        return hostile(lambda out: out.table([]), buffers=buffers)

    first, second = read_model(make([0, 0])).buffers
    assert first.blob is second.blob
    assert len(to_bytes(read_model(make([0] * 300)))) < 20_000
    assert "some data overlap" in refusal(make(list(range(4, 200, 4)))).what


def set_subgraph(vector: str, *indices: int) -> Callable[[Any], None]:
    return lambda model: setattr(model.subgraphs[0], vector, list(indices))


def set_op(field: str, value: int | list[int]) -> Callable[[Any], None]:
    return lambda model: setattr(model.subgraphs[0].operators[0], field, value)


def set_tensor(field: str, value: int) -> Callable[[Any], None]:
    return lambda model: setattr(model.subgraphs[0].tensors[0], field, value)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (set_subgraph("inputs", 3), "tensor 3 is used as input, but the 3 tensors have the indices 0 to 2"),
        (set_subgraph("outputs", 0, -1), "tensor -1 is used as output"),
        (set_op("inputs", [0, 3]), "an index is out of range"),
        (set_op("inputs", [-2, 0]), "an index is out of range"),
        (set_op("outputs", [3]), "an index is out of range"),
        (set_op("outputs", [-1]), "an index is out of range"),
        (set_op("intermediates", [3]), "an index is out of range"),
        (set_op("opcodeIndex", 1), "an index is out of range"),
        (set_tensor("buffer", 2), "buffer 2 is used, but the 2 buffers have the indices 0 and 1"),
        (set_tensor("type", 99), "element type 99"),
    ],
    ids=[
        "input", "output", "op input", "op input -2", "op output", "op output -1", "intermediate",
        "op code", "buffer", "type",
    ],
)  # fmt: skip
def test_an_index_out_of_range_is_refused(
    change_model: Callable[..., bytes], change: Callable[[Any], None], what: str
) -> None:
    assert what in refusal(change_model(to_bytes(small_model()), change)).what


def test_a_union_whose_number_lies_outside_the_file_is_refused() -> None:
    """The reader accesses this table only because trailing bytes make it search for the flatbuffer's end."""
    model = small_model()
    model.subgraphs[0].tensors[0].sparsity = Table.make(
        "SparsityParameters",
        dim_metadata=(
            Table.make(
                "DimensionMetadata", array_segments=Table.make("Uint8Vector", values=b"123")
            ),
        ),
    )
    data = bytearray(to_bytes(model) + b"trailing bytes")
    sparsity = read_model(bytes(data)).subgraphs[0].tensors[0].sparsity
    assert sparsity is not None
    position = sparsity.get("dim_metadata")[0].position
    vtable = position - struct.unpack_from("<i", data, position)[0]
    struct.pack_into("<H", data, vtable + 4 + 2 * 2, 0xFFF0)  # array_segments_type
    refusal(bytes(data))


def test_fields_newer_than_the_schema_are_left_out_with_a_warning() -> None:
    def subgraph(out: Assembler) -> int:
        op = out.table([], [(99, "I", 7), (3, "B", 250), (0, "I", 0)])
        tensor = out.table([], [(40, "I", 7)])
        return out.table([(0, out.offset_vector([tensor, tensor])), (3, out.offset_vector([op]))])

    data = hostile(subgraph, operator_codes=lambda out: out.offset_vector([out.table([])]))
    model = read_model(data)
    assert len(model.subgraphs[0].tensors) == 2 and len(model.subgraphs[0].ops) == 1
    assert [warning.split(": ", 1)[1] for warning in model.warnings] == [
        "field 40 of table Tensor is newer than this reader, and ignored"
    ]


def test_an_unknown_kind_of_options_is_left_out_with_a_warning() -> None:
    def subgraph(out: Assembler) -> int:
        op = out.table([(4, out.table([]))], [(3, "B", 250)])
        return out.table([(3, out.offset_vector([op, op]))])

    data = hostile(subgraph, operator_codes=lambda out: out.offset_vector([out.table([])]))
    model = read_model(data)
    assert model.subgraphs[0].ops[0].options is None
    assert len(model.warnings) == 1 and "options of kind 250" in model.warnings[0]


def test_a_name_that_is_not_utf_8_is_kept() -> None:
    data = to_bytes(small_model()).replace(b"main", b"m\xe4in")
    model = read_model(data)
    assert model.subgraphs[0].name == "m\udce4in"
    assert b"m\xe4in\0" in to_bytes(model)


def test_the_greater_of_two_op_codes_counts() -> None:
    def subgraph(out: Assembler) -> int:
        ops = [out.table([], [(0, "I", index)]) for index in range(3)]
        return out.table([(3, out.offset_vector(ops))])

    def codes(out: Assembler) -> int:
        entries = [(32, 0), (127, 206), (0, 3)]
        return out.offset_vector(
            [out.table([], [(3, "i", code), (0, "b", old)]) for old, code in entries]
        )

    model = read_model(hostile(subgraph, operator_codes=codes))
    assert [op.code.builtin_code for op in model.ops()] == [32, 206, 3]
    again = read_model(to_bytes(model))
    assert [code.fields for code in again.operator_codes] == [(32, 0), (127, 206), (0, 3)]


def test_data_far_behind_the_flatbuffer_are_found(tmp_path: Path) -> None:
    """The data's offset is above 4 GiB."""
    model = small_model()
    model.buffers[1].is_external = True
    path = tmp_path / "m.tflite"
    write_model(model, path)
    (old,) = (b.blob.offset for b in read_model(path).buffers if b.blob)
    far = 5 << 30
    data = path.read_bytes()[:old].replace(struct.pack("<Q", old), struct.pack("<Q", far))
    with path.open("wb") as file:
        file.write(data)
        file.seek(far)
        file.write(bytes(range(64)))
    with read_model(path) as model:
        assert bytes(model.subgraphs[0].tensors[1].data) == bytes(range(64))
        again = read_model(to_bytes(model))
    assert again.buffers[1].is_external
    assert bytes(again.subgraphs[0].tensors[1].data) == bytes(range(64))


def test_a_large_file_s_buffers_are_read_past_the_mapping(
    whole_models: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_LARGE_FILE", 0)
    for data in whole_models:
        (tmp_path / "m").write_bytes(data)
        with read_model(tmp_path / "m") as model:
            assert to_bytes(model) == data
    (tmp_path / "m").write_bytes(whole_models[0][:-20])
    with pytest.raises(LiteRtError):
        read_model(tmp_path / "m")


def test_a_reader_costs_no_large_import() -> None:
    code = (
        "import sys, litert.model.reader, litert.model.writer\n"
        "print([m for m in ('numpy', 'flatbuffers', 'tempfile', 'ai_edge_litert') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_a_model_of_nothing_is_one() -> None:
    out = Assembler()
    model = read_model(bytes(out.finish(out.table([]), b"TFL3")))
    assert not (model.subgraphs or model.buffers or model.operator_codes)


def test_custom_options_keep_a_format_that_nobody_knows() -> None:
    def subgraph(out: Assembler) -> int:
        op = out.table([], [(6, "b", 7)])
        return out.table([(3, out.offset_vector([op]))])

    data = hostile(subgraph, operator_codes=lambda out: out.offset_vector([out.table([])]))
    for _ in range(2):
        model = read_model(data)
        assert model.subgraphs[0].ops[0].custom_options_format == 7
        data = to_bytes(model)


@pytest.mark.parametrize("options", [None, b"", b"no map"])
def test_an_npu_call_without_byte_code_is_kept(options: bytes | None) -> None:
    model = small_model()
    model.operator_codes[0] = model.subgraphs[0].ops[0].code = OperatorCode(32, DISPATCH_OP)
    model.subgraphs[0].ops[0].options = None
    model.subgraphs[0].ops[0].custom_options = None if options is None else Blob(options)
    found = read_model(to_bytes(model))
    assert not found.byte_code and len(found.warnings) == bool(options)


def test_the_name_of_an_npu_call_has_no_zero_byte() -> None:
    model = small_model()
    model.operator_codes[0] = model.subgraphs[0].ops[0].code = OperatorCode(32, DISPATCH_OP)
    model.subgraphs[0].ops[0].options = None
    model.byte_code = [Appended(Blob(b"module"), [(model.subgraphs[0].ops[0], "call")])]
    data = to_bytes(model)
    assert read_model(data).byte_code[0].users[0][1] == "call"
    assert (
        "the name of the NPU call contains a zero byte"
        in refusal(data.replace(b"call", b"c\0ll")).what
    )


def test_metadata_are_read_alone(tmp_path: Path) -> None:
    model = small_model()
    for name, value in (("a.x", b"1"), ("b", b"2"), ("a.y", b"")):
        model.set_metadata(name, Blob(value))
    (tmp_path / "m.tflite").write_bytes(to_bytes(model))
    with MappedFile(tmp_path / "m.tflite") as file:
        for source in (file, file.view):
            found = read_metadata(source, "a.")
            assert {name: bytes(blob) for name, blob in found.items()} == {"x": b"1", "y": b""}
    assert read_metadata(memoryview(to_bytes(small_model())), "") == {}


def metadata(
    entry: list[tuple[int, str, int]], buffers: Callable[[Assembler], int] | None
) -> bytes:
    """Returns a model with only the metadata entry `name`, and buffers if given."""
    out = Assembler()
    offsets = [(6, out.offset_vector([out.table([(0, out.text("name"))], entry)]))]
    if buffers is not None:
        offsets.append((4, buffers(out)))
    return bytes(out.finish(out.table(offsets), b"TFL3"))


def one_buffer(*scalars: tuple[int, str, int]) -> Callable[[Assembler], int]:
    return lambda out: out.offset_vector([out.table([], list(scalars))])


def test_metadata_may_lie_behind_the_flatbuffer() -> None:
    for sized, expected in (([(2, "Q", 4)], b"TFL3"), ([], b"")):
        data = metadata([], one_buffer((1, "Q", 4), *sized))
        assert bytes(read_metadata(memoryview(data), "name")[""]) == expected
    assert bytes(read_metadata(memoryview(metadata([], one_buffer())), "name")[""]) == b""


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (metadata([], None), "buffer 0 is used, but there are no buffers"),
        (
            metadata([(1, "I", 3)], one_buffer()),
            "buffer 3 is used, but the only buffer has index 0",
        ),
        (
            metadata([], one_buffer((1, "Q", 4), (2, "Q", 1 << 40))),
            "the model refers to bytes 4 to",
        ),
        (metadata([], one_buffer())[:8], "outside the file"),
        (b"\xff\xff\xff\x7fTFL3", "outside the file"),
    ],
    ids=["no buffers", "no such buffer", "too long", "cut", "no root"],
)
def test_damaged_metadata_are_refused(data: bytes, what: str) -> None:
    with pytest.raises(LiteRtError) as error:
        read_metadata(memoryview(data), "name")
    assert error.value.status is Status.INVALID_FLATBUFFER and what in error.value.what


@pytest.mark.parametrize("is_enabled", [True, False])
def test_reading_leaves_the_collector_as_it_was(is_enabled: bool) -> None:
    was_enabled = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    try:
        read_model(to_bytes(small_model()))
        assert gc.isenabled() == is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
