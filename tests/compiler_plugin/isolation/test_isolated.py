"""Tests that a plugin in its own process gives the same results as in the host's process, and that its failures
there become errors here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from compiler_plugin.commands import compile_model, partition_model
from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.reader import read_model
from litert.model.writer import write_model

FAKE = Path(__file__).parents[1] / "vendors" / "LiteRtCompilerPluginFake.py"

# Loads the fake vendor and makes one of its functions misbehave as native code can.
LOADER = """
import ctypes, os
from litert.host.extensions import load_file
from litert.host.serving import native_call

def misbehave(how):
    with native_call("LiteRtNativeFunction"):
        os.write(2, b"no license found")
        libc = ctypes.CDLL(None)
        if how == "segv":
            ctypes.string_at(0)
        elif how == "abort":
            libc.abort()
        elif how == "exit":
            libc.exit(3)
        else:
            libc.exit(0)

class Factory(type(load_file(FAKE, "PLUGIN"))):
    def create(self, environment_options, compiler_options):
        flags = compiler_options.vendor_options
        call, _, how = flags.get("fake_befall", "").partition(":")
        if call == "create":
            misbehave(how)
        plugin = super().create(environment_options, compiler_options)
        if call:
            setattr(plugin, call, lambda *_: misbehave(how))
        return plugin

def load(path):
    assert path == FAKE
    return Factory()

def crash(path):
    misbehave("segv")

def nonsense(path):
    factory = Factory()
    factory.soc_models = []
    return factory
"""

PLUGIN = """
from compiler_plugin.isolation.hosting import Hosting, PluginProcess
from compiler_plugin.isolation.isolated_plugin import IsolatedPluginFactory

class OwnLoader(Hosting):
    def take(self, path, loader):
        return PluginProcess(path, 60, "isolated_loader:{load}")

