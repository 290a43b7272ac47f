"""JSON schemas of what `--report=json` prints, made of the reports' dataclasses and their docstrings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from litert_npu_tools.benchmark_command import BenchmarkReport
from litert_npu_tools.check_command import CheckReport
from litert_npu_tools.compare_report import CompareReport
from litert_npu_tools.coverage_report import CoverageReport
from litert_npu_tools.error_report import ErrorReport
from litert_npu_tools.info_command import Info
from litert_npu_tools.inspection import Inspection
from litert_npu_tools.layer.check import SanitizedLayer
from litert_npu_tools.layer.run import LayerRun
from litert_npu_tools.layer.tune import TunedLayer
from litert_npu_tools.profile_report import ProfileReport
from litert_npu_tools.run_command import RunReport
from litert_npu_tools.tune_command import TuningReport
from litert_npu_tools.vendor.check_report import VendorFindings

from compiler_plugin.commands import PluginInfo
from compiler_plugin.report import Report
from compiler_plugin.transformations.transformation_plan import TransformationInfo
from litert.model.subgraph_diff import ModelDiff
from vendor_reference.authoring.layer_check import LayerReport

REPORTS: Mapping[str, Any] = {
    "apply_plugin": Report,
    "apply_plugin --cmd=info": Sequence[PluginInfo],
    "apply_plugin --list_transformations": Sequence[TransformationInfo],
    "litert-npu run": RunReport,
    "litert-npu benchmark": BenchmarkReport,
    "litert-npu profile": ProfileReport,
    "litert-npu coverage": CoverageReport,
    "litert-npu compare": CompareReport,
    "litert-npu inspect": Inspection,
    "litert-npu diff": ModelDiff,
    "litert-npu check": CheckReport,
    "litert-npu layer check": LayerReport,
    "litert-npu layer check --sanitize": SanitizedLayer,
    "litert-npu layer run": LayerRun,
    "litert-npu layer tune": TunedLayer,
    "litert-npu tune": TuningReport,
    "litert-npu vendor check": VendorFindings,
    "litert-npu transform": Report,
    "litert-npu transform --list_transformations": Sequence[TransformationInfo],
    "litert-npu info": Info,
}
"""What each command prints."""

_SIMPLE = {str: "string", bool: "boolean", int: "integer", NoneType: "null"}


def file_name(command: str) -> str:
    """Of a command's schema: `layer_check.json`."""
    return re.sub(r"[ -]+", "_", command.removeprefix("litert-npu ")).replace("=", "_") + ".json"


def schema_of(command: str, is_open: bool = True) -> dict[str, Any]:
    """The schema of a command's report; one that is not open forbids fields that it does not have."""
    return _whole_schema(f"{command} --report=json", REPORTS[command], is_open)


def error_schema(is_open: bool = True) -> dict[str, Any]:
    """The schema of the error that a command with --report=json prints."""
    return _whole_schema("the error of a command with --report=json", ErrorReport, is_open)


def _whole_schema(title: str, kind: Any, is_open: bool) -> dict[str, Any]:
    kinds = _Kinds(is_open)
    whole = kinds.schema(kind)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **whole,
        "$defs": kinds.definitions,
    }


class _Kinds:
    """Schemas of types; those of dataclasses stand once, by their names."""

    def __init__(self, is_open: bool) -> None:
        self.definitions: dict[str, dict[str, Any]] = {}
        self._types: dict[str, type] = {}
        self._is_open = is_open

    def schema(self, kind: Any) -> dict[str, Any]:
        """That of any type which a report may have."""
        origin, arguments = get_origin(kind), get_args(kind)
        if kind in _SIMPLE:
            return {"type": _SIMPLE[kind]}
        if kind is float:
            return {"type": ["number", "null"]}  # what is no finite number is null
        if kind in (Any, object):
            return {}
        if origin in (Union, UnionType):
            return _any_of([self.schema(argument) for argument in arguments])
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is tuple and arguments[-1] is not ...:
            items = [self.schema(argument) for argument in arguments]
            return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.schema(arguments[1])}
        if isinstance(origin, type) and issubclass(origin, Sequence):
            return {"type": "array", "items": self.schema(arguments[0])}
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {"enum": [member.value for member in kind]}
        assert dataclasses.is_dataclass(kind) and isinstance(kind, type), f"no schema for {kind}"
        return self._reference(kind)

    def _reference(self, kind: type) -> dict[str, Any]:
        known = self._types.setdefault(kind.__name__, kind)
        assert known is kind, f"two reports have a {kind.__name__}: rename one of them"
        if kind.__name__ not in self.definitions:
            self.definitions[kind.__name__] = {}  # it may hold itself
            self.definitions[kind.__name__] = self._of_dataclass(kind)
        return {"$ref": f"#/$defs/{kind.__name__}"}

    def _of_dataclass(self, kind: type) -> dict[str, Any]:
        about, _, _ = inspect.cleandoc(kind.__doc__ or "").partition("\n\nAttributes:")
        told = dict(_attributes(kind))
        properties = {
            name: self.schema(hint) | ({"description": told[name]} if name in told else {})
            for name, hint in _fields(kind)
        }
        return {
            "description": _sentence(about),
            "type": "object",
            "properties": properties,
            "required": list(properties),
            **({} if self._is_open else {"additionalProperties": False}),
        }


def _any_of(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if all(part.keys() == {"type"} for part in parts):
        types = [part["type"] for part in parts]
        flat = [t for kinds in types for t in (kinds if isinstance(kinds, list) else [kinds])]
        return {"type": list(dict.fromkeys(flat))}
    return {"anyOf": list(parts)}


def _fields(kind: type) -> Iterator[tuple[str, Any]]:
    """Names and types, also of properties that JSON has beyond the fields."""
    hints = get_type_hints(kind, localns=_names(kind))
    yield from ((field.name, hints[field.name]) for field in dataclasses.fields(kind))
    for name in getattr(kind, "answers", ()):
        getter = inspect.getattr_static(kind, name).fget
        yield name, get_type_hints(getter, localns=_names(kind))["return"]


def _names(kind: type) -> dict[str, Any]:
    """A module's names, also those that it imports for the type checker alone."""
    module = sys.modules[kind.__module__]
    names = dict(vars(module))
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module.__name__, "exec"), names)
    return names


def _attributes(kind: type) -> Iterator[tuple[str, str]]:
    """Names of fields, and what docstrings say of them; of answers, what their own do."""
    for base in reversed(kind.__mro__):
        _, _, listed = inspect.cleandoc(base.__doc__ or "").partition("\nAttributes:\n")
        listed = inspect.cleandoc(listed.partition("\n\n")[0])
        for names, text in re.findall(r"^([\w, ]+): (.*(?:\n .*)*)", listed, re.MULTILINE):
            for name in names.split(", "):
                yield name, _sentence(text)
    for name in getattr(kind, "answers", ()):
        yield name, _sentence(inspect.getdoc(getattr(kind, name)) or "")


def _sentence(text: str) -> str:
    """On one line, with the words of JSON."""
    return re.sub(r"\bNone\b", "null", " ".join(text.split()))
