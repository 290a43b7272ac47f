"""Model transformations: what authors of extensions import. Each name is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compiler_plugin.transformations.connection import Connection
    from compiler_plugin.transformations.graph import Graph
    from compiler_plugin.transformations.node import Node
    from compiler_plugin.transformations.options import TransformOptions
    from compiler_plugin.transformations.pattern import Any, Between, Const, Match
    from compiler_plugin.transformations.phase import Phase
    from compiler_plugin.transformations.ports import InPort, OutPort, PortData
    from compiler_plugin.transformations.replacement import OpReplacement, PatternReplacement
    from compiler_plugin.transformations.transformation import Transformation

__all__ = [
    "Any",
    "Between",
    "Connection",
    "Const",
    "Graph",
    "InPort",
    "Match",
    "Node",
    "OpReplacement",
    "OutPort",
    "PatternReplacement",
    "Phase",
    "PortData",
    "TransformOptions",
    "Transformation",
]

_MODULES = {
    "Any": "pattern",
    "Between": "pattern",
    "Connection": "connection",
    "Const": "pattern",
    "Graph": "graph",
    "InPort": "ports",
    "Match": "pattern",
    "Node": "node",
    "OpReplacement": "replacement",
    "OutPort": "ports",
    "PatternReplacement": "replacement",
    "Phase": "phase",
    "PortData": "ports",
    "TransformOptions": "options",
    "Transformation": "transformation",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
