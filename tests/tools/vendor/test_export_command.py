"""Tests `litert-npu vendor export`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from litert_npu_tools.vendor.stock_trial import stock_limits

from litert.host.python_library import building
from tests.exported_vendors import needs_compiler
from tests.tools.conftest import LitertNpu

Capture = pytest.CaptureFixture[str]
ACME = Path(__file__).resolve().parents[3] / "examples" / "03_vendor"
_OF_USE_HERE = (
    "import sys\nif 'pytest' not in sys.modules: raise ImportError('elsewhere')\n"
    "from litert_npu_null.dispatch import DISPATCH"
)
"""Source of a dispatch module that only this process can import: a child process gets an ImportError."""


@pytest.fixture(autouse=True)
def compiler() -> None:
    needs_compiler()


def test_it_explains_itself(
    litert_npu: LitertNpu, capsys: Capture, golden: Callable[[str, str], None]
) -> None:
    assert litert_npu("vendor", "export", "--help") == 0
    golden("help_export.txt", capsys.readouterr().out)


def symbols(library: Path) -> set[str]:
    """Returns the symbols that a library exports, read with binutils."""
    done = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    )
    return {line.split()[-1].partition("@")[0] for line in done.stdout.splitlines()}


def test_an_installed_vendor_becomes_two_libraries(
    litert_npu: LitertNpu, capsys: Capture, tmp_path: Path
) -> None:
    assert (
        litert_npu("vendor", "export", "--manufacturer=Null", f"--output={tmp_path / 'new'}") == 0
    )
    said = capsys.readouterr().out
    plugin = tmp_path / "new" / "libLiteRtCompilerPlugin_Null.so"
    dispatch = tmp_path / "new" / "libLiteRtDispatch_Null.so"
    assert sorted((tmp_path / "new").iterdir()) == [plugin, dispatch]
    assert str(plugin) in said and str(dispatch) in said
    assert sys.executable in said and "LITERT_NPU_PYTHON" in said
    functions = ("GetApi", "RegisterAsset", "InvokeTapped")
    assert symbols(dispatch) == {f"LiteRtDispatch{name}" for name in functions}
    assert len(symbols(plugin)) == 20 and "LiteRtCompilerPluginCompile" in symbols(plugin)


def test_it_says_whether_the_stock_release_that_is_here_loads_them(
    litert_npu: LitertNpu,
    capsys: Capture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stock_vendors: Path,
) -> None:
    """Wheels that contain vendors' libraries also contain the tool that loads plugins."""
    export = ("vendor", "export", "--manufacturer=Null", f"--output={tmp_path}")
    assert litert_npu(*export) == 0
    version = metadata.version("ai-edge-litert")
    said = f"apply_plugin_main of the installed ai-edge-litert {version}"
    assert (
        f"Stock LiteRT 2.2 and later can load the libraries. {said} loads the plugin."
        in capsys.readouterr().out
    )
    monkeypatch.setattr(
        building, "_try_library", lambda library, folder: None
    )  # as for a library of another architecture
    monkeypatch.setenv("LITERT_NPU_PYTHON", "/no/such/python")
    assert litert_npu(*export) == 0
    plugin = tmp_path / "libLiteRtCompilerPlugin_Null.so"
    problem = f"{said} does not load {plugin}: Null: no Python interpreter at /no/such/python"
    assert problem in capsys.readouterr().out


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("2.1.6", "The installed ai-edge-litert 2.1.6 is too old."),
        ("", "No such release is installed here."),
    ],
)
def test_it_says_that_an_older_release_cannot_load_them(
    monkeypatch: pytest.MonkeyPatch, version: str, said: str
) -> None:
    def find(name: str) -> str:
        if not version:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(metadata, "version", find)
    assert list(stock_limits({})) == [f"Stock LiteRT 2.2 and later can load the libraries. {said}"]


