"""Tests that a failure in any function of a C plugin is reported with its name, and that no file is written."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from compiler_plugin.commands import list_plugins
from compiler_plugin.isolation.hosting import Hosting
from compiler_plugin.native.plugin_library import FUNCTIONS
from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.registry import load_point
from litert.abi.headers import INCLUDE_FOLDER
from litert.analysis.coverage import find_coverage
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.extensions import EntryPoint

Chain = Callable[..., Path]
APPLY_PLUGIN = [sys.executable, "-m", "litert_npu_tools.apply_plugin"]
LIBRARY = "libLiteRtCompilerPlugin_Acme.so"

AS_IT_IS_LOADED = (
    "dlopen",
    "LiteRtGetCompilerPluginVersion",
    "LiteRtGetCompilerPluginSocManufacturer",
    "LiteRtCreateCompilerPlugin",
    "LiteRtGetCompilerPluginSupportedHardware",
    "LiteRtGetNumCompilerPluginSupportedSocModels",
    "LiteRtGetCompilerPluginSupportedSocModel",
    "LiteRtGetCompilerPluginSDKVersion",
    "LiteRtDestroyCompilerPlugin",
)
AT_WORK = {
    "LiteRtCompilerPluginCheckCompilerCompatibility": "check_compiler_compatibility",
    "LiteRtCompilerPluginRegisterAllTransformations": "transform",
    "transformation 'Match'": "transform",
    "LiteRtCompilerPluginPartition": "partition",
    "LiteRtCompilerPluginCompile": "compile",
    "LiteRtCompiledResultNumByteCodeModules": "compile",
    "LiteRtGetCompiledResultByteCode": "compile",
    "LiteRtGetNumCompiledResultCalls": "compile",
    "LiteRtGetCompiledResultCallInfo": "compile",
    "LiteRtDestroyCompiledResult": "compile",
}


@pytest.fixture(scope="session")
def befallen(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Builds the plugin's library; returns its folder."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc, which builds the plugin")
    folder = tmp_path_factory.mktemp("befallen")
    source = Path(__file__).with_name("befallen.c")
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Werror", f"-I{INCLUDE_FOLDER}"]
    subprocess.run([*command, "-o", str(folder / LIBRARY), str(source)], check=True)
    return str(folder)


def options(folder: str, timeout_s: float = 60) -> ApplyOptions:
    return ApplyOptions("Acme", libs=[folder], hosting=Hosting(timeout_s=timeout_s))


def fails(chain: Chain, folder: str, output: Path, timeout_s: float = 60) -> LiteRtError:
    output.write_text("as it was")
    with pytest.raises(LiteRtError) as error:
        apply_plugin(chain("A", "B"), output, options(folder, timeout_s))
    assert output.read_text() == "as it was"
    assert {path.name for path in output.parent.iterdir()} == {"chain.tflite", output.name}
    return error.value


def test_all_functions_are_among_the_cases() -> None:
    assert set(FUNCTIONS) <= {*AS_IT_IS_LOADED, *AT_WORK}


def test_left_alone_it_works(chain: Chain, befallen: str, tmp_path: Path) -> None:
    report = apply_plugin(chain("A", "B"), tmp_path / "out.bin", options(befallen))
    assert len(report.npu_ops) == 2 and report.plugin.endswith(LIBRARY)


@pytest.mark.parametrize("function", AT_WORK)
def test_a_crash_at_work_names_plugin_call_and_function(
    chain: Chain, befallen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv("BEFALL", f"{function}:segv")
    error = fails(chain, befallen, tmp_path / "out.bin")
    assert error.status is Status.RUNTIME_FAILURE
    start = f"the compiler plugin {LIBRARY} crashed in {function} (SIGSEGV"
    assert error.what.startswith(start)
    assert error.what.endswith(f"starting {function}")
    assert error.where == f"{befallen}/{LIBRARY}; vendor 'Acme', in {AT_WORK[function]}"


@pytest.mark.parametrize("function", AS_IT_IS_LOADED)
def test_a_crash_as_it_is_loaded_names_plugin_and_function(
    chain: Chain, befallen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv("BEFALL", f"{function}:segv")
    error = fails(chain, befallen, tmp_path / "out.bin")
    assert error.status is Status.RUNTIME_FAILURE
    start = f"the compiler plugin {LIBRARY} crashed in {function} (SIGSEGV"
    assert error.what.startswith(start)
    assert error.where == f"{befallen}/{LIBRARY}"


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("abort", "crashed in LiteRtCompilerPluginCompile (SIGABRT"),
        ("kill", "crashed in LiteRtCompilerPluginCompile (SIGKILL"),
        ("exit", "ended with status 3 in LiteRtCompilerPluginCompile"),
        (
            "exit0",
            "ended with status 0 in LiteRtCompilerPluginCompile, before it had sent its reply",
        ),
        ("hang", "did not finish within 4 s, and was stopped in LiteRtCompilerPluginCompile"),
    ],
)
def test_other_ends_are_named_as_well(
    chain: Chain,
    befallen: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    says: str,
) -> None:
    monkeypatch.setenv("BEFALL", f"LiteRtCompilerPluginCompile:{what}")
    error = fails(chain, befallen, tmp_path / "out.bin", 4 if what == "hang" else 60)
    assert error.what.startswith(f"the compiler plugin {LIBRARY} {says}")


@pytest.mark.parametrize("function", ["Partition", "Compile"])
def test_coverage_has_a_crash_as_a_model_s_problem_and_goes_on(
    chain: Chain, befallen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv("BEFALL", f"LiteRtCompilerPlugin{function}:segv")
    path = chain("A", "B")
    paths = [str(path), str(shutil.copy(path, tmp_path / "other.tflite"))]
    for model in find_coverage(paths, options(befallen), compiles=True).models:
        assert f"crashed in LiteRtCompilerPlugin{function} (SIGSEGV" in model.problem
    asked = find_coverage(paths, options(befallen)).models
    assert [model.num_npu_ops for model in asked] == ([0, 0] if function == "Partition" else [2, 2])


def test_the_list_of_plugins_has_one_that_crashes_and_all_others(
    befallen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEFALL", "LiteRtCreateCompilerPlugin:segv")
    infos = list_plugins([befallen])
    (broken,) = [info for info in infos if info.problem]
    assert "crashed in LiteRtCreateCompilerPlugin" in broken.problem
    assert {"Null", "Reference"} <= {info.soc_manufacturer for info in infos}


def run(befall: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BEFALL": befall}
    command = [*APPLY_PLUGIN, "--soc_manufacturer=Acme", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("function", "what"),
    [("LiteRtCompilerPluginPartition", "segv"), ("LiteRtDestroyCompilerPlugin", "exit0")],
)
def test_the_command_fails_with_a_message(
    chain: Chain, befallen: str, tmp_path: Path, function: str, what: str
) -> None:
    output = tmp_path / "out.bin"
    done = run(f"{function}:{what}", f"--libs={befallen}", str(chain("A")), str(output))
    assert done.returncode == 2 and not output.exists()
    assert LIBRARY in done.stderr and function in done.stderr and not done.stdout


def test_the_command_has_a_time_limit_for_each_call(
    chain: Chain, befallen: str, tmp_path: Path
) -> None:
    done = run(
        "LiteRtCompilerPluginPartition:hang",
        f"--libs={befallen}",
        "--plugin_timeout=4",
        str(chain("A")),
        str(tmp_path / "out.bin"),
    )
    assert done.returncode == 2 and not (tmp_path / "out.bin").exists()
    assert "within 4 s, and was stopped in LiteRtCompilerPluginPartition" in done.stderr


@pytest.mark.parametrize("function", ["dlopen", "LiteRtCompilerPluginPartition"])
def test_a_plugin_that_hangs_does_not_outlive_a_command_that_is_killed(
    chain: Chain, befallen: str, tmp_path: Path, function: str
) -> None:
    """The plugin's process ends when the command is killed, not at its long time limit."""
    environment = {**os.environ, "BEFALL": f"{function}:hang"}
    flags = ["--soc_manufacturer=Acme", f"--libs={befallen}", str(chain("A"))]
    command = subprocess.Popen([*APPLY_PLUGIN, *flags, str(tmp_path / "out.bin")], env=environment)

    def children() -> list[int]:
        return [
            int(n)
            for n in Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
        ]

    def hangs(pid: int) -> bool:
        return LIBRARY in Path(f"/proc/{pid}/maps").read_text()

    wait_until(lambda: any(hangs(pid) for pid in children()))
    (child,) = children()
    command.kill()
    command.wait()
    wait_until(lambda: not Path(f"/proc/{child}").exists())


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_in_the_commands_own_process_a_crash_is_its_end(
    chain: Chain, befallen: str, tmp_path: Path
) -> None:
    flags = [f"--libs={befallen}", "--plugin_in_process", str(chain("A"))]
    done = run("LiteRtCompilerPluginPartition:segv", *flags, str(tmp_path / "out.bin"))
    assert done.returncode == -11 and not (tmp_path / "out.bin").exists()
    done = run("", *flags, str(tmp_path / "out.bin"))
    assert done.returncode == 0 and (tmp_path / "out.bin").exists()


