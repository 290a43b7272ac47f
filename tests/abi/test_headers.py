from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from litert.abi import contract_document
from litert.abi.definitions import ffi
from litert.abi.definitions_generator import TARGET, generate
from litert.abi.headers import (
    HEADERS,
    INCLUDE_FOLDER,
    declarations,
    header_path,
    read_contract,
)
from litert.core.status import Status
from litert.model.schema import BUILTIN_OPERATORS, ENUMS

COMPILERS = [("gcc", "c11", ".c"), ("g++", "c++17", ".cc")]
needs_compilers = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("g++")), reason="gcc or g++ is not here"
)


def test_the_definitions_are_those_of_the_headers(tmp_path: Path) -> None:
    generate(str(tmp_path / "definitions.py"))
    assert (tmp_path / "definitions.py").read_bytes() == Path(TARGET).read_bytes()


@pytest.mark.parametrize(
    ("struct", "size"),
    [
        ("LiteRtCompilerContext", 1408),
        ("LiteRtRuntimeContext", 416),
        ("LiteRtDispatchApi", 56),
        ("LiteRtDispatchInterface", 208),
        ("LiteRtCustomTensorBufferHandlersDef", 136),
        ("LiteRtRankedTensorType", 72),
        ("LiteRtLayout", 68),
        ("LiteRtAny", 16),
        ("LiteRtMemBuffer", 40),
        ("LiteRtSchedulingInfo", 40),
    ],
)
def test_structs_are_as_large_as_stocks(struct: str, size: int) -> None:
    assert ffi.sizeof(struct) == size


def test_what_the_header_says_of_options_are_the_schemas_numbers() -> None:
    enums = {
        "fused activation": "ActivationFunctionType",
        "A padding": "Padding",
        "mirror pad": "MirrorPadMode",
        "A weights format": "FullyConnectedOptionsWeightsFormat",
    }
    text = " ".join(Path(header_path("compiler_context.h")).read_text().replace("*", " ").split())
    for words, enum in enums.items():
        said = text.split(f"{words} is ", 1)[1].split(". ")[0]
        numbers = {int(number): name for name, number in re.findall(r"(\w+) \((\d+)\)", said)}
        assert numbers == ENUMS[enum], enum


def test_slots_are_where_stock_has_them() -> None:
    offset = {name: field.offset for name, field in ffi.typeof("LiteRtCompilerContext").fields}
    assert offset["push_op"] == 264
    assert offset["get_strided_slice_begin_mask_option"] == 304
    assert offset["get_custom_options"] == 1032
    assert offset["get_block_wise_quantization"] == 1096
    assert offset["get_split_v_num_splits_option"] == 1400
    runtime = {name: field.offset for name, field in ffi.typeof("LiteRtRuntimeContext").fields}
    assert runtime["get_tensor_buffer_custom_tensor_buffer_handle"] == 264
    assert runtime["append_metric"] == 408


@needs_compilers
@pytest.mark.parametrize(("compiler", "standard", "suffix"), COMPILERS)
def test_each_header_compiles_alone(
    compiler: str, standard: str, suffix: str, tmp_path: Path
) -> None:
    for header in (*HEADERS, "op_codes.h"):
        source = tmp_path / f"main{suffix}"
        source.write_text(f'#include "litert_npu/{header}"\nint main(void) {{ return 0; }}\n')
        command = [compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        command += [f"-I{INCLUDE_FOLDER}", "-fsyntax-only", str(source)]
        subprocess.run(command, check=True)


def test_each_rule_of_the_contract_says_something_about_a_function() -> None:
    contract = read_contract()
    assert len(contract) > 60
    for rule in contract.values():
        assert rule.text.endswith("."), rule
        assert rule.function, rule
    assert contract["invoke.written"].function == "invoke"
    assert contract["result.nothing"].function == "LiteRtCompiledResultNumByteCodeModules"


def test_the_contract_s_document_is_the_headers() -> None:
    assert Path(contract_document.TARGET).read_text() == contract_document.document()


def test_each_function_and_slot_is_in_the_document() -> None:
    text = contract_document.document()
    tables = ("Context", "Interface")
    structs = [
        ffi.typeof(f"struct {name}") for name in ffi.list_types()[1] if name.endswith(tables)
    ]
    slots = {name for struct in structs for name, _ in struct.fields} - {"abi_header"}
    exports = set(re.findall(r"\b(LiteRt\w+)\(", declarations())) - {"LiteRtStatus"}
    assert len(slots) > 250 and len(exports) > 20
    for name in slots | exports:
        assert re.search(rf"(###+ |`){name}\b", text), name
    for rule in read_contract().values():
        assert f"- **{rule.name}**: {rule.text}\n" in text


def test_names_of_ops_are_the_schema_s() -> None:
    entries = re.findall(
        r"kLiteRtOpCode(?:Tfl|Shlo)(\w+) = (\d+)", Path(header_path("op_codes.h")).read_text()
    )
    names = {int(number): name.lower() for name, number in entries}
    names[127] = "placeholderforgreateropcodes"  # stock's header has other words for these three
    names[197], names[198] = "dotgeneral", "reducewindow"
    schema = {n: name.removeprefix("STABLEHLO_") for n, name in BUILTIN_OPERATORS.items()}
    assert names == {number: name.replace("_", "").lower() for number, name in schema.items()}


def test_status_codes_are_ours() -> None:
    codes = ffi.typeof("LiteRtStatus").relements
    ours = {status.name.replace("_", "").lower(): int(status) for status in Status}
    assert {
        re.sub("^kLiteRtStatus(Error)?", "", name).lower(): number for name, number in codes.items()
    } == ours


@needs_compilers
def test_a_c_compiler_lays_structs_out_as_cffi_does(tmp_path: Path) -> None:
    lines = ["#include <assert.h>", *(f'#include "litert_npu/{header}"' for header in HEADERS)]
    for name in re.findall(r"^\} (\w+);", declarations(), flags=re.M):
        struct = ffi.typeof(name)
        if struct.kind != "struct":
            continue
        lines.append(f'static_assert(sizeof({name}) == {ffi.sizeof(struct)}, "{name}");')
        for field, member in struct.fields:
            if field and member.bitsize == -1:
                where = f"offsetof({name}, {field}) == {member.offset}"
                lines.append(f'static_assert({where}, "{name}.{field}");')
    assert len(lines) > 300
    for compiler, standard, suffix in COMPILERS:
        source = tmp_path / f"layout{suffix}"
        source.write_text("\n".join(lines))
        command = [compiler, f"-std={standard}", f"-I{INCLUDE_FOLDER}", "-fsyntax-only"]
        subprocess.run([*command, str(source)], check=True)


def test_the_headers_folder_is_printed_for_compilers() -> None:
    done = subprocess.run([sys.executable, "-m", "litert.abi"], capture_output=True, text=True)
    assert done.stdout == f"{INCLUDE_FOLDER}\n"
