from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.progress import listening
from litert.core.status import Status
from litert.model import writer
from litert.model.blob import Blob, MappedFile
from litert.model.dispatch_op import DISPATCH_OP, read_dispatch_options
from litert.model.graph import CUSTOM, Appended, Buffer, Model, Op, OperatorCode, Subgraph, Tensor
from litert.model.output import FileCopy
from litert.model.reader import read_model
from litert.model.writer import to_bytes, write_model

MIB = 1 << 20
WAYS = ("_clone", "copy_file_range", "splice", "sendfile")  # of copying, the fastest first


def constants_model(*blobs: Blob, is_external: bool = False) -> Model:
    """Returns a model with a constant for each blob, and without ops."""
    model = Model(buffers=[Buffer(), *(Buffer(blob, is_external) for blob in blobs)])
    tensors = [
        Tensor(f"w{i}", ElementType.UINT8, (blob.size,), model.buffers[i + 1])
        for i, blob in enumerate(blobs)
    ]
    model.subgraphs = [Subgraph("main", tensors, [], tensors[:1])]
    return model


def data_of(model: Model) -> list[bytes]:
    return [bytes(tensor.data) for tensor in model.subgraphs[0].tensors]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of three constants, which together are too large to be written from memory."""
    path = tmp_path / "source.tflite"
    blobs = (Blob(bytes([i]) * size) for i, size in enumerate((5 * MIB + 3, 17, 4 * MIB)))
    write_model(constants_model(*blobs), path)
    return path


def test_the_same_model_gives_the_same_bytes(source: Path, tmp_path: Path) -> None:
    data = source.read_bytes()
    with read_model(source) as model:
        for _ in range(2):
            write_model(model, tmp_path / "copy")
            assert (tmp_path / "copy").read_bytes() == to_bytes(model) == data
    assert to_bytes(read_model(data)) == data


def test_a_result_says_what_was_written(tmp_path: Path) -> None:
    model = constants_model(Blob(b"12345"))
    result = write_model(model, tmp_path / "m", appended=[Appended(Blob(b"byte code"), [])])
    assert result.path == str(tmp_path / "m")
    assert result.size == (tmp_path / "m").stat().st_size
    assert result.flatbuffer_size <= result.byte_code[0][0] < result.size
    assert result.byte_code[0][1] == 9


@pytest.mark.parametrize("missing", [WAYS[:n] for n in range(len(WAYS) + 1)], ids=len)
@pytest.mark.parametrize("number", [errno.EXDEV, errno.ENOSYS, None])
@pytest.mark.parametrize("major", [0, 8], ids=["no disk of its own", "a disk"])
def test_every_way_to_copy_gives_the_same_file(
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: Sequence[str],
    number: int | None,
    major: int,
) -> None:
    def refuse(*_: object, **__: object) -> int:
        if number is None:
            return 0  # some file systems return this
        raise OSError(number, os.strerror(number))

    for name in missing:
        monkeypatch.setattr(FileCopy if name == "_clone" else os, name, refuse, raising=False)
    monkeypatch.setattr(os, "major", lambda _: major)
    with read_model(source) as model:
        write_model(model, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()


def test_a_closed_file_is_copied_from_its_mapping(source: Path, tmp_path: Path) -> None:
    model = read_model(source)
    model.close()
    write_model(model, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()


def test_neighbours_in_a_file_are_copied_as_one(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = []
    copy = FileCopy.copy

    def count(self: FileCopy, file: MappedFile, start: int, target: int, size: int) -> None:
        copied.append(size)
        copy(self, file, start, target, size)

    monkeypatch.setattr(FileCopy, "copy", count)
    with read_model(source) as model:
        write_model(model, tmp_path / "copy")
    assert len(copied) <= 2  # one part up to the block alignment, and the rest
    assert sum(copied) < source.stat().st_size


def test_what_lies_between_neighbours_is_not_copied(source: Path, tmp_path: Path) -> None:
    with read_model(source) as model:
        first, second = (b.blob for b in model.buffers[1:3])
        assert first is not None and second is not None
        end, start = first.offset + first.size, second.offset - 4
    data = bytearray(source.read_bytes())
    assert start - end > 0
    data[end:start] = b"x" * (start - end)
    source.write_bytes(data)
    with read_model(source) as model:
        write_model(model, tmp_path / "copy")
        copy = (tmp_path / "copy").read_bytes()
        assert copy == to_bytes(model)
    assert copy[end:start] == bytes(start - end)


def test_shared_data_stay_shared() -> None:
    model = constants_model(Blob(bytes(100_000)))
    again = Buffer(model.buffers[1].blob)
    model.buffers.append(again)
    model.subgraphs[0].tensors.append(Tensor("same", ElementType.UINT8, (100_000,), again))
    data = to_bytes(model)
    assert len(data) < 102_000
    assert data_of(read_model(data)) == [bytes(100_000)] * 2


@pytest.mark.parametrize("is_external", [False, True], ids=["inside", "behind"])
def test_data_stay_where_they_were(
    is_external: bool, differences: Callable[[bytes, bytes], list[str]]
) -> None:
    blobs = [Blob(b""), Blob(b"1" * 15), Blob(b"2" * 1000)]
    data = to_bytes(constants_model(*blobs, is_external=is_external))
    model = read_model(data)
    assert [b.is_external for b in model.buffers] == [False] + [is_external] * 3
    assert data_of(model) == [bytes(blob) for blob in blobs]
    model.buffers[1].blob, model.buffers[3].blob = Blob(b"new"), Blob(b"3" * 1000)
    changed = to_bytes(model)
    assert data_of(read_model(changed)) == [b"new", b"1" * 15, b"3" * 1000]
    assert differences(to_bytes(read_model(changed)), changed) == []


def test_the_largest_data_go_behind_a_flatbuffer_that_would_be_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer, "_MAX_FLATBUFFER", 30_000)
    monkeypatch.setattr(writer, "_TABLES_SIZE", 1_000)
    blobs = [Blob(bytes([i]) * size) for i, size in enumerate((10_000, 20_000, 9_000))]
    model = read_model(to_bytes(constants_model(*blobs)))
    assert [buffer.is_external for buffer in model.buffers] == [False, False, True, False]
    assert data_of(model) == [bytes(blob) for blob in blobs]


def test_tables_that_are_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_MAX_FLATBUFFER", 300)
    monkeypatch.setattr(writer, "_TABLES_SIZE", 100)
    with pytest.raises(LiteRtError) as error:
        to_bytes(constants_model(*(Blob(bytes([i])) for i in range(9))))
    assert error.value.status is Status.SERIALIZATION


@pytest.mark.parametrize("size", [3, 100_000], ids=["in the tables", "like a constant"])
@pytest.mark.parametrize("is_large", [False, True], ids=["inside", "behind"])
def test_custom_options_stay_where_they_were(
    size: int, is_large: bool, differences: Callable[[bytes, bytes], list[str]]
) -> None:
    model = constants_model(Blob(b"x"))
    op = Op(OperatorCode(CUSTOM, "MyOp"), [], [], custom_options=Blob(b"o" * size))
    op.has_large_custom_options = is_large
    model.subgraphs[0].ops.append(op)
    data = to_bytes(model)
    again = read_model(data)
    (found,) = again.ops()
    assert found.custom_options is not None and bytes(found.custom_options) == b"o" * size
    assert found.has_large_custom_options is is_large
    assert to_bytes(again) == data and differences(data, to_bytes(again)) == []


def compiled_model(*names: str) -> Model:
    """Returns a model with a dispatch op for each name."""
    model = constants_model(Blob(b"w" * 100))
    code = OperatorCode(CUSTOM, DISPATCH_OP)
    x = model.subgraphs[0].tensors[0]
    for name in names:
        y = Tensor(name, ElementType.UINT8, (1,), model.buffers[0])
        model.subgraphs[0].tensors.append(y)
        model.subgraphs[0].ops.append(Op(code, [x], [y]))
    return model


def byte_code_at(data: bytes, op: Op) -> bytes:
    assert op.custom_options is not None
    options = read_dispatch_options(op.custom_options.view)
    assert options.bytecode_offset % 64 == 0
    return data[options.bytecode_offset :][: options.bytecode_size]


def test_dispatch_ops_point_at_their_byte_code() -> None:
    model = compiled_model("a", "b", "c")
    ops = model.subgraphs[0].ops
    shared = Appended(Blob(b"first module"), [(ops[0], "call_a"), (ops[2], "call_c")])
    other = Appended(Blob(b"second" * 100), [(ops[1], "call_b")])
    data = to_bytes(model, appended=[shared, other])
    again = read_model(data)
    expected = [b"first module", b"second" * 100, b"first module"]
    assert [byte_code_at(data, op) for op in again.ops()] == expected
    calls = [[(name) for _, name in module.users] for module in again.byte_code]
    assert calls == [["call_a", "call_c"], ["call_b"]]


def test_byte_code_moves_with_the_file() -> None:
    model = compiled_model("a")
    call = (model.subgraphs[0].ops[0], "call")
    model = read_model(to_bytes(model, appended=[Appended(Blob(b"module"), [call])]))
    model.set_metadata("more", Blob(bytes(5000)))
    data = to_bytes(model)
    again = read_model(data)
    assert [byte_code_at(data, op) for op in again.ops()] == [b"module"]
    assert [bytes(module.blob) for module in again.byte_code] == [b"module"]
    assert to_bytes(again) == data


def test_byte_code_outside_the_file_is_refused() -> None:
    model = compiled_model("a")
    call = (model.subgraphs[0].ops[0], "call")
    data = to_bytes(model, appended=[Appended(Blob(b"module" * 100), [call])])
    with pytest.raises(LiteRtError, match=r"the model refers to bytes .*, but the file has only"):
        read_model(data[:-300])


def test_a_dispatch_op_with_other_options_is_kept_with_a_warning() -> None:
    model = compiled_model("a")
    model.subgraphs[0].ops[0].custom_options = Blob(b"an older format")
    again = read_model(to_bytes(model))
    assert "is kept unchanged" in again.warnings[0] and again.byte_code == []
    assert b"an older format" in to_bytes(again)


def test_progress_is_told_up_to_the_end(source: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    with read_model(source) as model, listening(lambda *now: told.append(now)):
        result = write_model(model, tmp_path / "m")
    assert told[0] == ("write", 0, result.size) and told[-1] == ("write", result.size, result.size)
    assert told == sorted(told)


def test_the_output_may_be_the_input(source: Path) -> None:
    data = source.read_bytes()
    with read_model(source) as model:
        write_model(model, source)
    assert source.read_bytes() == data


class Stopped(BaseException):
    """An exception that, like KeyboardInterrupt, is no `Exception`."""


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Stopped(), ValueError("in a callback")])
def test_a_write_that_is_stopped_leaves_nothing(
    source: Path, tmp_path: Path, error: BaseException
) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"the old output")

    def stop(*_: object) -> None:
        raise error

    with read_model(source) as model, pytest.raises(type(error)), listening(stop):
        write_model(model, target)
    assert target.read_bytes() == b"the old output"
    assert sorted(os.listdir(tmp_path)) == ["source.tflite", "target"]


@pytest.mark.parametrize("holder, name", [(FileCopy, "_clone"), (os, "posix_fallocate")])
def test_a_full_disk_is_named_and_leaves_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holder: object, name: str
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def cannot(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "major", lambda _: 8)
    monkeypatch.setattr(FileCopy, "_clone", cannot)
    monkeypatch.setattr(holder, name, full)
    with read_model(source) as model, pytest.raises(LiteRtError) as error:
        write_model(model, tmp_path / "target")
    assert error.value.status is Status.FILE_IO
    assert str(error.value) == (
        f"FILE_IO: cannot write: no space left on device ({tmp_path / 'target'}). "
        "Make room, or write elsewhere."
    )
    assert os.listdir(tmp_path) == ["source.tflite"]


def test_a_source_that_shrinks_is_named(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in WAYS[1:]:
        monkeypatch.setattr(os, name, lambda *_, **__: 0, raising=False)
    monkeypatch.setattr(FileCopy, "_clone", lambda *_: 0)
    with read_model(source) as model, pytest.raises(LiteRtError, match="became shorter"):
        monkeypatch.setattr(os, "pread", lambda *_: b"")
        write_model(model, tmp_path / "target")


@pytest.mark.parametrize(
    ("place", "status"),
    [
        ("missing/target", Status.NOT_FOUND),
        (".", Status.INVALID_ARGUMENT),
        ("source.tflite/target", Status.NOT_FOUND),
    ],
)
def test_a_place_that_cannot_be_written_is_refused(
    source: Path, tmp_path: Path, place: str, status: Status
) -> None:
    with read_model(source) as model, pytest.raises(LiteRtError) as error:
        write_model(model, tmp_path / place)
    assert error.value.status is status
    named = tmp_path / place
    assert error.value.where == str(named.parent if status is Status.NOT_FOUND else named)


def test_a_device_is_not_replaced() -> None:
    with pytest.raises(LiteRtError, match="not a regular file"):
        write_model(constants_model(), "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_link_stays_and_permissions_too(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"")
    target.chmod(0o640)
    link.symlink_to(target)
    write_model(constants_model(), link)
    assert link.is_symlink() and target.stat().st_size
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    write_model(constants_model(), tmp_path / "a")
    (tmp_path / "b").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_killed_process_leaves_no_file_behind(tmp_path: Path) -> None:
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_RDWR))
    except OSError as error:
        pytest.skip(f"the file system of {tmp_path} has no files without a name: {error}")
    code = (
        "import os, signal, sys\n"
        "from litert.model.atomic_file import open_atomic\n"
        "with open_atomic(sys.argv[1]) as fd:\n"
        "    os.write(fd, b'half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    target = tmp_path / "target"
    target.write_bytes(b"before")
    ended = subprocess.run([sys.executable, "-c", code, target])
    assert ended.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == ["target"] and target.read_bytes() == b"before"


def test_a_graph_that_does_not_hold_together_is_refused() -> None:
    stranger = Tensor("stranger", ElementType.UINT8, (1,), Buffer())
    for change in ("inputs", "outputs", "ops"):
        model = constants_model()
        value = Op(OperatorCode(0), [stranger], []) if change == "ops" else stranger
        getattr(model.subgraphs[0], change).append(value)
        with pytest.raises(LiteRtError) as error:
            to_bytes(model)
        assert error.value.status is Status.INVALID_GRAPH_INVARIANT


def test_what_no_field_can_hold_is_refused() -> None:
    model = constants_model(Blob(b"x"))
    model.subgraphs[0].tensors[0].shape = (2**31,)
    with pytest.raises(LiteRtError, match="a number in the model does not fit its field"):
        to_bytes(model)
    model.subgraphs[0].tensors[0].shape = ()
    model.subgraphs[0].tensors[0].element_type = ElementType.NONE
    with pytest.raises(LiteRtError, match="tensor 'w0' has no element type"):
        to_bytes(model)


def test_buffers_and_codes_that_only_the_graph_has_are_written() -> None:
    model = constants_model()
    constant = Tensor("w", ElementType.UINT8, (3,), Buffer(Blob(b"new")))
    model.subgraphs[0].tensors.append(constant)
    model.subgraphs[0].ops.append(Op(OperatorCode(9), [constant], []))
    assert len(model.buffers) == 1
    again = read_model(to_bytes(model))
    assert data_of(again) == [b"new"]
    assert [op.name for op in again.ops()] == ["FULLY_CONNECTED"]
    assert len(model.buffers) == 1 and not model.operator_codes


def test_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    """Does not test that each byte is copied only once: with sparse files, only the time would show it."""
    size = 256 * MIB
    with (tmp_path / "weights").open("wb") as file:
        file.truncate(size)
    with MappedFile(tmp_path / "weights") as weights:
        blobs = [weights.blob(i * size // 64, size // 64) for i in range(64)]
        write_model(constants_model(*blobs), tmp_path / "m.tflite")
    code = (
        "import resource, sys\n"
        "from litert.model.reader import read_model\n"
        "from litert.model.writer import write_model\n"
        "def rss(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = rss()\n"
        "with read_model(sys.argv[1]) as model: write_model(model, sys.argv[2])\n"
        "print(rss() - before)"
    )
    paths = [str(tmp_path / "m.tflite"), str(tmp_path / "copy")]
    result = subprocess.run(
        [sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True
    )
    assert int(result.stdout) < 16 * 1024  # KiB
    assert os.stat(paths[0]).st_size == os.stat(paths[1]).st_size > size
