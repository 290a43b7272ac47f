"""Tests the scripts of `litert-npu completion` in the shells themselves."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from litert_npu_tools.command_words import find_programs, takes_value
from litert_npu_tools.completion_command import SCRIPTS, completion_script

from litert.core.option import Flag
from tests.tools.conftest import LitertNpu

ZSH = os.environ.get("LITERT_NPU_TEST_ZSH") or shutil.which("zsh")

# Sets bash's variables for a completion function. Unless $2 is "whole", = is a word of its own.
ASK = r"""
source ./completion
compopt() { :; }
line=$1
if [[ $2 == whole ]]; then parted=$line; else parted=${line//=/ = }; fi
read -ra COMP_WORDS <<<"$parted"
[[ $line == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line}
_litert_npu "${COMP_WORDS[0]}"
((${#COMPREPLY[@]})) && printf '%s\n' "${COMPREPLY[@]}"
exit 0
"""


@pytest.fixture
def folder(in_folder: Path) -> Path:
    (in_folder / "completion").write_text(completion_script("bash"))
    (in_folder / "my_op.cl").write_text("")
    (in_folder / "my_ops").mkdir()
    return in_folder


def complete(line: str, breaks: str = "") -> list[str]:
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", line, breaks], capture_output=True, text=True
    )
    assert not done.returncode and not done.stderr
    return done.stdout.splitlines()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("litert-npu ins", ["inspect"]),
        ("litert-npu layer tu", ["tune"]),
        ("litert-npu vendor ", ["check", "export", "new"]),
        ("litert-npu completion ", ["bash", "zsh"]),
        ("litert-npu --v", ["--version"]),
        ("litert-npu run --thr", ["--threads="]),
        ("litert-npu run model.tflite --is", ["--isolate"]),
        ("litert-npu coverage --report=", ["text", "json", "csv"]),
        ("litert-npu coverage --report=j", ["json"]),
        ("litert-npu coverage --report j", ["json"]),
        ("litert-npu coverage --fail_under=", []),
        ("litert-npu layer build -", ["-o"]),
        ("litert-npu run mod", []),  # bash completes the file name itself
        ("apply_plugin --cmd=p", ["partition"]),
        ("apply_plugin --reference_o", ["--reference_ops="]),
        ("apply_plugin --nocheck", ["--nocheck_kernels"]),
        ("apply_plugin --npu_custom_op_info=MyOp,my", ["MyOp,my_op.cl", "MyOp,my_ops/"]),
        ("bin/apply_plugin_main --cmd=n", ["noop"]),
        ("litert-npu nothing --", ["--help", "--version"]),
    ],
)
def test_bash_completes(line: str, words: list[str]) -> None:
    assert sorted(set(words) - set(complete(line))) == []
    if not line.endswith(" -"):
        assert sorted(complete(line)) == sorted(words)


@pytest.mark.usefixtures("folder")
def test_bash_completes_where_an_equals_sign_parts_no_words() -> None:
    assert complete("litert-npu run --report=j", "whole") == ["--report=json"]
    assert sorted(complete("apply_plugin --html=my_o", "whole")) == [
        "--html=my_op.cl",
        "--html=my_ops/",
    ]


@pytest.mark.usefixtures("folder")
def test_a_switch_takes_no_value() -> None:
    assert complete("litert-npu layer --help ") == ["build", "check", "new", "run", "stub", "tune"]
    assert complete("litert-npu run --debug --q") == ["--quiet"]


@pytest.mark.parametrize("shell", SCRIPTS)
def test_each_command_and_flag_is_in_the_script(shell: str) -> None:
    script = completion_script(shell)
    for name, words in find_programs().items():
        assert f"'{name}')" in script
        assert all(_name(flag) in script for flag in words.flags)


def _name(flag: Flag) -> str:
    sign = "-" if len(flag.name) == 1 else "--no" if flag.default is True else "--"
    return f"{sign}{flag.name}{'=' if takes_value(flag) and sign == '--' else ''}"


def test_another_shell_is_an_error(
    litert_npu: LitertNpu, capsys: pytest.CaptureFixture[str]
) -> None:
    assert litert_npu("completion", "bsh") == 2
    printed = capsys.readouterr().err
    assert "litert-npu completion does not know the shell 'bsh'" in printed
    assert "Did you mean 'bash'? Give one of bash, zsh." in printed


@pytest.mark.skipif(not ZSH, reason="no zsh on this machine")
@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("litert-npu insp", "litert-npu inspect "),
        ("litert-npu vendor exp", "litert-npu vendor export "),
        ("litert-npu run --isol", "litert-npu run --isolate "),
        ("litert-npu run --report=j", "litert-npu run --report=json "),
        ("apply_plugin --cmd=par", "apply_plugin --cmd=partition "),
        ("apply_plugin --model=my_op.", "apply_plugin --model=my_op.cl "),
    ],
)
def test_zsh_completes(folder: Path, typed: str, shown: str) -> None:
    (folder / "completion").write_text(completion_script("zsh"))
    process, terminal = pty.fork()
    if not process:
        os.execve(str(ZSH), ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb", "PS1": "> "})
    said = ""

    def read_until(text: str) -> None:
        nonlocal said
        end = time.monotonic() + 60
        while text not in said and time.monotonic() < end:
            if select.select([terminal], [], [], 1)[0]:
                said += os.read(terminal, 4096).decode()
        assert text in said, said

    try:
        os.write(terminal, b"autoload -U compinit; compinit -u -D; . ./completion; echo re''ady\n")
        read_until("ready")
        os.write(terminal, f"{typed}\t".encode())
        read_until(shown)
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
        os.close(terminal)
