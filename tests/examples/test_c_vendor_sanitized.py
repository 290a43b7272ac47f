"""Every function of the C example, rightly and wrongly called, with sanitizers watching."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from litert.abi.headers import INCLUDE_FOLDER

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "06_c_vendor"
DRIVER = Path(__file__).with_name("sanitized") / "drive.c"


def build(folder: Path, sanitizers: str, dispatch: Path) -> Path:
    """The driver, linked with the example, in `folder`; skips where the compiler cannot."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not here")
    flags = ["-std=c11", "-g", "-O1", "-rdynamic", "-pthread", "-D_DEFAULT_SOURCE"]
    flags += [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
    flags += [f"-I{INCLUDE_FOLDER}", f"-I{EXAMPLE}"]
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    output = ["-o", str(folder / "probe")]
    if subprocess.run([compiler, *flags, str(probe), *output], capture_output=True).returncode:
        pytest.skip(f"this gcc has no {sanitizers} sanitizers")
    program = folder / "drive"
    sources = [DRIVER, EXAMPLE / "plugin.c", dispatch]
    subprocess.run([compiler, *flags, *sources, "-o", program, "-ldl"], check=True)
    return program


@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_sanitizers_find_nothing(tmp_path: Path, sanitizers: str) -> None:
    program = build(tmp_path, sanitizers, EXAMPLE / "dispatch.c")
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert {line[:15] for line in done.stderr.splitlines()} == {"ERROR: [Cobalt]"}


@pytest.mark.parametrize(
    ("sound", "broken", "finding"),
    [
        ("  free(device->buffers);\n", "", "LeakSanitizer: detected memory leaks"),
        ("i < context->function.num_elements", "i <= context->function.num_elements", "overflow"),
        ("memcpy(function, bytes + at, sizeof(Function));", "*function = *(Function*)(bytes + at);", "misaligned"),
    ],
    ids=["a leak", "one element too many", "byte code taken as aligned"],
)  # fmt: skip
def test_sanitizers_find_what_is_broken(
    tmp_path: Path, sound: str, broken: str, finding: str
) -> None:
    source = (EXAMPLE / "dispatch.c").read_text()
    assert source.count(sound) == 1
    (tmp_path / "dispatch.c").write_text(source.replace(sound, broken))
    program = build(tmp_path, "address,undefined", tmp_path / "dispatch.c")
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert finding in done.stderr
