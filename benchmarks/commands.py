"""The two commands that benchmarks compare: this project's `apply_plugin`, and stock's `apply_plugin_main`."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from benchmarks.harness import BUILD, ROOT, run_checked

APPLY_PLUGIN = str(Path(sys.executable).parent / "apply_plugin")
KERNELS = ROOT / "examples" / "kernels"


def stock_apply_plugin() -> str:
    """Makes an executable copy of `apply_plugin_main` from stock LiteRT's wheel, and returns its path."""
    package = find_spec("ai_edge_litert")
    assert package is not None and package.origin is not None
    copy = BUILD / "apply_plugin_main"
    shutil.copyfile(Path(package.origin).parent / "tools" / copy.name, copy)
    copy.chmod(0o755)
    return str(copy)


def noop(command: str, model: Path, output: Path) -> list[str]:
    """Returns the command line with which either command reads a model and writes it again."""
    return [command, "--cmd=noop", f"--model={model}", f"--o={output}"]


def compile_with(op: str, asset: Path, model: Path, output: Path) -> list[str]:
    """Returns the command line that compiles a model for the reference vendor, with an asset for one op."""
    info = f"--npu_custom_op_info={op},{asset}"
    return [APPLY_PLUGIN, "--soc_manufacturer=Reference", info, str(model), str(output)]


def compiled(op: str, asset: Path, model: Path) -> Path:
    """Compiles the model, and returns the path of the compiled file."""
    output = BUILD / f"{model.stem}_npu.tflite"
    run_checked(compile_with(op, asset, model, output))
    return output
