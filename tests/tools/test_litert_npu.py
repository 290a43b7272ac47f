"""Tests the command line of `litert-npu`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from absl.flags import FlagValues
from litert_npu_tools import apply_plugin, help_text
from litert_npu_tools import litert_npu as tool
from litert_npu_tools.command import Command, run_guarded

from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.status import Status
from litert.core.version import SDK_VERSION
from tests.terminals import Terminal
from tests.tools.conftest import LitertNpu

Capture = pytest.CaptureFixture[str]
COMMAND = (
    "import sys; from litert_npu_tools.litert_npu import run; sys.argv[0] = 'litert-npu'; run()"
)


@pytest.mark.parametrize("name", ["", *tool.COMMANDS])
def test_each_command_explains_itself(
    litert_npu: LitertNpu, capsys: Capture, golden: Callable[[str, str], None], name: str
) -> None:
    arguments = [name] if name else []
    assert litert_npu(*arguments, "--help") == 0
    golden(f"help_{name or 'all'}.txt", capsys.readouterr().out)


def test_each_command_has_its_file() -> None:
    folder = Path(tool.__file__).parent
    assert {f"{name}_command.py" for name in tool.COMMANDS} == {
        path.name for path in folder.glob("*_command.py")
    }


def test_without_a_command_help_is_shown(litert_npu: LitertNpu, capsys: Capture) -> None:
    assert litert_npu() == 0
    assert "litert-npu inspect" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["inspect", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        f"import sys; from litert_npu_tools.litert_npu import main; main(['x', *{arguments}]);"
        "assert not {'numpy', 'absl.app', 'ai_edge_litert', 'pyopencl'} & set(sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["launch"], "litert-npu has no command 'launch'"),
        (["runn"], "Did you mean 'run'?"),
        (["vendor", "exprot"], "Did you mean 'export'?"),
        (["info", "--report=jsn"], "Did you mean --report=json? Allowed values: text, json."),
        (["benchmark", "a", "--soc_manufactuer=b"], "Did you mean --soc_manufacturer?"),
        (["benchmark", "a", "--referense_ops=all"], "Did you mean --reference_ops?"),
        (
            ["benchmark", "a", "--threads=two"],
            "--threads=two: the flag needs a whole number from 1 to 2147483647",
        ),
        (
            ["benchmark", "a", "--quiet=maybe"],
            "--quiet=maybe: the flag needs the value true or false",
        ),
        (["inspect"], "needs 1 argument, but the command line has 0"),
        (["inspect", "a", "b"], "needs 1 argument, but the command line has 2"),
        (["inspect", "a", "--dmup"], "no flag '--dmup'. Did you mean --dump?"),
        (
            ["inspect", "a", "--report=xml"],
            "--report has the unknown value 'xml'. Allowed values: text, json.",
        ),
        (["benchmark", "a", "--runs=many"], "--runs=many"),
        (["info", "a"], "needs 0 arguments, but the command line has 1"),
        (["run", "/no/such/file"], "no such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_gives_one_line(
    litert_npu: LitertNpu, capsys: Capture, arguments: list[str], said: str
) -> None:
    assert litert_npu(*arguments) == 2
    printed = capsys.readouterr()
    assert said in printed.err and len(printed.err.splitlines()) == 1 and not printed.out


def raising(error: BaseException) -> Callable[..., int]:
    def main(_: object) -> int:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (LiteRtError(Status.NOT_FOUND, "nothing", "here"), 2, "NOT_FOUND: nothing (here)."),
        (KeyboardInterrupt(), 130, "CANCELLED"),
        (LiteRtError(Status.CANCELLED, "interrupted", "x.py:7"), 130, "interrupted (x.py:7)"),
        (MemoryError(), 2, "out of memory, at "),
        (MemoryError("no room for 8 bytes"), 2, "out of memory: no room for 8 bytes"),
        (SystemExit(0), 2, "tried to end the process: SystemExit: 0. --debug shows this code."),
        (OSError(5, "I/O error", "a/b"), 2, "FILE_IO: a system call failed: i/o error (a/b)."),
        (ZeroDivisionError("division"), 2, "ZeroDivisionError: division. This is a defect"),
    ],
    ids=[
        "ours", "Ctrl-C", "Ctrl-C in an extension", "memory", "so much memory", "a driver that exits", "disk",
        "defect",
    ],
)  # fmt: skip
def test_an_error_is_one_message_and_a_traceback_only_with_debug(
    capsys: Capture, error: BaseException, status: int, said: str
) -> None:
    assert run_guarded(raising(error), ["litert-npu"]) == status
    printed = capsys.readouterr().err
    assert said in printed and "Traceback" not in printed
    assert run_guarded(raising(error), ["litert-npu", "--debug"]) == status
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error(compiled: str) -> None:
    process = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f'"$0" -c "$1" inspect --dump {compiled} | true',
         sys.executable, COMMAND],
        capture_output=True, text=True,
    )  # fmt: skip
    assert not process.stderr and process.returncode == 141


@pytest.mark.parametrize("command", ["--help", "layer", "inspect --dump MODEL"])
def test_an_output_that_cannot_be_written_is_said_in_words(compiled: str, command: str) -> None:
    line = command.replace("MODEL", compiled)
    process = subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" {line} >/dev/full', sys.executable, COMMAND],
        capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode == 2
    said = "FILE_IO: cannot write: no space left on device (standard output).\n"
    assert process.stderr == said


def test_where_nobody_can_be_told_the_status_says_it() -> None:
    process = subprocess.run(
        ["bash", "-c", '"$0" -c "$1" inspect nowhere.tflite 2>/dev/full', sys.executable, COMMAND],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (process.returncode, process.stdout, process.stderr) == (2, "", "")


@pytest.mark.parametrize("program", ["litert-npu", "apply_plugin", "apply_plugin_main"])
def test_each_program_says_its_version(program: str, capsys: Capture) -> None:
    main = tool.guarded_main if program == "litert-npu" else apply_plugin.guarded_main
    assert main([f"/usr/bin/{program}", "--version"]) == 0
    ours = "" if program == "litert-npu" else "(litert-npu) "
    assert capsys.readouterr().out == f"{program} {ours}{SDK_VERSION}\n"


@pytest.mark.parametrize(
    ("columns", "variable", "width"),
    [(72, "", 72), (72, "60", 60), (40, "", 40), (300, "", 100), (72, "many", 72), (0, "", 100)],
)
def test_help_has_the_width_of_the_terminal(
    columns: int, variable: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", variable)
    with Terminal() as terminal:
        terminal.resize(columns)
        monkeypatch.setattr(sys, "stdout", terminal.stream)
        assert help_text.help_width() == width


@pytest.mark.parametrize("width", [40, 60, 100])
@pytest.mark.parametrize("arguments", [[], ["coverage", "--help"], ["layer"]])
def test_help_is_as_wide_as_it_may_be(
    litert_npu: LitertNpu,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    arguments: list[str],
) -> None:
    monkeypatch.setattr(help_text, "help_width", lambda: width)
    assert litert_npu(*arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 0.8 * width < max(map(len, lines)) <= width


def test_help_has_one_width_where_there_is_no_terminal(
    litert_npu: LitertNpu, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert litert_npu("coverage", "--help") == 0
    printed = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "50")
    assert litert_npu("coverage", "--help") == 0
    assert capsys.readouterr().out == printed and max(map(len, printed.splitlines())) <= 100


def test_flags_may_follow_arguments() -> None:
    seen: list[tuple[str, ...]] = []

    def run(flags: FlagValues, arguments: Sequence[str]) -> int:
        seen.append((flags.word, *arguments))
        return 0

    command = Command("FILE\nShows.", [Flag("word", "", "A word.")], run, 1)
    assert command.main("tool", ["file", "--word=a"]) == 0
    assert command.main("tool", ["--word", "b", "file"]) == 0
    assert seen == [("a", "file"), ("b", "file")]
