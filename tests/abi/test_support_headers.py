"""Tests each header of the support library for C vendors, also in edge cases, in C and C++, with sanitizers."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from litert.abi.headers import INCLUDE_FOLDER, RULE, read_contract
from tests.sanitizers import ADDRESSES, sanitizer_flags

HEADERS = sorted(Path(INCLUDE_FOLDER, "litert_npu", "support").glob("*.h"))
PROGRAMS = Path(__file__).with_name("support")
LANGUAGES = {"C": ("gcc", "-std=c11", "-xc"), "C++": ("g++", "-std=c++17", "-xc++")}
PARTS = {
    "compiler": (
        "compiled_result", "custom_op_assets", "identity", "op_info", "plugin_options", "shape_bounds",
    ),
    "dispatch": ("buffer_table", "counters", "errors", "host_memory", "identity", "ports"),
    "guide": ("contexts", "creation", "room"),
}  # fmt: skip


def compiler(language: str) -> Sequence[str]:
    """Returns the start of a compiler command that treats warnings as errors."""
    if shutil.which(LANGUAGES[language][0]) is None:
        pytest.skip(f"{LANGUAGES[language][0]} is not here")
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
    return [*LANGUAGES[language], *warnings, f"-I{INCLUDE_FOLDER}"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.stem)
def test_each_header_compiles_alone(header: Path, language: str, tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    include = f'#include "litert_npu/support/{header.name}"\n'
    source.write_text(f"{include}{include}int main(void) {{ return 0; }}\n")
    warnings = ["-Wconversion", "-Wsign-conversion", "-Wcast-qual"]
    subprocess.run([*compiler(language), *warnings, "-fsyntax-only", str(source)], check=True)


def build(program: str, language: str, folder: Path, *options: str) -> Path:
    command = [*compiler(language), *sanitizer_flags(ADDRESSES, folder), *options, "-rdynamic"]
    output = folder / program
    command += [str(PROGRAMS / f"{program}.c"), "-o", str(output), "-ldl"]
    subprocess.run(command, check=True)
    return output


def run(program: Path, part: str) -> str:
    """Runs a part of a program, checks that it succeeds, and returns its messages."""
    done = subprocess.run([program, part], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("program", PARTS)
def test_each_part_does_what_its_header_says(program: str, language: str, tmp_path: Path) -> None:
    built = build(program, language, tmp_path, "-DHAS_ASSETS")
    said = {part: run(built, part) for part in PARTS[program]}
    if program == "compiler":
        refusal = "ERROR: [Tin] there is no SoC model 'T3'; the default is T1\n"
        assert said.pop("identity") == refusal
    elif program == "dispatch":
        assert said.pop("errors") == f"ERROR: [Tin] 50%\nERROR: [Tin] {'x' * 511}\n"
    assert set(said.values()) == {""}


def test_a_host_without_custom_op_infos_has_no_assets(tmp_path: Path) -> None:
    assert run(build("compiler", "C", tmp_path), "custom_op_assets") == ""


def test_a_description_that_is_missing_is_an_error_of_the_linker(tmp_path: Path) -> None:
    source = tmp_path / "plugin.c"
    source.write_text('#include "litert_npu/support/plugin_identity.h"\n')
    command = [*compiler("C"), "-shared", "-fPIC", str(source), "-o", str(tmp_path / "plugin.so")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "kLiteRtNpuPlugin" in done.stderr


def test_the_contract_is_written_once() -> None:
    contract = read_contract()
    for header in HEADERS:
        text = header.read_text()
        assert not any(RULE.match(line) for line in text.splitlines()), header
        assert set(re.findall(r"\[([a-z_]+\.[a-z_]+)\]", text)) <= set(contract), header


def test_the_guide_has_each_header() -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs" / "vendors.md").read_text()
    rows = re.findall(r"^\| (`\w+\.h`.*?) \|", guide, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"\w+\.h", row)]
    assert sorted(listed) == [header.name for header in HEADERS]
