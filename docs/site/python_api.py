"""Writes `docs/python_api.md`, which describes the public classes and functions with their docstrings.

python -m docs.site.python_api
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "python_api.md"

INTRODUCTION = """\
# Python API

This page lists the classes and functions that programs, transformations and vendors import, with their arguments,
results and errors. The command `make golden` generates this page from the docstrings in the source code.
"""
TEXTS = {
    "Running models": "A program loads a model and runs the model on arrays or buffers. The model may be compiled "
    "for an NPU. An *NPU call* is an op of a compiled model that runs a part of the model on the NPU. An *asset* "
    "is a file with the kernel of a custom op. The page [With stock LiteRT](stock_litert.md) compares this "
    "package with stock LiteRT, which is Google's package `ai_edge_litert`.",
    "Compiling models": "A program compiles a model as the command `apply_plugin` does, and gets a report.",
    "Building and editing models": "A program builds a model from a few lines of Python, or reads a model, edits "
    "the graph and writes the model again. [Transforming models](transformations.md) is the guide.",
    "Compiling for a vendor's NPU": "A vendor implements these interfaces to compile models. The *host* is "
    "the program that calls the vendor's code. [Bringing a vendor](vendors.md) is the guide.",
    "Running on a vendor's NPU": "A vendor implements these interfaces to run compiled models. The *host* is "
    "the program that calls the vendor's code. [Bringing a vendor](vendors.md) is the guide.",
}
"""Text below the title of each section."""

SECTIONS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "Running models": {
        "litert": (
            *(
                "CompiledModel",
                "TensorBuffer",
                "Options",
                "CpuOptions",
                "GpuOptions",
                "CpuKernelMode",
            ),
            *("HardwareAccelerator", "CustomOpInfo", "Environment", "EnvironmentOptions", "Event"),
            *("RunMetrics", "CallMetrics", "OpMetrics", "Interpreter", "ElementType"),
            *("LiteRtError", "Status"),
        ),
    },
    "Compiling models": {
        "compiler_plugin.pipeline": ("apply_plugin", "apply_in_memory", "ApplyOptions"),
        "litert.core.compiler_options": ("CompilerOptions",),
        "compiler_plugin.report": (
            *("Report", "OpReport", "CompositeReport", "CallReport", "AssetReport"),
            "TransformationReport",
        ),
        "litert.aot": ("Target",),
    },
    "Building and editing models": {
        "litert.model.builder": ("ModelBuilder", "SubgraphBuilder"),
        "litert.model.reader": ("read_model",),
        "litert.model.writer": ("write_model",),
        "compiler_plugin.transformations": (
            *("edit_model", "Graph", "Node", "InPort", "OutPort", "Connection", "PortData"),
            *("Transformation", "OpReplacement", "PatternReplacement", "GeneralReplacement"),
            *("SubgraphReplacement", "SubgraphMatch", "Match", "Const", "Any", "Between", "Op"),
            *("Extractor", "OpLibrary", "flexbuffer_options", "raw_options", "raw_fields"),
            *("RawField", "Phase", "TransformOptions"),
        ),
    },
    "Compiling for a vendor's NPU": {
        "compiler_plugin.plugin": (
            *("CompilerPluginFactory", "CompilerPlugin", "OpList", "Selection", "CompiledResult"),
            *("CallInfo", "Companion", "Hardware"),
        ),
    },
    "Running on a vendor's NPU": {
        "dispatch.api": (
            *("Dispatch", "Capability", "HostInvocationContext", "MemBuffer", "TensorBuffer"),
            *("TensorBufferRequirements", "ExecutableType", "SchedulingInfo", "Metric"),
            *("AsyncInterface", "GraphInterface", "NodeType", "BufferHandlers", "LockMode"),
        ),
    },
}
"""Names of classes and functions, by the section of the page, and by the module from which users import them."""

_HEADING = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$", re.MULTILINE)
_ENTRY = re.compile(r"(\w[\w, *]*): (.+)", re.DOTALL)
_TITLES = {"Args": "Arguments"}
_WIDTH = 100


def document() -> str:
    """Returns the text of the page."""
    parts = [INTRODUCTION]
    for title, modules in SECTIONS.items():
        text = textwrap.fill(TEXTS[title], 120, break_on_hyphens=False, break_long_words=False)
        parts.append(f"\n## {title}\n{text}\n")
        for module, names in modules.items():
            for name in names:
                parts += _entry(module, name)
    return "".join(parts)


def _entry(module: str, name: str) -> Iterator[str]:
    """Yields the parts of the text about a class or function."""
    value = getattr(import_module(module), name)
    yield f"\n### {name}\n"
    yield f"`from {module} import {name}`\n\n"
    if not inspect.isclass(value):
        yield _code(name, value)
        yield from _sections(value.__doc__)
        return
    yield from _sections(value.__doc__, _fields(value))
    if issubclass(value, Enum):
        members = ", ".join(f"`{key}` ({m.value!r})" for key, m in value.__members__.items())
        yield f"\n**Members**: {members}\n"
    for member_name, member in vars(value).items():
        function = getattr(member, "__func__", member)
        if member_name.startswith("_") or not member.__doc__:
            continue  # private, or described by a base class
        if isinstance(member, property):
            returns = inspect.get_annotations(member.fget)["return"] if member.fget else "Any"
            if not isinstance(returns, str):
                returns = inspect.formatannotation(returns)
            yield f"\n#### {name}.{member_name}\n```py\n{member_name}: {returns}\n```\n"
            yield from _sections(member.__doc__)
        elif inspect.isfunction(function) and not issubclass(value, Enum):
            yield f"\n#### {name}.{member_name}\n"
            yield _code(member_name, function, is_member=not isinstance(member, staticmethod))
            yield from _sections(member.__doc__)


def _fields(cls: type) -> dict[str, str]:
    """Returns the attributes of a class, each with its type and default as in the source."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        for name, annotation in inspect.get_annotations(base).items():
            text = (
                annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
            )
            text = re.sub(r"^ClassVar\[(.*)\]$|^_Group\[(.*)\]$", r"\1\2", text)
            found[name] = f"{name}: {text}"
    if dataclasses.is_dataclass(cls):
        for field in dataclasses.fields(cls):
            if field.default is not dataclasses.MISSING and "_Group" not in str(field.type):
                found[field.name] += f" = {_value(field.default)}"
            elif field.default_factory is not dataclasses.MISSING:
                found[field.name] += f" = {_value(field.default_factory())}"
    return found


