"""Tests the C header that reads custom options: it reads what FlexBuffer writers write, and survives any bytes."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest
from flatbuffers import flexbuffers  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from litert.core.status import Status
from litert.model.flexbuffer import read_flexbuffer
from tests.abi.test_support_headers import LANGUAGES, build

KEYS = st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(-3e38, 3e38)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
    | st.binary(max_size=20)
)
VALUES = SCALARS | st.lists(SCALARS) | st.lists(st.lists(SCALARS, max_size=3), max_size=3)
OPTIONS = st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, SCALARS, max_size=2), max_size=12)
REFUSALS = {Status.INVALID_FLATBUFFER, Status.INVALID_ARGUMENT, Status.NOT_FOUND}


@dataclass
class Reader:
    """A running program that includes the header, with its standard input, standard output and log."""

    requests: IO[bytes]
    answers: IO[bytes]
    log: Path

    def find(self, options: bytes, key: str) -> Any:
        """Returns the value of an option, or a status if there is no such value."""
        name = key.encode()
        self.requests.write(struct.pack("=I", len(options)) + options)
        self.requests.write(struct.pack("=I", len(name)) + name)
        self.requests.flush()
        answer = self.answers.readline()
        assert answer, self.log.read_text()
        return as_python(json.loads(answer))


def as_python(answer: Any) -> Any:
    """Converts the program's output to a Python value."""
    if isinstance(answer, list):
        return [as_python(element) for element in answer]
    if isinstance(answer, int):
        return Status(answer)
    ((kind, value),) = answer.items()
    if kind == "float":
        return float(value)
    if kind in ("bool", "int"):
        return bool(value) if kind == "bool" else value
    data = bytes.fromhex(value)
    return data if kind == "blob" else data.decode("utf-8", "replace")