def test_a_process_can_be_started_ahead_of_time(
    chain: Chain, befallen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = options(befallen)
    ahead.hosting.start([befallen])
    # Too late for the process that has already started.
    monkeypatch.setenv("BEFALL", "LiteRtCompilerPluginPartition:segv")
    assert apply_plugin(chain("A"), "", ahead).npu_ops
    assert not ahead.hosting.started
    with pytest.raises(LiteRtError):
        apply_plugin(chain("A"), "", ahead)


def test_an_installed_package_may_offer_the_path_of_its_library(
    befallen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "befallen_npu.py").write_text(f"PLUGIN = {befallen + '/' + LIBRARY!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint("Acme", "befallen_npu", "PLUGIN", "befallen-npu 1.0")
    plugin = load_point(point)
    assert plugin.factory.soc_models == ["B1"] and plugin.origin == str(point)
    monkeypatch.setenv("BEFALL", "LiteRtGetCompilerPluginVersion:abort")
    with pytest.raises(LiteRtError, match="crashed in LiteRtGetCompilerPluginVersion"):
        load_point(point)


def num_children() -> int:
    found = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process may have ended meanwhile
            found += path.read_text().rsplit(")", 1)[1].split()[1] == str(os.getpid())
    return found


@pytest.mark.parametrize(
    "befall", ["", "LiteRtCreateCompilerPlugin:segv", "LiteRtCompilerPluginPartition:segv"]
)
def test_no_process_is_left_for_the_collector(
    chain: Chain, befallen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, befall: str
) -> None:
    libs = [befallen, str(tmp_path)]
    (tmp_path / "libLiteRtCompilerPlugin_Broken.so").touch()
    monkeypatch.setenv("BEFALL", befall)
    before = num_children()
    gc.disable()
    try:
        with suppress(LiteRtError):
            apply_plugin(chain("A"), "", ApplyOptions("Acme", libs=libs))
        assert apply_plugin(chain("A"), "", ApplyOptions("Null", libs=libs)).soc_model == "NULL1"
        assert [info.problem for info in list_plugins(libs) if info.origin.endswith("Broken.so")]
        assert num_children() == before
    finally:
        gc.enable()
