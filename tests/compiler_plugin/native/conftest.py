"""Fixtures for the scribe, a plugin whose byte code records what its host told it, in stock LiteRT and in ours."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from compiler_plugin.native.builder_slots import OPTIONS
from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from compiler_plugin.report import Report
from litert.abi.definitions import ffi
from litert.abi.headers import INCLUDE_FOLDER
from litert.core.compiler_options import CompilerOptions
from litert.model.builtin_options import BUILTIN_NUMBERS
from litert.model.flexbuffer import read_flexbuffer
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.writer import write_model

SOURCES = Path(__file__).parent / "plugins"
_KINDS = {
    "int32_t *": "I32",
    "uint32_t *": "U32",
    "_Bool *": "BOOL",
    "float *": "F32",
    "int32_t * *": "LIST",
}


@dataclass(frozen=True, slots=True)
class Call:
    """A dispatch op of a compiled file: its function, its tensors' names, and its byte code as text."""

    function: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    text: str


@dataclass(frozen=True, slots=True)
class BothHosts:
    """Compiles models with the scribe in two hosts: stock's `apply_plugin_main` and ours."""

    library: Path
    folder: Path
    run_stock: Callable[..., subprocess.CompletedProcess[str]]
    setenv: Callable[[str, str], None]
    reports: list[Report] = field(default_factory=list)

    def stock(self, model: Path, *flags: str, cmd: str = "apply") -> Path:
        """Compiles the model with stock; returns the output file."""
        output = self.folder / "stock.tflite"
        arguments = [f"--cmd={cmd}", f"--model={model}", f"--o={output}"]
        arguments += ["--soc_manufacturer=Scribe", "--soc_model=quill"]
        done = self.run_stock(*arguments, f"--libs={self.library.parent}", *flags)
        assert done.returncode == 0, done.stdout + done.stderr
        return output

    def ours(self, model: Path, *, strategy: str = "default", **flags: str) -> Path:
        """Compiles the model with our host; returns the output file."""
        output = self.folder / "ours.tflite"
        options = ApplyOptions(
            "Scribe",
            "quill",
            [str(wrap(self.library, self.folder))],
            compiler=CompilerOptions(vendor_options=flags, partition_strategy=strategy),
        )
        self.reports.append(apply_plugin(model, output, options))
        return output

    def isolated(self, model: Path) -> Path:
        """Compiles the model with our host and the plugin in its own process (the default); returns the file."""
        output = self.folder / "isolated.tflite"
        options = ApplyOptions("Scribe", "quill", [str(self.library.parent)])
        self.reports.append(apply_plugin(model, output, options))
        return output

    def calls(self, model: Model | Path, **environment: str) -> tuple[list[Call], list[Call]]:
        """Returns the calls that stock and our host write for a model; `environment` controls the scribe."""
        path = self.written(model) if isinstance(model, Model) else model
        for name, value in environment.items():
            self.setenv(name, value)
        return read_calls(self.stock(path)), read_calls(self.ours(path))

    def written(self, model: Model) -> Path:
        """Writes a model to a file; returns its path."""
        path = self.folder / "model.tflite"
        write_model(model, path)
        return path


def read_calls(path: Path) -> list[Call]:
    """Returns the calls of a compiled file, sorted by number, since stock sorts the remaining graph anew."""
    data = path.read_bytes()
    calls: list[Call] = []
    with read_model(path) as model:
        for op in model.ops():
            if op.name != "DISPATCH_OP":
                continue
            assert op.custom_options is not None
            options = read_flexbuffer(op.custom_options.view)
            assert isinstance(options, Mapping)
            start, size = options["bytecode_offset"], options["bytecode_size"]
            assert isinstance(start, int) and isinstance(size, int)
            inputs = [tensor.name for tensor in op.inputs if tensor is not None]
            outputs = [tensor.name for tensor in op.outputs]
            text = data[start : start + size].decode()
            calls.append(Call(str(options["name"]), inputs, outputs, text))
    return sorted(calls, key=lambda call: int(call.function.removeprefix("page_")))


