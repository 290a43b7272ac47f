"""Model transformations: what authors of extensions import. Each name is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compiler_plugin.transformations.options import TransformOptions
    from compiler_plugin.transformations.phase import Phase
    from compiler_plugin.transformations.transformation import Transformation

__all__ = ["Phase", "TransformOptions", "Transformation"]

_MODULES = {
    "Phase": "phase",
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
