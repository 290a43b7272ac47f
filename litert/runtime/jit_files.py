"""Files that shape what a vendor compiles, beside the model and the assets in a program's options.

Layers for any model are among them, and the value of an option may name one. What exported plugins read of the
environment names assets and folders of layers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from compiler_plugin.native.exported.options import (
    CUSTOM_OP_INFO_VARIABLE,
    OPTIONS_VARIABLE,
    environment_parts,
)
from litert.core.compiler_options import CustomOpInfo
from litert.core.errors import LiteRtError
from litert.model.blob import MappedFile
from litert.runtime.jit_candidates import fingerprint
from litert.runtime.jit_settings import JitSettings
from litert.runtime.model_digest import model_digest


def digest_named_files(settings: JitSettings, cache_folder: str) -> Sequence[tuple[str, str]]:
    """The files that options and the environment name.

    Args:
      settings: with the options.
      cache_folder: where digests of large files are kept.

    Returns:
      Paths, each with a digest of what is there, in a stable order; what is no file is not among them.
    """
    found: dict[str, str] = {}
    named = {path for value in _values(settings) for path in _paths(value)}
    for path in named.union(layer_files(settings.compiler.custom_layers)):
        if os.path.isfile(path):
            found[path] = _digest(path, cache_folder)
    for folder in _layer_folders():
        found[folder] = fingerprint(folder)
    return sorted(found.items())


def layer_files(paths: Sequence[str]) -> list[str]:
    """The files that layers for any model can be in: those that are named, and those in folders that are."""
    files: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            with suppress(OSError):  # the plugin says what is wrong with it
                files += [os.path.join(path, name) for name in sorted(os.listdir(path))]
        else:
            files.append(path)
    return list(filter(os.path.isfile, files))


def environment_infos(known: Sequence[CustomOpInfo]) -> list[CustomOpInfo]:
    """The assets that the environment has for exported plugins, without those of ops that are known."""
    names = {info.op_name for info in known}
    infos: list[CustomOpInfo] = []
    for text in [*environment_parts(CUSTOM_OP_INFO_VARIABLE), *_flags("npu_custom_op_info")]:
        with suppress(LiteRtError):  # the plugin says what is wrong with it
            infos.append(CustomOpInfo.parse(text))
    return [info for info in infos if info.op_name not in names]


def environment_asset_root() -> str:
    """The folder that exported plugins let companions lie in; "" for none."""
    return next(iter(_flags("asset_root")), "")


def _values(settings: JitSettings) -> Iterator[str]:
    yield from settings.compiler.vendor_options.values()
    for group in settings.stock_flags.values():
        yield from group.values()
    yield from environment_parts(CUSTOM_OP_INFO_VARIABLE)
    for part in environment_parts(OPTIONS_VARIABLE):
        yield part.partition("=")[2]


def _paths(value: str) -> Iterator[str]:
    """What may be a path in a value: all of it, what follows an op's name, and the entries of a list."""
    yield value
    yield value.partition(",")[2]
    yield from value.split(",")


def _layer_folders() -> Iterator[str]:
    """Folders of layers that the environment names; what these name may lie in the asset root."""
    for layer in _flags("custom_layers"):
        for path in (layer, *_flags("asset_root")):
            if os.path.exists(path):
                yield path if os.path.isdir(path) else os.path.dirname(path) or os.curdir


def _flags(name: str) -> list[str]:
    parts = [part.lstrip("-").partition("=") for part in environment_parts(OPTIONS_VARIABLE)]
    return [value for flag, _, value in parts if flag == name]


def _digest(path: str, cache_folder: str) -> str:
    try:
        with MappedFile(path) as file:
            return model_digest(file, cache_folder)
    except LiteRtError as error:  # what reads it will say so
        return error.status.name