def test_it_says_where_stock_would_take_another_vendors_driver(tmp_path: Path) -> None:
    (tmp_path / "libLiteRtDispatch_Other.so").touch()
    dispatch = str(tmp_path / "libLiteRtDispatch_Null.so")
    *_, warning = stock_limits({"dispatch": dispatch})
    assert warning.startswith("Warning: ") and "also has libLiteRtDispatch_Other.so" in warning
    (tmp_path / "libLiteRtDispatch_Other.so").rename(dispatch)
    assert len(list(stock_limits({"dispatch": dispatch}))) == 1


def test_files_become_libraries_of_their_names(
    litert_npu: LitertNpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ACME)  # the paths in the libraries must not depend on the working directory
    files = ["LiteRtCompilerPlugin_Acme.py", "LiteRtDispatch_Acme.py"]
    assert litert_npu("vendor", "export", *files, "-o", str(tmp_path)) == 0
    libraries = sorted(path.name for path in tmp_path.iterdir())
    assert libraries == ["libLiteRtCompilerPlugin_Acme.so", "libLiteRtDispatch_Acme.so"]


def test_a_library_needs_nothing_of_python_to_be_loaded(
    litert_npu: LitertNpu, tmp_path: Path
) -> None:
    assert litert_npu("vendor", "export", "--manufacturer=Null", "-o", str(tmp_path)) == 0
    for library in tmp_path.iterdir():
        needed = subprocess.run(["ldd", library], capture_output=True, text=True).stdout
        assert "python" not in needed
        undefined = subprocess.run(
            ["nm", "-D", "--undefined-only", library], capture_output=True, text=True
        ).stdout
        assert "Py" not in undefined


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "has neither --manufacturer nor files"),
        (["LiteRtDispatch_A.py", "--manufacturer=Null"], "has both --manufacturer and files"),
        (["--manufacturer=Nobody"], "there is no package for vendor 'Nobody'; available vendors: "),
        (["vendor.py"], "a vendor's Python file must be called LiteRtCompilerPlugin_"),
        (["LiteRtDispatch_.py"], "a vendor's Python file must be called LiteRtCompilerPlugin_"),
        (["LiteRtDispatch_NotThere.py"], "No such file"),
    ],
    ids=str,
)
def test_what_cannot_be_exported_is_said(
    litert_npu: LitertNpu, capsys: Capture, tmp_path: Path, arguments: list[str], said: str
) -> None:
    assert litert_npu("vendor", "export", *arguments, "-o", str(tmp_path)) == 2
    assert said in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_told_of(
    litert_npu: LitertNpu, capsys: Capture, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("mine")
    arguments = ("--manufacturer=Null", "-o", str(tmp_path / "taken"))
    assert litert_npu("vendor", "export", *arguments) == 2
    assert "FILE_IO: cannot make the directory: file exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_module", "No module named 'no_such_module'"),
        ("DISPATCH = 3", "DISPATCH has type int, which is not derived from Dispatch"),
        ("TABLE = 3", "the module does not define DISPATCH"),
        (
            "DISPATCH = '/opt/libLiteRtDispatch_Bad.so'",
            "the vendor's code is already a shared library",
        ),
        (_OF_USE_HERE, "elsewhere"),
    ],
    ids=["import", "type", "name", "library", "another process"],
)
def test_a_vendor_of_no_use_leaves_no_library(
    litert_npu: LitertNpu, capsys: Capture, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "LiteRtDispatch_Bad.py").write_text(text)
    file, output = str(tmp_path / "LiteRtDispatch_Bad.py"), tmp_path / "output"
    assert litert_npu("vendor", "export", file, "-o", str(output)) == 2
    assert said in capsys.readouterr().err
    assert not output.exists() or not list(output.iterdir())


