"""Tests that the commands in a new vendor's README work, in a virtual environment of their own."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from litert_npu_tools.litert_npu import main
from litert_npu_tools.vendor import new_command
from litert_npu_tools.vendor.new_command import new_vendor

from litert.core.errors import LiteRtError
from litert.core.status import Status

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(command: str, folder: Path, environment: dict[str, str]) -> str:
    """Runs shell commands, which must succeed; returns what they print."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == 0, f"{command}\n{printed}"
    return printed


@pytest.mark.usefixtures("wheel_builder")
@pytest.mark.parametrize("lang", ["python", "c", "cpp"])
def test_a_new_vendor_does_what_its_readme_says(
    tmp_path: Path, own_environment: dict[str, str], lang: str
) -> None:
    tools = ("g++" if lang == "cpp" else "cc", "make")  # to build or export the vendor
    if not all(map(shutil.which, tools)):
        pytest.skip(f"not here: {' or '.join(tools)}")
    own_environment |= {"CFLAGS": "-Werror", "CXXFLAGS": "-Werror"}
    assert main(["litert-npu", "vendor", "new", "Tin", f"--lang={lang}", f"--o={tmp_path}/v"]) == 0
    readme = (tmp_path / "v" / "README.md").read_text()
    blocks = re.findall(r"^```bash\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    if lang != "python":
        too_early = run("! python -m pip install -e .", tmp_path / "v", own_environment)
        assert "tin_npu has no libraries yet: run make" in too_early
    printed = "".join(run(block, tmp_path / "v", own_environment) for block in blocks)
    passed = "5 passed" if lang == "python" else "4 passed"
    assert passed in printed
    assert "NPU: 2 of 2 ops in 2 calls" in printed
    assert "Tin keeps the contract" in printed
    without = "apply_plugin --soc_manufacturer=Tin --model=model.tflite --o=model_npu.tflite"
    assert "Gain: op Gain has no asset" in run(without, tmp_path / "v", own_environment)
    # also from the folder above, where the vendor's folder has the package's name
    (tmp_path / "v").rename(tmp_path / "tin_npu")
    install = "python -m pip install -q -e tin_npu"
    assert passed in run(f"{install} && python -m pytest tin_npu", tmp_path, own_environment)
    if lang != "python":
        export = "! litert-npu vendor export --manufacturer=Tin"
        assert "already a shared library" in run(export, tmp_path, own_environment)


def test_a_vendor_in_cpp_differs_from_one_in_c_in_its_sources_alone() -> None:
    c, cpp = new_vendor("Tin", "c"), new_vendor("Tin", "cpp")
    assert c.keys() - cpp.keys() == {"plugin.c", "dispatch.c"}
    assert cpp.keys() - c.keys() == {"plugin.cc", "dispatch.cc"}
    assert "-std=c++17" in cpp["Makefile"] and "$(CXX)" in cpp["Makefile"]
    of_c = re.compile(r"\bin C\b(?!\+)|--lang=c\b|\.c\b|\bC compiler|\bCFLAGS")
    assert not {path for path in c.keys() & cpp.keys() if of_c.search(cpp[path])}


@pytest.mark.parametrize(("lang", "example"), [("python", "Nickel"), ("c", "Cobalt")])
def test_examples_are_what_it_writes(tmp_path: Path, lang: str, example: str) -> None:
    main(["litert-npu", "vendor", "new", example, f"--lang={lang}", f"--o={tmp_path}/v"])
    number = {"python": "07_python_vendor", "c": "06_c_vendor"}[lang]
    written = {p.relative_to(tmp_path / "v"): p for p in (tmp_path / "v").rglob("*") if p.is_file()}
    assert {"README.md", "pyproject.toml"} < {str(path) for path in written}
    for path, file in written.items():
        assert file.read_bytes() == (EXAMPLES / number / path).read_bytes()


@pytest.mark.parametrize("lang", ["python", "c", "cpp"])
def test_nothing_of_the_template_s_name_is_left(tmp_path: Path, lang: str) -> None:
    main(["litert-npu", "vendor", "new", "Tin", f"--lang={lang}", f"--o={tmp_path}/v"])
    for path in (tmp_path / "v").rglob("*"):
        text = path.read_text() if path.is_file() else ""
        assert not re.search("nickel|cobalt", f"{path.relative_to(tmp_path)}{text}", re.IGNORECASE)


@pytest.mark.parametrize("name", ["", "7up", "two words", "a-b", "../up", "Ünze", "x" * 25, "a\n"])
def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LiteRtError) as error:
        main(["litert-npu", "vendor", "new", name, f"--o={tmp_path}/v"])
    assert error.value.status is Status.INVALID_ARGUMENT
    assert not (tmp_path / "v").exists()


@pytest.mark.parametrize("name", ["LiteRT", "Reference", "reference"])
def test_a_name_of_another_package_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        LiteRtError, match=f"litert-npu itself already uses the name '{name}'"
    ) as error:
        main(["litert-npu", "vendor", "new", name, f"--o={tmp_path}/v"])
    assert error.value.status is Status.ALREADY_EXISTS
    assert error.value.hint == "Choose another name."
    assert not (tmp_path / "v").exists()


def test_a_template_that_cannot_be_listed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_command, "TEMPLATES", "/no/such/folder")
    with pytest.raises(OSError, match="/no/such/folder"):
        new_vendor("Zinc", "python")


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(LiteRtError) as error:
        main(["litert-npu", "vendor", "new", "Tin", f"--o={tmp_path}"])
    assert error.value.status is Status.ALREADY_EXISTS
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "mine"
