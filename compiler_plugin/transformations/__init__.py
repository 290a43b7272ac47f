"""Model transformations: the classes and functions that authors of extensions import.

Each class or function is imported from its module at the first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compiler_plugin.transform_options import Phase, TransformOptions
    from compiler_plugin.transformations.custom_ops import (
        Extractor,
        OpLibrary,
        flexbuffer_options,
        raw_options,
    )
    from compiler_plugin.transformations.editing import edit_model
    from compiler_plugin.transformations.graph import Graph
    from compiler_plugin.transformations.node import Connection, InPort, Node, OutPort, PortData
    from compiler_plugin.transformations.op import Op
    from compiler_plugin.transformations.pattern import Any, Between, Const, Match
    from compiler_plugin.transformations.replacement import OpReplacement, PatternReplacement
    from compiler_plugin.transformations.sub_graph_match import SubgraphMatch
    from compiler_plugin.transformations.sub_graph_replacement import (
        GeneralReplacement,
        SubgraphReplacement,
    )
    from compiler_plugin.transformations.transformation import Transformation
    from litert.model.raw_options import RawField, raw_fields

__all__ = [
    "Any",
    "Between",
    "Connection",
    "Const",
    "Extractor",
    "GeneralReplacement",
    "Graph",
    "InPort",
    "Match",
    "Node",
    "Op",
    "OpLibrary",
    "OpReplacement",
    "OutPort",
    "PatternReplacement",
    "Phase",
    "PortData",
    "RawField",
    "SubgraphMatch",
    "SubgraphReplacement",
    "TransformOptions",
    "Transformation",
    "edit_model",
    "flexbuffer_options",
    "raw_fields",
    "raw_options",
]

_NAMES = {
    ".custom_ops": ("Extractor", "OpLibrary", "flexbuffer_options", "raw_options"),
    ".editing": ("edit_model",),
    ".graph": ("Graph",),
    ".node": ("Connection", "InPort", "Node", "OutPort", "PortData"),
    ".op": ("Op",),
    ".pattern": ("Any", "Between", "Const", "Match"),
    ".replacement": ("OpReplacement", "PatternReplacement"),
    ".sub_graph_match": ("SubgraphMatch",),
    ".sub_graph_replacement": ("GeneralReplacement", "SubgraphReplacement"),
    ".transformation": ("Transformation",),
    "compiler_plugin.transform_options": ("Phase", "TransformOptions"),
    "litert.model.raw_options": ("RawField", "raw_fields"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _MODULES:
        if name[0].isupper():
            other = import_module(".model_optimizer", __name__)
            if name in other.__all__:  # `import` hides the text of an AttributeError
                raise ImportError(f"{name} is in {other.__name__}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
