"""Tests the executable's byte code: it keeps the executable's content, and damaged byte code is refused."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob, MappedFile
from tests.vendor_reference.firmware_runs import clamp_fields
from vendor_reference.executable import byte_code
from vendor_reference.executable.byte_code import (
    MAGIC,
    PREFIX,
    VERSION,
    executable_parts,
    read_executable,
    write_executable,
)
from vendor_reference.executable.executable import (
    ALIGNMENT,
    Argument,
    ArgumentKind,
    Constant,
    Dequantization,
    Executable,
    Function,
    KernelTask,
    LayerCommand,
    LayerTask,
    Program,
    Source,
    Tap,
    align,
)
from vendor_reference.executable.module_reader import find_function, read_module
from vendor_reference.firmware.instructions import instruction_set

POOL = instruction_set()["Pool"]
POOL_WORDS = POOL.words({"input": 1, "result": 2, **clamp_fields(4, 0, 6)})
F32, F16, I8 = ElementType.FLOAT32, ElementType.FLOAT16, ElementType.INT8

SMALL = Executable(
    "EMU8",
    [
        Function(
            "call",
            [RankedTensorType.of(F32, (1, 4))],
            [RankedTensorType.of(F32, (1, 4))],
            [
                KernelTask(
                    "Sinh",
                    0,
                    "Sinh",
                    [
                        Argument(ArgumentKind.INPUT),
                        Argument(ArgumentKind.CONSTANT, index=1),
                        Argument(ArgumentKind.DDR, offset=64, size_bytes=16),
                        Argument(ArgumentKind.LOCAL, size_bytes=32),
                        Argument(ArgumentKind.SCALAR, scalar=b"\1\0\0\0"),
                        Argument(ArgumentKind.OUTPUT),
                        Argument(ArgumentKind.CMX, offset=128, size_bytes=16),
                    ],
                    (4, 2, 1),
                    (2, 1, 1),
                    4,
                ),
                LayerTask(
                    "RELU",
                    [Argument(ArgumentKind.INPUT), Argument(ArgumentKind.OUTPUT)],
                    [LayerCommand("Pool", POOL_WORDS)],
                    "y",
                ),
            ],
            128,
            192,
        )
    ],
    [
        Program(
            "#define N 4\n",
            [Source("Sinh", "sinh.cl", "ab" * 32)],
            "-cl-mad-enable",
            [Source("Sinh/inc/h.cl", "inc/h.cl", "cd" * 32)],
        )
    ],
    [
        Constant(RankedTensorType.of(F16, (3,)), Blob(b"abcdef"), Dequantization()),
        Constant(
            RankedTensorType.of(I8, (2, 3)),
            Blob(b"uvwxyz"),
            Dequantization([0.5, 0.25], [0, -3], 0),
            [1, 0],
            16,
        ),
    ],
    [POOL],
)

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
paths = st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5}){0,2}", fullmatch=True)
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
build_options = st.lists(
    st.sampled_from(["-cl-mad-enable", "-DN=4", "-D N", "-w", "-Wall", "-O2"]), max_size=3
).map(" ".join)
sources = st.builds(Source, names, paths, st.binary(min_size=32, max_size=32).map(bytes.hex))
types = st.builds(RankedTensorType.of, st.sampled_from([e for e in ElementType if e.bits]), shapes)


@st.composite
def constants(draw: st.DrawFn) -> Constant:
    tensor_type = draw(types)
    size = tensor_type.size_bytes
    data = Blob(draw(st.binary(min_size=size, max_size=size)))
    return Constant(tensor_type, data)


def _zeroing(task: KernelTask) -> KernelTask:
    """Returns the task with `zeroed` set to all arguments that it may write."""
    kinds = (ArgumentKind.OUTPUT, ArgumentKind.DDR, ArgumentKind.CMX)
    return replace(task, zeroed=[i for i, a in enumerate(task.arguments) if a.kind in kinds])


@st.composite
def executables(draw: st.DrawFn) -> Executable:
    programs = draw(
        st.lists(
            st.builds(
                Program,
                names,
                st.lists(sources, max_size=2),
                build_options,
                st.lists(sources, max_size=2),
            ),
            max_size=2,
        )
    )
    stored = draw(st.lists(constants(), max_size=3))
    functions = []
    for name in draw(st.lists(names, max_size=2, unique=True)):
        inputs, outputs = draw(st.lists(types, max_size=2)), draw(st.lists(types, max_size=2))
        possible = [
            st.builds(
                Argument, st.just(ArgumentKind.SCALAR), scalar=st.binary(min_size=1, max_size=16)
            ),
            st.builds(Argument, st.just(ArgumentKind.LOCAL), size_bytes=st.integers(1, 2**20)),
            st.builds(
                Argument,
                st.sampled_from([ArgumentKind.DDR, ArgumentKind.CMX]),
                offset=st.integers(0, 64).map(lambda n: n * 64),
                size_bytes=st.integers(1, 4096),
            ),
        ]
        for kind, count in (
            (ArgumentKind.INPUT, len(inputs)),
            (ArgumentKind.OUTPUT, len(outputs)),
            (ArgumentKind.CONSTANT, len(stored)),
        ):
            if count:
                possible.append(st.builds(Argument, st.just(kind), st.integers(0, count - 1)))
        task = st.builds(
            KernelTask,
            names,
            st.integers(0, max(len(programs) - 1, 0)),
            st.from_regex(r"[a-z_][a-z0-9_]{0,9}", fullmatch=True),
            st.lists(st.one_of(possible), max_size=4),
            st.lists(st.integers(0, 1000), min_size=1, max_size=3),
            num_shaves=st.integers(0, 16),
        )
        tasks = draw(st.lists(task.map(_zeroing), max_size=2)) if programs else []
        functions.append(Function(name, inputs, outputs, tasks, 64 * 64 + 4096, 64 * 64 + 4096))
    return Executable(draw(names), functions, programs, stored)


@given(executables())
def test_what_is_written_is_read(executable: Executable) -> None:
    module = bytes(write_executable(executable))
    back = read_executable(module)
    assert [bytes(c.data) for c in back.constants] == [bytes(c.data) for c in executable.constants]
    assert _comparable(back) == _comparable(executable)
    assert bytes(write_executable(back)) == module


def test_all_fields_survive() -> None:
    assert _comparable(read_executable(bytes(write_executable(SMALL)))) == _comparable(SMALL)


def test_constants_are_aligned_and_never_copied_on_the_way_in() -> None:
    parts = executable_parts(SMALL)
    assert all(any(part is c.data for part in parts) for c in SMALL.constants)
    offset = 0
    for part in parts:
        if any(part is c.data for c in SMALL.constants):
            assert offset % ALIGNMENT == 0
        offset += part.size


def test_constants_that_are_read_in_two_ways_are_stored_once() -> None:
    data = Blob(bytes(range(256)))
    ways = [
        Constant(RankedTensorType.of(F32, (4, 16)), data),
        Constant(RankedTensorType.of(F32, (4, 16)), data, order=[1, 0]),
        Constant(RankedTensorType.of(I8, (256,)), data, Dequantization([0.5], [3])),
        Constant(RankedTensorType.of(F32, (4, 16)), Blob(bytes(256))),
    ]
    module = bytes(write_executable(Executable("Ref1", [], [], ways)))
    assert module.count(bytes(data)) == 1
    back = read_executable(module)
    assert [bytes(c.data) for c in back.constants] == [bytes(c.data) for c in ways]
    assert [c.order for c in back.constants] == [[], [1, 0], [], []]
    assert bytes(write_executable(back)) == module


@given(st.data())
def test_damaged_bytes_are_refused_or_still_an_executable(data: st.DataObject) -> None:
    module = bytearray(bytes(write_executable(SMALL)))
    for _ in range(data.draw(st.integers(1, 3))):
        module[data.draw(st.integers(0, len(module) - 1))] = data.draw(st.integers(0, 255))
    _read_or_refuse(bytes(module))


@given(st.integers(0, len(bytes(write_executable(SMALL))) - 1))
def test_a_cut_module_is_refused(end: int) -> None:
    with pytest.raises(LiteRtError) as error:
        read_executable(bytes(write_executable(SMALL))[:end])
    assert error.value.status is Status.SERIALIZATION and error.value.hint


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(LiteRtError):
        read_executable(data)


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(),
    st.just([]),
    st.just({}),
)


@given(st.data())
def test_a_header_with_any_other_value_is_refused_or_still_an_executable(
    data: st.DataObject,
) -> None:
    header, rest = _split(bytes(write_executable(SMALL)))
    value: object = header
    while True:  # put another value at a random place in the header
        assert isinstance(value, (dict, list))
        key = data.draw(
            st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value)))
        )
        child = value[key]
        if not isinstance(child, (dict, list)) or not child or data.draw(st.booleans()):
            value[key] = data.draw(leaves)
            break
        value = child
    _read_or_refuse(_join(header, rest))


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (["functions", 0, "tasks", 0, "program"], 1, "program: the value is 1, but must be 0"),
        (["functions", 0, "tasks", 0, "program"], -1, "program: the value is -1, but must be 0"),
        (["functions", 0, "tasks", 0, "arguments", 1, "index"], 2, "constant index 2 is out of range"),
        (["functions", 0, "tasks", 0, "arguments", 2, "offset"], 128, "16 bytes at offset 128 do not fit"),
        (["functions", 0, "tasks", 0, "arguments", 2, "offset"], 8, "offset 8 is not a multiple of 64"),
        (["functions", 0, "tasks", 0, "arguments", 6, "offset"], 192, "16 bytes at offset 192 do not fit"),
        (["functions", 0, "tasks", 0, "num_shaves"], -1, "-1 is not in the range 0"),
        (["functions", 0, "tasks", 0, "zeroed"], [99], "argument index 99 is out of range: the 7 arguments"),
        (["functions", 0, "tasks", 0, "zeroed"], [0], "an argument of kind input cannot be filled with zeros"),
        (["functions", 0, "tasks", 0, "arguments", 2, "kind"], "dram", "unknown value 'dram'"),
        (["functions", 0, "tasks", 0, "arguments", 4, "scalar"], "0g", "not consist of two hexadecimal digits"),
        (["functions", 0, "tasks", 0, "global_size"], [1, 1, 1, 1], "4 elements, but must have 1 to 3"),
        (["functions", 0, "tasks", 0, "global_size"], [2**32, 2**32, 1], "work items, but at most"),
        (["functions", 0, "tasks", 0, "local_size"], [3, 1, 1], "is not a multiple of local size"),
        (["functions", 0, "tasks", 0, "local_size"], [2, 1], "must have equally many dimensions"),
        (["functions", 0, "tasks", 0, "entry"], "a b", "'a b' is not a kernel name"),
        (["functions", 0, "tasks", 1, "commands"], [], "0 elements, but must have 1"),
        (["functions", 0, "tasks", 1, "commands", 0, 0], "Clip", "does not describe instruction 'Clip'"),
        (["functions", 0, "tasks", 1, "commands", 0, 1], [1, 2], f"2 elements, but must have {len(POOL_WORDS)}"),
        (["functions", 0, "tasks", 1, "commands", 0, 1, 1], 3, "3 is not in the range 0 to 2"),
        (["functions", 0, "tasks", 1, "commands", 0, 1, 2], 2**32, "is not in the range 0 to"),
        (["functions", 0, "tasks", 1, "commands", 0, 1, 1], [0, 0], "refers to an argument by a formula"),
        (["functions", 0, "tasks", 1, "arguments", 1, "index"], 1, "output index 1 is out of range"),
        (["functions", 0, "tasks", 1, "arguments", 1], {"kind": "local", "size_bytes": 1}, "kind local"),
        (["instructions", 0, 1, 2], "long size", "'long size' is not the type and name of a field"),
        (
            ["functions", 0, "tasks", 0, "arguments", 0],
            {"kind": "input", "offset": 64},
            "cannot have the field 'offset'",
        ),
        (["functions", 0, "tasks", 0, "arguments", 4], {"kind": "scalar"}, "the scalar has no bytes"),
        (
            ["functions", 0, "tasks", 1, "commands", 0, 1, 5], [0, 0],
            "dynamic shape index 0 is out of range: there are no dynamic shapes",
        ),
        (["constants", 0, "type"], ["INT8", [3]], "the constant of type tensor<3xi8> needs a scale, but has none"),
        (["constants", 1, "type"], ["FLOAT32", [1]], "a constant of type tensor<1xf32> cannot be dequantized"),
        (["constants", 0], {"type": ["FLOAT16", []], "offset": 0, "panel": 16}, "tensor<f16> cannot have panels"),
        (["constants", 1, "panel"], -1, "-1 is not in the range 0"),
        (["functions", 0, "inputs", 0], ["FLOAT32", [-1]], "-1 is not in the range 0"),
        (["functions", 0, "inputs", 0], ["STRING", [1]], "a tensor of type STRING and shape [1] is not supported"),
        (["functions", 0, "inputs", 0], ["FLOAT32", [2**31 - 1] * 3], "2147483647] is too large"),
        (["constants", 0, "offset"], 64, "unchanged"),
        (["constants", 1, "offset"], 128, "6 bytes at offset 128 do not fit into the 128 bytes of data"),
        (["constants", 1, "offset"], 1, "offset 1 is not a multiple of 64"),
        (["constants", 1, "type"], ["INT8", [2, 400]], "800 bytes at offset 64 do not fit into"),
        (["constants", 1, "dequantization", "dimension"], 1, "2 scales"),
        (["constants", 1, "dequantization", "scale"], [0.5, 1e999], "not a finite number"),
        (["constants", 1, "order"], [1, 1], "is not a valid dimension order"),
        (["constants", 1, "order"], [1, 2], "2 is not in the range 0"),
        (["constants", 1, "order"], [0], "1 element, but must have"),
        (["constants", 1, "order"], [0, 1, 0], "3 elements, but must have"),
        (["programs", 0, "sources", 0, "file_name"], "../k.cl", "not a path inside"),
        (["programs", 0, "sources", 0, "sha256"], "AB" * 32, "the value is not a SHA-256 in"),
        (["programs", 0, "prelude"], "a\0b", "NUL"),
        (["programs", 0, "preludes"], "", "Did you mean 'prelude'?"),
    ],
)  # fmt: skip
def test_each_index_offset_size_and_name_is_checked(
    path: list[str | int], value: object, says: str
) -> None:
    header, rest = _split(bytes(write_executable(SMALL)))
    place: object = header
    for step in path[:-1]:
        place = place[step]  # type: ignore[index]
    place[path[-1]] = value  # type: ignore[index]
    if says == "unchanged":
        read_executable(_join(header, rest))
        return
    with pytest.raises(LiteRtError) as error:
        read_executable(_join(header, rest))
    assert says in str(error.value)


TAPPED = replace(
    SMALL,
    functions=[
        replace(
            SMALL.functions[0],
            taps=[
                Tap("t", 0, SMALL.functions[0].tasks[0].arguments[2], RankedTensorType.of(F32, ())),
                Tap(
                    "y", 1, Argument(ArgumentKind.OUTPUT), RankedTensorType.of(F32, (2, 2)), (2, 1)
                ),
            ],
        )
    ],
)


def test_tensors_that_are_shown_survive() -> None:
    assert _comparable(read_executable(bytes(write_executable(TAPPED)))) == _comparable(TAPPED)


@pytest.mark.parametrize(
    ("tap", "field", "value", "says"),
    [
        (1, "task", 2, "2 is not in the range 0 to 1"),
        (1, "name", "t", "the tensor 't' occurs twice"),
        (0, "argument", {"kind": "input"}, "argument of kind input"),
        (1, "argument", {"kind": "output", "index": 1}, "output index 1 is out of range"),
        (0, "argument", {"kind": "ddr", "offset": 64, "size_bytes": 65}, "65 bytes at offset 64 do not fit"),
        (0, "strides", [1], "1 element, but must have 0"),
        (1, "strides", [2], "1 element, but must have 2"),
        (1, "strides", [3, 1], "does not fit into its 16 bytes"),
        (1, "offset", 1, "does not fit into its 16 bytes"),
    ],
)  # fmt: skip
def test_tensors_that_are_shown_lie_where_a_task_writes(
    tap: int, field: str, value: object, says: str
) -> None:
    header, rest = _split(bytes(write_executable(TAPPED)))
    header["functions"][0]["taps"][tap][field] = value  # type: ignore[index]
    with pytest.raises(LiteRtError) as error:
        read_executable(_join(header, rest))
    assert error.value.status is Status.SERIALIZATION and says in error.value.what


def test_a_module_is_refused_where_the_stack_has_no_room_for_it() -> None:
    depth, frame = 0, inspect.currentframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    module, limit = bytes(write_executable(SMALL)), sys.getrecursionlimit()
    refusals = []
    for room in range(12, 40):
        sys.setrecursionlimit(depth + room)
        try:
            read_executable(module)
        except LiteRtError as error:
            refusals.append(error)
        finally:
            sys.setrecursionlimit(limit)
    assert {error.status for error in refusals} == {Status.SERIALIZATION}
    assert any("this thread's stack" in error.what for error in refusals)


def test_large_constants_of_a_file_are_copied_into_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytes(range(256)) * 16
    (tmp_path / "weights").write_bytes(data)
    monkeypatch.setattr(byte_code, "_SPOOLED_SIZE", 4096)
    with MappedFile(tmp_path / "weights") as file:
        stored = Constant(RankedTensorType.of(I8, (4096,)), file.blob())
        small = Constant(RankedTensorType.of(I8, (3,)), Blob(b"abc"))
        made = Executable("Ref1", [], [], [stored, small])
        module = write_executable(made)
        assert module.file is not None
        monkeypatch.undo()
        assert bytes(module) == bytes(write_executable(made))
        monkeypatch.setattr(byte_code, "_SPOOLED_SIZE", 4096)
        os.truncate(tmp_path / "weights", 100)
        with pytest.raises(
            LiteRtError, match="another program shortened the model's file meanwhile"
        ) as error:
            write_executable(made)
        assert error.value.status is Status.FILE_IO


def test_two_functions_of_one_name_are_refused() -> None:
    twice = replace(SMALL, functions=[*SMALL.functions, *SMALL.functions])
    with pytest.raises(LiteRtError, match="there are two functions named 'call'"):
        read_executable(bytes(write_executable(twice)))


def test_instructions_are_those_that_the_firmware_has() -> None:
    assert read_module(write_executable(SMALL).view).instructions == [POOL]
    other = replace(SMALL, instructions=[replace(POOL, fields=(*POOL.fields, POOL.fields[-1]))])
    arguments = SMALL.functions[0].tasks[1].arguments
    task = LayerTask("RELU", arguments, [LayerCommand("Pool", [*POOL_WORDS, 0])])
    functions = [replace(SMALL.functions[0], tasks=[task])]
    with pytest.raises(
        LiteRtError, match="instruction 'Pool' in a form that the installed firmware does not know"
    ) as error:
        read_module(write_executable(replace(other, functions=functions)).view)
    assert error.value.status is Status.INCOMPATIBLE_BYTE_CODE_VERSION


def test_a_function_that_is_not_there_is_an_error_with_those_that_are() -> None:
    functions = {"call": SMALL.functions[0]}
    assert find_function(functions, "call") is SMALL.functions[0]
    for known, says in ((functions, "The only function is call"), ({}, "There are no functions")):
        with pytest.raises(LiteRtError, match=rf"no function 'f'\. {says}\.") as error:
            find_function(known, "f")
        assert error.value.status is Status.NOT_FOUND


def _with_fp16(**changes: Any) -> Executable:
    """Returns `SMALL` with a variant for fp16 arithmetic after its function."""
    (call,) = SMALL.functions
    return replace(SMALL, functions=[call, replace(call, needs_fp16=True, **changes)])


def test_a_function_for_fp16_arithmetic_has_the_name_of_the_one_whose_place_it_takes() -> None:
    made = _with_fp16(cmx_size=256)
    read = read_executable(write_executable(made).view)
    assert _comparable(read) == _comparable(made)
    common, with_fp16 = read.functions
    assert read.functions_on(has_fp16=False) == {"call": common}
    assert read.functions_on(has_fp16=True) == {"call": with_fp16}
    assert with_fp16.needs_fp16 and not common.needs_fp16


@pytest.mark.parametrize(
    ("functions", "what"),
    [
        (
            _with_fp16().functions[1:],
            "is the variant for fp16 of a function that does not exist",
        ),
        (
            _with_fp16().functions[::-1],
            "is the variant for fp16 of a function that does not exist",
        ),
        (
            [*_with_fp16().functions, _with_fp16().functions[1]],
            "there are two functions named 'call'",
        ),
        (
            _with_fp16(name="other").functions,
            "is the variant for fp16 of a function that does not exist",
        ),
        (
            _with_fp16(outputs=[RankedTensorType.of(F32, (2, 4))]).functions,
            "the fp16 variant of function 'call' has different inputs or outputs",
        ),
    ],
    ids=["alone", "before it", "twice", "of another name", "other outputs"],
)
def test_a_function_for_fp16_arithmetic_that_takes_no_place_is_refused(
    functions: Sequence[Function], what: str
) -> None:
    module = write_executable(replace(SMALL, functions=functions)).view
    with pytest.raises(LiteRtError) as error:
        read_executable(module)
    assert error.value.status is Status.SERIALIZATION and what in error.value.what


def test_a_module_of_the_version_before_is_refused() -> None:
    """Checks version 2, which may lack the fp16 variants that the current version needs."""
    module = bytearray(write_executable(SMALL).view)
    module[8] = 2
    with pytest.raises(LiteRtError) as error:
        read_executable(bytes(module))
    assert error.value.status is Status.INCOMPATIBLE_BYTE_CODE_VERSION
    assert "Compile the model again" in error.value.hint


def test_another_version_is_refused_with_both_numbers() -> None:
    module = bytearray(bytes(write_executable(SMALL)))
    module[8] = VERSION + 1
    with pytest.raises(LiteRtError) as error:
        read_executable(bytes(module))
    assert error.value.status is Status.INCOMPATIBLE_BYTE_CODE_VERSION
    assert (
        f"the byte code has version {VERSION + 1}, but the installed vendor 'Reference' reads only version "
        f"{VERSION}" in str(error.value)
    )


def test_a_header_nested_without_end_is_refused() -> None:
    text = b"[" * 200_000
    module = PREFIX.pack(MAGIC, VERSION, len(text), PREFIX.size + len(text)) + text
    with pytest.raises(LiteRtError):
        read_executable(module)


def _comparable(executable: Executable) -> str:
    constants = [replace(c, data=Blob(b"")) for c in executable.constants]
    return (
        repr(replace(executable, constants=constants))
        .replace("(", "[")
        .replace(",)", "]")
        .replace(")", "]")
    )


def _read_or_refuse(module: bytes) -> None:
    try:
        executable = read_executable(module)
    except LiteRtError:
        return
    write_executable(executable)


def _split(module: bytes) -> tuple[dict[str, object], bytes]:
    _, _, size, _ = PREFIX.unpack_from(module)
    header = json.loads(module[PREFIX.size : PREFIX.size + size])
    return header, module[align(PREFIX.size + size) :]


def _join(header: object, rest: bytes) -> bytes:
    text = json.dumps(header).encode()
    start = align(PREFIX.size + len(text))
    prefix = PREFIX.pack(MAGIC, VERSION, len(text), start + len(rest))
    return (prefix + text).ljust(start, b"\0") + rest