def _sections(docstring: str | None, fields: dict[str, str] | None = None) -> Iterator[str]:
    """Yields a docstring as Markdown: its text, and a list for each of its sections."""
    text, *rest = _HEADING.split(inspect.cleandoc(docstring or ""))
    yield f"{text.strip()}\n" if text.strip() else ""
    for heading, block in zip(rest[::2], rest[1::2], strict=True):
        title = _TITLES.get(heading, heading)
        if heading in ("Returns", "Yields"):
            yield f"\n**{title}**: {inspect.cleandoc(block)}\n"
            continue
        yield f"\n**{title}**:\n\n"
        for item in re.split(r"\n(?=\S)", inspect.cleandoc(block)):
            entry = _ENTRY.fullmatch(item)
            names, description = (entry[1], entry[2]) if entry else ("", item)
            codes = ", ".join(f"`{(fields or {}).get(n, n)}`" for n in names.split(", ") if n)
            yield f"- {codes}{': ' if codes else ''}{' '.join(description.split())}\n"


def _code(name: str, function: Callable[..., Any], *, is_member: bool = False) -> str:
    """Returns the signature of a function as a block of code, which readers do not run: `py`."""
    signature = inspect.signature(function)
    parameters = [_parameter(p) for p in signature.parameters.values()][is_member:]
    kinds = [p.kind for p in signature.parameters.values()][is_member:]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returns = str(signature.return_annotation)
    original = inspect.unwrap(function)
    if original is not function and inspect.isgeneratorfunction(original):
        name, returns = f"with {name}", re.sub(r"^Iterator\[(.*)\]$", r"\1", returns)
    line = f"{name}({', '.join(parameters)}) -> {returns}"
    if len(line) > _WIDTH:
        line = f"{name}(\n    " + ",\n    ".join(parameters) + f",\n) -> {returns}"
    return f"```py\n{line}\n```\n"


def _parameter(parameter: inspect.Parameter) -> str:
    is_list = parameter.kind is inspect.Parameter.VAR_POSITIONAL
    is_map = parameter.kind is inspect.Parameter.VAR_KEYWORD
    text = f"{'*' * is_list}{'**' * is_map}{parameter.name}"
    if parameter.annotation is not inspect.Parameter.empty:
        text += f": {parameter.annotation}"
    if parameter.default is not inspect.Parameter.empty:
        text += f" = {_value(parameter.default)}"
    return text


def _value(value: object) -> str:
    """Returns a default as a program writes it; `...` for one that has no short text."""
    if isinstance(value, Enum):
        return str(value) if "." in str(value) else f"{type(value).__name__}.{value.name}"
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}()"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (bool, int, float, tuple, list, dict, type(None))):
        return repr(value)
    return "{}" if value == {} else "..."


if __name__ == "__main__":
    TARGET.write_text(document(), encoding="utf-8")
