"""Computes the name of a compiled model in the cache: a digest of all inputs of the compilation.

The digest covers the model's bytes, the options for loading, the plugins, and all files to which options or
environment variables refer: custom layers, option values that are paths, and options that exported plugins read
from the environment. The digest of a large file is stored, so that the file is read again only after a change. For
plugins, the digest covers the sizes and modification times of their files. The digest does not cover companion
files of assets, because only the plugin knows them; `CompileCache.find` compares these files.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from compiler_plugin.asset_files import open_assets
from compiler_plugin.native.exported.options import (
    CUSTOM_OP_INFO_VARIABLE,
    OPTIONS_VARIABLE,
    environment_parts,
)
from dispatch.loader import list_dispatch
from litert.core.compiler_options import (
    CUSTOM_LAYERS_VARIABLE,
    CompilerOptions,
    CustomOpInfo,
    environment_layers,
)
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.option import Goes, options_of
from litert.core.version import SDK_VERSION
from litert.host.cache_entry import read_entry, write_entry
from litert.model.blob import Blob, MappedFile
from litert.model.manifest import Digest
from litert.options import Options
from litert.runtime.load_candidates import Candidates, fingerprint, host_fingerprint

DIGEST_SUFFIX = ".digest"

_FORMAT = 6
_PURPOSE = "the digest of a model"
_VARIABLES = (CUSTOM_LAYERS_VARIABLE, CUSTOM_OP_INFO_VARIABLE, OPTIONS_VARIABLE)
_ASSET_HINT = "Check the path in Options.custom_op_infos."
_LARGE_FILE = 16 << 20
# Resolution of the coarsest file system clocks, in which a newer file may change unnoticed
_CLOCK_NS = 2 * 10**9


def make_key(
    source: MappedFile | bytes,
    options: Options,
    candidates: Candidates,
    environment: EnvironmentOptions,
) -> str:
    """Returns the key, which has 64 hexadecimal digits. An asset that cannot be read is an error."""
    document = {
        "host": [_FORMAT, SDK_VERSION, host_fingerprint(), os.geteuid()],
        "model": model_digest(source, environment.compiler_cache_dir),
        "target": [options.soc_manufacturer, options.soc_model],
        "candidates": list(candidates.fingerprints()),
        "dispatch": sorted(list_dispatch(environment.dispatch_library_path)),
        "options": _option_values(options),
        "vendor_options": [dict(options.compiler_options), options.stock_compiler_flags()],
        "files": _digest_named_files(options, environment.compiler_cache_dir),
        "environment": [os.environ.get(name, "") for name in _VARIABLES],
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _option_values(options: Options) -> Any:
    """Returns the options that affect a load, in JSON form.

    Files and directories appear as facts that change with them.
    """
    declared = [option.field for option in options_of(CompilerOptions) if Goes.LOAD in option.goes]
    values: dict[str, Any] = {name: getattr(options, name) for name in declared}
    infos, root = options.custom_op_infos, options.asset_root
    with open_assets(infos, hint=_ASSET_HINT) as files:
        digests = {name: Digest.of(file.blob()).sha256 for name, file in files.items()}
    values["custom_op_infos"] = [
        [i.op_name, os.path.basename(i.asset_path), digests[i.op_name]] for i in infos
    ]
    values["custom_layers"] = map(os.path.realpath, layer_paths(options))
    # The directory for companions, and the assets, whose names determine the companions' names.
    within = [root, *(info.asset_path for info in infos)] if root else []
    values["asset_root"] = map(os.path.realpath, within)
    return _plain(values)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, bool | str):
        return value
    return str(value) if isinstance(value, int) else [_plain(item) for item in value]


def model_digest(source: MappedFile | bytes, folder: str) -> str:
    """Returns the SHA-256 of a model; stores a large file's digest and `stat` data in a directory for reuse."""
    if isinstance(source, bytes):
        return Digest.of(Blob(source)).sha256
    if source.size < _LARGE_FILE:
        return Digest.of(source.blob()).sha256
    stat = os.fstat(source.fd)
    identity = [stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    name = hashlib.sha256(json.dumps([os.geteuid(), identity]).encode()).hexdigest()
    path = os.path.join(folder, name + DIGEST_SUFFIX)
    with suppress(OSError, LiteRtError):
        kept = read_entry(path, _PURPOSE).decode()
        os.utime(path)
        return kept
    digest = Digest.of(source.blob()).sha256
    if max(stat.st_mtime_ns, stat.st_ctime_ns) + _CLOCK_NS < time.time_ns():
        # A directory that cannot be written: the file is read again at the next load.
        with suppress(OSError, LiteRtError):
            write_entry(path, _PURPOSE, digest.encode())
    return digest


def _digest_named_files(options: Options, cache_folder: str) -> Sequence[tuple[str, str]]:
    """Returns the files to which options and environment variables refer, with digests, in a stable order."""
    found: dict[str, str] = {}
    named = {path for value in _values(options) for path in _paths(value)}
    for path in named.union(layer_files(layer_paths(options))):
        if os.path.isfile(path):
            found[path] = _digest(path, cache_folder)
    for folder in _layer_folders():
        found[folder] = fingerprint(folder)
    return sorted(found.items())


def layer_paths(options: Options) -> Sequence[str]:
    """Returns the paths of custom layers: first those in the options, then those in environment variables."""
    return [*options.custom_layers, *environment_layers()]


def layer_files(paths: Sequence[str]) -> list[str]:
    """Returns the files that may define custom layers: the given files, and the files in the given directories."""
    files: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            with suppress(OSError):  # the plugin reports the error
                files += [os.path.join(path, name) for name in sorted(os.listdir(path))]
        else:
            files.append(path)
    return list(filter(os.path.isfile, files))


def environment_infos(known: Sequence[CustomOpInfo]) -> list[CustomOpInfo]:
    """Returns exported plugins' assets from environment variables, except assets for ops that `known` contains."""
    names = {info.op_name for info in known}
    infos: list[CustomOpInfo] = []
    for text in [*environment_parts(CUSTOM_OP_INFO_VARIABLE), *_flags("npu_custom_op_info")]:
        with suppress(LiteRtError):  # the plugin reports the error
            infos.append(CustomOpInfo.parse(text))
    return [info for info in infos if info.op_name not in names]


def environment_asset_root() -> str:
    """Returns the directory in which exported plugins allow companion files; "" if there is none."""
    return next(iter(_flags("asset_root")), "")


def _values(options: Options) -> Iterator[str]:
    yield from options.compiler_options.values()
    for group in options.stock_compiler_flags().values():
        yield from group.values()
    yield from environment_parts(CUSTOM_OP_INFO_VARIABLE)
    for part in environment_parts(OPTIONS_VARIABLE):
        yield part.partition("=")[2]


def _paths(value: str) -> Iterator[str]:
    """Returns the parts of a value that may be paths.

    The whole value, the text after an op's name, and the entries of a list.
    """
    yield value
    yield value.partition(",")[2]
    yield from value.split(",")


def _layer_folders() -> Iterator[str]:
    """Returns the layer directories that the environment names, and the asset root for files that layers name."""
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
    except LiteRtError as error:  # the reader of the file reports the error
        return error.status.name