def build_plugin(folder: Path, sources: Sequence[Path], name: str, *flags: str) -> Path:
    """Compiles a plugin from C sources; returns the library's path."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc, which builds the plugin")
    library = folder / f"libLiteRtCompilerPlugin_{name}.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", f"-I{INCLUDE_FOLDER}"]
    command += [f"-I{folder}", f"-I{SOURCES}", *flags, "-o", str(library), *map(str, sources)]
    subprocess.run(command, check=True)
    return library


@pytest.fixture(scope="session")
def scribe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of the scribe's library, the only library in its folder."""
    folder = tmp_path_factory.mktemp("scribe")
    (folder / "getters.inc").write_text(_getters())
    (folder / "option_rewrites.inc").write_text(option_rewrites())
    (folder / "option_rewrites_list.inc").write_text(
        "".join(f"OPTIONS(options_of_{name})\n" for name in OPTIONS)
    )
    return build_plugin(folder, [SOURCES / "scribe.c", SOURCES / "rewrites.c"], "Scribe")


@pytest.fixture
def both_hosts(
    scribe: Path,
    tmp_path: Path,
    stock_apply_plugin: Callable[..., subprocess.CompletedProcess[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> BothHosts:
    return BothHosts(scribe, tmp_path, stock_apply_plugin, monkeypatch.setenv)


def _getters() -> str:
    """Returns a line of C for each slot that reads an option of a builtin op."""
    fields = ffi.typeof("LiteRtCompilerContext").fields
    return "".join(
        f"{_KINDS[slot.type.args[1].cname]}({name})\n"
        for name, slot in fields
        if name.startswith("get_") and name.endswith("_option")
    )


def option_rewrites() -> str:
    """Returns C code: for each op with an options builder, a pattern that gives it options from `option_value`.

    No other op has these options, so that a pattern matches once.
    """
    slots = dict(ffi.typeof("LiteRtCompilerContext").fields)
    return "".join(_option_rewrite(name, fields, slots) for name, fields in OPTIONS.items())


def _option_rewrite(name: str, fields: Sequence[str], slots: Mapping[str, Any]) -> str:
    builder = slots[f"build_{name}_op_option"].type.args[2:]
    types = [argument.item.cname.replace("_Bool", "bool") for argument in builder]
    values = ", ".join(f"&v{i}" for i in range(len(fields)))
    first = "half_pixel_center" if fields[0] == "half_pixel_centers" else fields[0]
    variables = "".join(
        f"  {types[i]} v{i} = {option_value(field)};\n" for i, field in enumerate(fields)
    )
    return (
        f"static LiteRtStatus options_of_{name}(const LiteRtCompilerContext* c, LiteRtBuilder b,"
        " LiteRtOp op) {\n"
        f"{variables}  {types[0]} now;\n"
        f"  LiteRtStatus status = c->get_{name}_{first}_option(op, &now);\n"
        "  if (status || now == v0) return NO_MATCH;\n"
        "  LiteRtTensor x = input(c, op, 0), y = output(c, op);\n"
        "  LiteRtOp made;\n"
        f"  TRY(c->build_op(b, {BUILTIN_NUMBERS[name.upper()]}, 1, &x, 1, &y, &made));\n"
        f"  TRY(c->build_{name}_op_option(b, made, {values}));\n"
        "  return c->erase_op(b, op);\n}\n"
    )


def option_value(field: str) -> float:
    """Returns the value that a rewrite gives to an option."""
    kinds = {"alpha": 0.75, "beta": 0.75, "fused_activation": 3, "padding": 1, "mode": 1}
    if field.startswith(
        ("adj_", "keep_", "asym", "align", "half", "exclu", "rever", "approx", "off")
    ):
        return 1
    if field in ("weights_format", "quantized_bias_type"):
        return 1
    return kinds.get(field, sum(map(ord, field)) % 97 + 2)


def wrap(library: Path, folder: Path) -> Path:
    """Writes a Python module that loads the library as a plugin in this process; returns its folder."""
    libs = folder / "libs"
    libs.mkdir(exist_ok=True)
    (libs / "LiteRtCompilerPlugin_Scribe.py").write_text(
        "from compiler_plugin.native.native_plugin import NativePluginFactory\n"
        f"PLUGIN = NativePluginFactory({str(library)!r})\n"
    )
    return libs