PLUGIN = IsolatedPluginFactory({path!r}, OwnLoader())
"""

Options = Callable[..., ApplyOptions]
Chain = Callable[..., Path]


@pytest.fixture
def isolated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_options: Options
) -> Callable[..., ApplyOptions]:
    """Makes options that run the fake vendor in its own process."""
    (tmp_path / "isolated_loader.py").write_text(f"FAKE = {str(FAKE)!r}\n{LOADER}")
    monkeypatch.syspath_prepend(str(tmp_path))

    numbers = count()

    def make(load: str = "load", **flags: str) -> ApplyOptions:
        libs = tmp_path / f"libs_{next(numbers)}"
        libs.mkdir()
        text = PLUGIN.format(path=str(FAKE), load=load)
        (libs / "LiteRtCompilerPluginIsolated.py").write_text(text)
        return replace(fake_options(**flags), libs=[str(libs)])

    return make


def said(report: Report) -> Report:
    """Returns the report without the values that differ from run to run."""
    times = [replace(item, seconds=0) for item in report.transformations]
    return replace(report, seconds=0, plugin="", output_path="", transformations=times)


@pytest.mark.parametrize(
    "flags",
    [
        {"fake_ops": "A,B"},
        {"fake_ops": "A", "fake_indices": "1"},
        {"fake_max_ops": "2", "fake_refuse": "B"},
        {"fake_mode": "transform_renames", "fake_ops": "B"},
    ],
    ids=str,
)
def test_a_file_is_the_same_from_either_process(
    chain: Chain, fake_options: Options, isolated: Options, tmp_path: Path, flags: dict[str, str]
) -> None:
    source = chain("A", "B", "A", "C", "B")
    reports = []
    for name, options in (("here", fake_options(**flags)), ("there", isolated(**flags))):
        reports.append(said(apply_plugin(source, tmp_path / name, options)))
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()
    assert reports[0] == reports[1] and reports[0].calls


@pytest.mark.parametrize("command", [partition_model, compile_model])
def test_the_other_commands_write_the_same_from_either_process(
    chain: Chain,
    fake_options: Options,
    isolated: Options,
    tmp_path: Path,
    command: Callable[[Path, Path, ApplyOptions], Report],
) -> None:
    source = chain("A", "B")
    for name, options in (("here", fake_options), ("there", isolated)):
        command(source, tmp_path / name, options(fake_ops="A"))
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()


def test_assets_and_companions_come_from_either_process(
    chain: Chain, fake_options: Options, isolated: Options, tmp_path: Path
) -> None:
    (tmp_path / "b").mkdir()
    for name in ("a.cl", "a.h", "b/c.h"):
        (tmp_path / name).write_text(f"text of {name}")
    source = chain("A")
    options = fake_options(assets={"A": tmp_path / "a.cl"}, fake_companions="a.h,b/c.h")
    apply_plugin(source, tmp_path / "here", options)
    apply_plugin(source, tmp_path / "there", replace(options, libs=isolated().libs))
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()


def test_constants_stay_where_they_are(isolated: Options, tmp_path: Path) -> None:
    builder = ModelBuilder()
    weights = builder.constant("w", bytes(range(256)) * 4096, "uint8", (1 << 20,))
    x = builder.input("x", "uint8", (1,))
    y = builder.custom("A", [x, weights], [("y", "uint8", (1,))])
    builder.output(builder.custom("B", [y, weights], [("z", "uint8", (1,))]))
    write_model(builder.build(), tmp_path / "in.tflite")
    options = isolated(fake_ops="A", fake_mode="transform_renames")
    report = apply_plugin(tmp_path / "in.tflite", tmp_path / "out.tflite", options)
    assert report.transformations[0].matches == 1
    with read_model(tmp_path / "out.tflite") as model:
        (constant,) = [tensor for tensor in model.subgraphs[0].tensors if tensor.is_constant]
        assert constant.data == weights.data


ENDS = {
    "segv": "crashed in LiteRtNativeFunction (SIGSEGV",
    "abort": "crashed in LiteRtNativeFunction (SIGABRT",
    "exit": "ended with status 3 in LiteRtNativeFunction",
    "exit0": "ended with status 0 in LiteRtNativeFunction, before it had sent its reply",
}
CALLS = ["create", "transform", "partition", "compile", "companions", "close"]


@pytest.mark.parametrize(
    ("call", "how"),
    [
        *[(call, "segv") for call in CALLS],
        *[("compile", how) for how in ENDS if how != "segv"],
        ("close", "exit0"),
    ],
)
def test_what_befalls_a_plugin_names_it_and_the_call(
    chain: Chain, isolated: Options, tmp_path: Path, call: str, how: str
) -> None:
    asset = tmp_path / "a.cl"
    asset.touch()
    output = tmp_path / "out.bin"
    output.write_text("as it was")
    options = isolated(assets={"A": asset}, fake_befall=f"{call}:{how}")
    with pytest.raises(LiteRtError) as error:
        apply_plugin(chain("A"), output, options)
    assert error.value.status is Status.RUNTIME_FAILURE
    assert error.value.what.startswith(f"the compiler plugin {FAKE.name} {ENDS[how]}")
    assert error.value.what.endswith("no license found")
    assert error.value.where == f"{FAKE}; vendor 'Fake', in {call}"
    assert output.read_text() == "as it was"
    assert not list(tmp_path.glob(".out*"))


def test_a_library_that_crashes_as_it_is_loaded_is_no_plugin(
    chain: Chain, isolated: Options
) -> None:
    with pytest.raises(LiteRtError, match="crashed in LiteRtNativeFunction") as error:
        apply_plugin(chain("A"), "", isolated("crash"))
    assert error.value.status is Status.NOT_FOUND


def test_what_a_plugin_says_of_itself_is_checked_here(chain: Chain, isolated: Options) -> None:
    with pytest.raises(
        LiteRtError, match=r"soc_models is \[\], but must be a sequence of one or more"
    ):
        apply_plugin(chain("A"), "", isolated("nonsense"))


def test_an_error_of_the_plugin_is_the_same_from_either_process(
    chain: Chain, fake_options: Options, isolated: Options
) -> None:
    source = chain("A")
    errors = []
    for options in (fake_options, isolated):
        with pytest.raises(LiteRtError) as error:
            apply_plugin(source, "", options(fake_mode="compile_fails"))
        errors.append(error.value.args)
    assert errors[0] == errors[1]


def test_one_factory_makes_many_plugins(chain: Chain, isolated: Options) -> None:
    options = isolated()
    for _ in range(2):  # Python loads the file once, so both runs use the same factory
        assert apply_plugin(chain("A"), "", options).calls
