"""Model transformations: what authors of extensions import. Each name is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compiler_plugin.transformations.connection import Connection
    from compiler_plugin.transformations.graph import Graph
    from compiler_plugin.transformations.node import Node
    from compiler_plugin.transformations.options import TransformOptions
    from compiler_plugin.transformations.phase import Phase
    from compiler_plugin.transformations.ports import InPort, OutPort, PortData
    from compiler_plugin.transformations.transformation import Transformation

__all__ = [
    "Connection",
    "Graph",
    "InPort",
    "Node",
    "OutPort",
    "Phase",
    "PortData",
    "TransformOptions",
    "Transformation",
]

_MODULES = {
    "Connection": "connection",
    "Graph": "graph",
    "InPort": "ports",
    "Node": "node",
    "OutPort": "ports",
    "Phase": "phase",
    "PortData": "ports",
    "TransformOptions": "options",
    "Transformation": "transformation",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
