from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from litert.abi.definitions import ffi
from litert.abi.definitions_generator import TARGET, generate
from litert.abi.headers import HEADERS, INCLUDE_FOLDER, read_contract


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


@pytest.mark.parametrize(
    ("compiler", "standard", "suffix"), [("gcc", "c11", ".c"), ("g++", "c++17", ".cc")]
)
def test_each_header_compiles_alone(
    compiler: str, standard: str, suffix: str, tmp_path: Path
) -> None:
    for header in HEADERS:
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