def test_a_library_that_was_there_stays_where_the_new_one_is_of_no_use(
    litert_npu: LitertNpu, capsys: Capture, tmp_path: Path
) -> None:
    file, library = tmp_path / "LiteRtDispatch_Bad.py", tmp_path / "libLiteRtDispatch_Bad.so"
    file.write_text(_OF_USE_HERE)
    library.write_text("that worked")
    assert litert_npu("vendor", "export", str(file), "-o", str(tmp_path)) == 2
    assert f"elsewhere ({file}" in capsys.readouterr().err.replace("\n", " ")
    assert library.read_text() == "that worked"
    assert sorted(path.name for path in tmp_path.glob("*.so")) == [library.name]


@pytest.mark.parametrize("fault", ["not tried", "not built", "no place"])
def test_both_libraries_appear_or_none(
    litert_npu: LitertNpu,
    capsys: Capture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
) -> None:
    plugin = tmp_path / "LiteRtCompilerPlugin_Half.py"
    plugin.write_text("from litert_npu_null.compiler_plugin import PLUGIN")
    dispatch = tmp_path / "LiteRtDispatch_Half.py"
    dispatch.write_text(
        _OF_USE_HERE if fault == "not tried" else "from litert_npu_null.dispatch import DISPATCH"
    )
    output = tmp_path / "output"
    output.mkdir()
    if fault == "not built":
        compiler = tmp_path / "cc"
        compiler.write_text(
            f'#!/bin/sh\ncase "$*" in */dispatch.c*) exit 1;; esac; exec {shutil.which("cc")} "$@"'
        )
        compiler.chmod(0o755)
        monkeypatch.setenv("CC", str(compiler))
    elif fault == "no place":
        (output / "libLiteRtDispatch_Half.so").mkdir()
    for former in (False, True):
        if former:
            (output / "libLiteRtCompilerPlugin_Half.so").write_text("that worked")
        before = sorted(output.iterdir())
        assert litert_npu("vendor", "export", str(plugin), str(dispatch), "-o", str(output)) == 2
        assert "libLiteRtDispatch_Half.so" in capsys.readouterr().err or fault == "not built"
        assert sorted(output.iterdir()) == before
    assert (output / "libLiteRtCompilerPlugin_Half.so").read_text() == "that worked"


@pytest.mark.parametrize(
    ("compiler", "said"),
    [
        ("/no/such/cc", "no C compiler: $CC is '/no/such/cc'"),
        ("", "no C compiler: none of cc, gcc, clang"),
        ("false", "the C compiler failed"),
    ],
)
def test_what_is_wrong_with_the_compiler_is_said(
    litert_npu: LitertNpu, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    compiler: str, said: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("CC", compiler)
    if not compiler:
        monkeypatch.setenv("PATH", str(tmp_path))
    output = tmp_path / "output"
    assert litert_npu("vendor", "export", "--manufacturer=Null", "-o", str(output)) == 2
    assert said in capsys.readouterr().err and not list(output.iterdir())


def test_a_compiler_that_has_no_room_is_not_taken_for_a_bad_one(
    litert_npu: LitertNpu, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(
        "#!/bin/sh\necho 'ld: final link failed: No space left on device' >&2; false"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    output = str(tmp_path / "output")
    assert litert_npu("vendor", "export", "--manufacturer=Null", "-o", output) == 2
    assert "Make room, or write elsewhere." in capsys.readouterr().err


def test_a_python_without_a_shared_libpython_is_told_of(
    litert_npu: LitertNpu, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("litert.host.python_library.building.find_libpython", lambda: "")
    assert litert_npu("vendor", "export", "--manufacturer=Null", "-o", str(tmp_path)) == 0
    assert "Only Python 3" in capsys.readouterr().out
    assert len(os.listdir(tmp_path)) == 2


def test_odd_characters_in_paths_survive(litert_npu: LitertNpu, tmp_path: Path) -> None:
    folder = tmp_path / 'a "quoted" \\ übung ??= %s'
    folder.mkdir()
    file = folder / "LiteRtDispatch_Odd.py"
    file.write_text("from litert_npu_null.dispatch import DISPATCH")
    assert litert_npu("vendor", "export", str(file), "-o", str(folder)) == 0  # also loads it
    assert (folder / "libLiteRtDispatch_Odd.so").exists()
