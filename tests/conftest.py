"""Fixtures that all tests share."""

from __future__ import annotations

import contextlib
import os
import shutil
import site
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import settings

from corpus import downloads
from litert.core.errors import LiteRtError
from tests.native_probe import MakeProbe, build_probe, probe_maker
from vendor_reference.dispatch import open_device
from vendor_reference.drivers.device_choice import find_devices

NO_DRIVER = "no OpenCL driver"
"""Start of the reason with which tests are skipped if no suitable OpenCL driver works."""

settings.register_profile("untimed", deadline=None)  # tests must not fail on a busy machine
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden", action="store_true", help="rewrite the golden files instead of comparing"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the OpenCL drivers that ran the tests, and the number of tests that need another driver."""
    try:
        ran_on = ", ".join(f"{d.installation.name} ({d.info.name})" for d in find_devices())
    except LiteRtError as error:
        ran_on = error.what
    skipped = terminalreporter.stats.get("skipped", [])
    wanting = [report for report in skipped if NO_DRIVER in str(report.longrepr)]
    terminalreporter.write_line(
        f"OpenCL drivers: {ran_on}; tests skipped that need another: {len(wanting)}"
    )


@pytest.fixture(scope="session", autouse=True)
def user_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Replaces the folders of the user's key and caches by temporary folders, which all test processes share."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LITERT_NPU_DATA_DIR", str(folder / "data"))
        patch.setenv("LITERT_NPU_CACHE_DIR", str(folder / "cache"))
        yield


@pytest.fixture(scope="session")
def models() -> Path:
    """Folder of real models with custom ops."""
    folder = os.environ.get("LITERT_NPU_MODELS")
    if not folder:
        pytest.skip("LITERT_NPU_MODELS names no folder of real models")
    return Path(folder)


@pytest.fixture(scope="session")
def networks() -> Path:
    """Folder of MediaPipe's 14 networks, as `.tflite` files from MediaPipe's own tools."""
    return _fetched(downloads.networks)


@pytest.fixture(scope="session")
def portrait() -> Path:
    """Path of a picture of a person, 512 x 600."""
    return _fetched(downloads.portrait)


def _fetched(fetch: Callable[[], Path]) -> Path:
    try:
        return fetch()
    except (RuntimeError, OSError) as error:
        pytest.skip(f"cannot be fetched: {error}")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Function that compares a text with `golden/<name>` beside the test; `make golden` rewrites this file."""

    def compare(name: str, text: str) -> None:
        path = request.path.parent / "golden" / name
        if request.config.getoption("--golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no {path}: `make golden` writes it; read it before you commit it"
        assert text == path.read_text()

    return compare


@pytest.fixture(scope="session")
def stock_apply_plugin(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Function that runs `apply_plugin_main` from stock LiteRT's wheel, with arguments and variables."""
    package = pytest.importorskip("ai_edge_litert")
    binary = Path(package.__file__).parent / "tools" / "apply_plugin_main"
    if not binary.exists():
        pytest.skip("this ai-edge-litert has no apply_plugin_main")
    copy = tmp_path_factory.mktemp("stock") / "apply_plugin_main"
    # Another process writes the copy. If this process wrote it, a child process that another thread starts could
    # inherit the open file, and the kernel does not run a program that is open for writing.
    subprocess.run(["install", "-m", "755", binary, copy], check=True)

    def run(
        *arguments: str | Path, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [copy, *map(str, arguments)],
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


@pytest.fixture(scope="session")
def stock_vendors() -> Path:
    """Folder of the vendors' libraries in stock LiteRT's wheel; only the wheel for x86-64 has them."""
    package = pytest.importorskip("ai_edge_litert")
    folder = Path(package.__file__).parent / "vendors"
    if not folder.is_dir():
        pytest.skip("this ai-edge-litert has no vendors' libraries")
    return folder


@pytest.fixture(scope="session")
def intel(stock_vendors: Path) -> Path:
    """Folder of Intel's libraries, in `compiler` and `dispatch`, which also run on a CPU.

    The fixture loads the OpenCL driver first, because Intel's driver does not load after OpenVINO's older libtbb.
    """
    with contextlib.suppress(LiteRtError):  # tests that need a driver report that there is none
        open_device()
    pytest.importorskip("openvino", reason="no openvino, which Intel's libraries are linked with")
    return stock_vendors / "intel_openvino"


@pytest.fixture(scope="session")
def c_vendor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the C example's libraries; its vendor Cobalt supports MUL, and Gain with an asset."""
    return build_c_vendor(tmp_path_factory.mktemp("c_vendor"), "-Werror")


def build_c_vendor(folder: Path, flags: str) -> Path:
    """Builds the C example's libraries into a folder, and returns the folder."""
    if shutil.which("cc") is None or shutil.which("make") is None:
        pytest.skip("no C compiler, or no make")
    example = Path(__file__).resolve().parents[1] / "examples" / "06_c_vendor"
    subprocess.run(
        [
            "make",
            "-s",
            "-C",
            example,
            f"PYTHON={sys.executable}",
            f"BUILD={folder}",
            f"CFLAGS={flags}",
        ],
        check=True,
    )
    return folder


@pytest.fixture(scope="session")
def wheel_builder() -> None:
    """Skips the test if setuptools cannot build wheels, so that no package can be installed from its source."""
    if tuple(map(int, metadata.version("setuptools").split(".")[:2])) < (70, 1):
        pytest.skip("these setuptools build no wheels: make setup")


@pytest.fixture
def own_environment(tmp_path: Path) -> dict[str, str]:
    """Environment variables of a virtual environment, which also sees the packages of the test environment."""
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "here.pth").write_text(
        "".join(f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages())
    )
    python = folder / "bin" / "python"
    commands = {"apply_plugin": "apply_plugin", "apply_plugin_main": "apply_plugin"}
    for name, module in {**commands, "litert-npu": "litert_npu"}.items():
        command = folder / "bin" / name
        command.write_text(f"#!{python}\nfrom litert_npu_tools.{module} import run\nrun()\n")
        command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip inverts this setting: 0 means no isolation
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


@pytest.fixture(scope="session")
def probe_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Path of the probe, a dispatch library for tests; each test uses a copy."""
    return build_probe(tmp_path_factory.mktemp("probe"))


@pytest.fixture
def make_probe(
    probe_binary: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> MakeProbe:
    """Function that makes a copy of the probe with the given `fault` and `capabilities`."""
    return probe_maker(probe_binary, tmp_path_factory.mktemp("probes"), monkeypatch)
