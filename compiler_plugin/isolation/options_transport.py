"""Options for another process, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from litert.core.compiler_options import CompilerOptions, CustomOpInfo, DumpOptions
from litert.core.environment_options import EnvironmentOptions


def pack_environment(options: EnvironmentOptions) -> object:
    """An environment's options."""
    return {field.name: getattr(options, field.name) for field in fields(options)}


def unpack_environment(packed: Mapping[str, Any]) -> EnvironmentOptions:
    """What `pack_environment` packed."""
    return EnvironmentOptions(**packed)


def pack_options(options: CompilerOptions) -> object:
    """What a plugin may read of the user's wishes."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    dump = options.dump
    return {
        **values,
        "custom_op_infos": pack_infos(options.custom_op_infos),
        "vendor_options": dict(options.vendor_options),
        "custom_layers": list(options.custom_layers),
        "shape_bounds": {name: list(shape) for name, shape in options.shape_bounds.items()},
        "dump": {field.name: getattr(dump, field.name) for field in fields(dump)},
    }


def unpack_options(packed: Mapping[str, Any]) -> CompilerOptions:
    """What `pack_options` packed."""
    infos, dump = unpack_infos(packed["custom_op_infos"]), DumpOptions(**packed["dump"])
    return CompilerOptions(**{**packed, "custom_op_infos": infos, "dump": dump})


def pack_infos(infos: Sequence[CustomOpInfo]) -> object:
    """Ops, with the files of their assets."""
    return [[info.op_name, info.asset_path] for info in infos]


def unpack_infos(packed: Sequence[Any]) -> list[CustomOpInfo]:
    """What `pack_infos` packed."""
    return [CustomOpInfo(name, path) for name, path in packed]