@pytest.fixture(scope="module", params=LANGUAGES)
def reader(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("flexbuffer")
    program = build("flexbuffer", request.param, folder)
    log, pipe = folder / "log", subprocess.PIPE
    with (
        log.open("wb") as errors,
        subprocess.Popen([program], stdin=pipe, stdout=pipe, stderr=errors) as process,
    ):
        assert process.stdin and process.stdout
        yield Reader(process.stdin, process.stdout, log)
        process.stdin.close()
        assert process.wait() == 0, log.read_text()


def as_found(value: Any) -> Any:
    """Returns a value as the header's functions return it; they do not read null values or maps inside a map."""
    if isinstance(value, list | tuple):
        return [as_found(element) for element in value]
    return Status.INVALID_ARGUMENT if value is None or isinstance(value, Mapping) else value


def check(reader: Reader, data: bytes, options: Mapping[str, Any]) -> None:
    for key, value in options.items():
        found = reader.find(data, key)
        assert found == as_found(value) and type(found) is type(as_found(value)), key


@given(OPTIONS)
def test_options_that_flatbuffers_writes_are_read(reader: Reader, options: dict[str, Any]) -> None:
    data = bytes(flexbuffers.Dumps(options))
    check(reader, data, options)
    assert reader.find(data, "no such key") is Status.NOT_FOUND


def all_kinds() -> bytes:
    builder = flexbuffers.Builder(share_strings=True)
    with builder.Map():
        builder.IndirectInt("ii", -5)
        builder.IndirectUInt("iu", 2**40)
        builder.IndirectFloat("if", 0.1)
        builder.UInt("u", 2**63 - 1)
        builder.Bool("b", True)
        builder.FixedTypedVectorFromElements("f2", [1.5, 2.5])
        builder.FixedTypedVectorFromElements("i3", [1, -2, 3], flexbuffers.Type.INT)
        builder.FixedTypedVectorFromElements("u4", [1, 2, 3, 4], flexbuffers.Type.UINT)
        builder.TypedVectorFromElements("keys", ["a", "bc"], flexbuffers.Type.KEY)
        builder.TypedVectorFromElements("bools", [True, False])
        builder.VectorFromElements("mixed", [1, "two", 3.5, [4]])
        builder.String("s", "same")
        builder.Blob("data", b"blob")
        builder.Key("k")  # a value that is itself a key follows
        builder.Key("key")
    return bytes(builder.Finish())


def test_all_kinds_of_values_are_read(reader: Reader) -> None:
    options = read_flexbuffer(all_kinds())
    assert isinstance(options, dict) and len(options) == 14
    check(reader, all_kinds(), options)


def test_offsets_of_each_width_are_read(reader: Reader) -> None:
    for size in (10, 1000, 100_000):
        options = {"before": b"x" * size, "numbers": list(range(size)), "after": "text"}
        data = bytes(flexbuffers.Dumps(options))
        assert reader.find(data, "before") == options["before"]
        assert reader.find(data, "numbers") == list(
            range(min(size, 1000))
        )  # the program prints at most 1000 elements
        assert reader.find(data, "after") == "text"
    many = {f"option {i}": i for i in range(300)}
    check(reader, bytes(flexbuffers.Dumps(many)), many)


def test_an_op_without_options_has_no_option(reader: Reader) -> None:
    assert reader.find(b"", "alpha") is Status.NOT_FOUND
    assert reader.find(bytes(flexbuffers.Dumps({})), "alpha") is Status.NOT_FOUND


def test_a_key_is_compared_to_its_end(reader: Reader) -> None:
    data = bytes(flexbuffers.Dumps({"alphabet": 1}))
    for key in ("alpha", "alphabets", "lphabet", ""):
        assert reader.find(data, key) is Status.NOT_FOUND


def test_an_unsigned_number_that_is_too_large_is_no_int(reader: Reader) -> None:
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.UInt("u", 2**63)
    assert reader.find(bytes(builder.Finish()), "u") is Status.INVALID_ARGUMENT


@pytest.mark.parametrize("root", [3, "text", [1, 2], None])
def test_options_that_are_no_map_are_refused(reader: Reader, root: object) -> None:
    assert reader.find(bytes(flexbuffers.Dumps(root)), "alpha") is Status.INVALID_FLATBUFFER


def test_a_map_whose_type_is_another_is_refused(reader: Reader) -> None:
    data = bytearray(flexbuffers.Dumps({"alpha": 1}))
    assert data[-2] == flexbuffers.Type.Pack(flexbuffers.Type.MAP, 0)
    data[-2] = flexbuffers.Type.Pack(flexbuffers.Type.VECTOR, 0)
    assert reader.find(bytes(data), "alpha") is Status.INVALID_FLATBUFFER


def test_a_float_of_one_byte_is_refused(reader: Reader) -> None:
    data = bytearray(flexbuffers.Dumps({"alpha": 1}))
    assert data[-4] == flexbuffers.Type.Pack(flexbuffers.Type.INT, 0)
    data[-4] = flexbuffers.Type.Pack(flexbuffers.Type.FLOAT, 0)
    assert reader.find(bytes(data), "alpha") is Status.INVALID_FLATBUFFER


@pytest.mark.parametrize("struct_of_c", [bytes(12), struct.pack("<iif", 1, 2, 0.5), b"\1"])
def test_a_struct_of_c_is_refused(reader: Reader, struct_of_c: bytes) -> None:
    assert reader.find(struct_of_c, "alpha") is Status.INVALID_FLATBUFFER


def is_answer(found: Any) -> bool:
    """Returns whether the program returned a value or one of the documented statuses."""
    if isinstance(found, list):
        return all(map(is_answer, found))
    return not isinstance(found, Status) or found in REFUSALS


def test_each_damaged_byte_gives_a_value_or_a_status(reader: Reader) -> None:
    whole = all_kinds()
    keys = read_flexbuffer(whole)
    assert isinstance(keys, dict)
    for position in range(len(whole)):
        for byte in (0, 1, 0x7F, 0x80, 0xFF, whole[position] ^ 1, whole[position] ^ 4):
            damaged = whole[:position] + bytes([byte]) + whole[position + 1 :]
            assert all(is_answer(reader.find(damaged, key)) for key in keys)
        for part in (whole[:position], whole[position:]):
            assert all(is_answer(reader.find(part, key)) for key in keys)


@given(OPTIONS.filter(bool), st.data())
def test_damaged_options_give_a_value_or_a_status(
    reader: Reader, options: dict[str, Any], data: st.DataObject
) -> None:
    damaged = bytearray(flexbuffers.Dumps(options))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    for key in options:
        assert is_answer(reader.find(bytes(damaged), key))
