"""A cache directory for models that were compiled at load; several processes may share the directory.

An entry is either a compiled file whose seal depends on the entry's key, or a file with the reasons why no vendor
takes an op. Incomplete entries are never visible. If an entry is damaged or its asset files have changed, the
model is compiled again. The least recently used entries are removed when the directory grows too large.
"""

from __future__ import annotations

import hmac
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from compiler_plugin.asset_files import companion_paths
from litert.core.compiler_options import CustomOpInfo
from litert.core.errors import LiteRtError
from litert.host import user_key
from litert.host.cache_entry import is_own, read_entry, trim_folder, write_entry
from litert.model.assets import Asset
from litert.model.blob import MappedFile
from litert.model.file_digest import AT_LOAD_LIMIT, NO_SEAL, check_digest, find_digest
from litert.model.graph import Model
from litert.model.manifest import read_manifest
from litert.model.reader import read_model
from litert.options import Options
from litert.runtime.compile_key import (
    DIGEST_SUFFIX,
    environment_asset_root,
    environment_infos,
    layer_files,
    layer_paths,
)
from litert.runtime.npu_parts import read_npu_parts

_LOG = logging.getLogger(__name__)

_COMPILED, _NOTHING = ".tflite", ".nothing"
_OURS = re.compile(
    rf"[0-9a-f]{{64}}({re.escape(_COMPILED)}|{re.escape(_NOTHING)}|{re.escape(DIGEST_SUFFIX)})"
)
_PURPOSE = "nothing to compile"


@dataclass(frozen=True, slots=True)
class Nothing:
    """A cache entry which says that no vendor takes an op, with the reasons as sentences."""

    why: str


class Kept(NamedTuple):
    """An open compiled file from the cache, and the model that was read from the file."""

    file: MappedFile
    model: Model


class CompileCache:
    """The cache directory, which is created when the first entry is stored."""

    def __init__(self, folder: str, limit_bytes: int) -> None:
        """Sets the directory and its size limit; other processes may share the directory.

        The newest entry is kept even if it exceeds the limit.
        """
        self._folder = folder
        self._limit_bytes = limit_bytes

    def find(self, key: str, options: Options) -> Kept | Nothing | None:
        """Returns the entry for a key; None if there is no entry that is usable with the options."""
        with suppress(OSError, LiteRtError):
            path = self._path(key, _NOTHING)
            why = read_entry(path, _PURPOSE).decode()
            os.utime(path)
            return Nothing(why)
        path = self._path(key, _COMPILED)
        try:
            file = MappedFile(path)
        except LiteRtError:
            return None
        with ExitStack() as unless_kept:
            unless_kept.callback(file.close)
            try:
                problem = "the file is damaged"
                if not is_own(os.fstat(file.fd)):
                    problem = "other users can write to the file"
                elif _is_as_stored(file, key, is_shared=self._is_shared):
                    kept = Kept(file, read_model(file))
                    unless_kept.callback(kept.model.release)
                    problem = _problem(kept, options)
            except (OSError, LiteRtError) as error:
                problem = str(error)
            if not problem:
                unless_kept.pop_all()
                with suppress(OSError):
                    os.utime(path)
                return kept
        _LOG.warning("%s is compiled again: %s", path, problem)
        with suppress(OSError):
            os.unlink(path)
        return None

    def store(self, key: str, model: Model) -> MappedFile | None:
        """Stores a compiled model, and returns the open file; returns None if the model cannot be stored."""
        # Imported here, because a cached model needs no writer
        from litert.model.writer import write_model

        path = self._path(key, _COMPILED)
        with self._storing(path, "The compiled model"):
            os.makedirs(self._folder, exist_ok=True)
            write_model(
                model,
                path,
                seal=partial(_seal, key),
                digest_weights=self._is_shared,
                permissions=0o600,
            )
            return MappedFile(path)
        return None

    def store_nothing(self, key: str, nothing: Nothing) -> None:
        """Stores an entry which says that no vendor takes an op."""
        path = self._path(key, _NOTHING)
        with self._storing(path, "The result that no vendor takes an op"):
            os.makedirs(self._folder, exist_ok=True)
            write_entry(path, _PURPOSE, nothing.why.encode())

    @contextmanager
    def _storing(self, path: str, what: str) -> Iterator[None]:
        """Removes old entries after the `with` block has stored an entry; errors of the removal are logged."""
        try:
            yield
        except (OSError, LiteRtError) as error:
            # The message names the directory in place of a file that the user has not named.
            if isinstance(error, LiteRtError):
                reason, hint = error.what, error.hint and f" {error.hint}"
            elif isinstance(error, FileExistsError):
                reason, hint = "the cache folder is a file", " Give a folder."
            else:
                reason, hint = f"cannot write: {error.strerror or error}".lower(), ""
            _LOG.warning(
                "%s is not stored in the cache: %s (%s).%s", what, reason, self._folder, hint
            )
        else:
            trim_folder(self._folder, _OURS, self._limit_bytes, path)

    @property
    def _is_shared(self) -> bool:
        """Returns whether other users can write to the directory.

        If so, only a seal with the user's key is trusted.
        """
        return not is_own(os.stat(self._folder))

    def _path(self, key: str, suffix: str) -> str:
        return os.path.join(self._folder, key + suffix)


def _problem(kept: Kept, options: Options) -> str:
    """Returns the reason why a compiled file is unusable; "" if it is usable."""
    file, model = kept
    parts = read_npu_parts(model, read_manifest(model), file.blob(), file.path, AT_LOAD_LIMIT)
    assets = parts.assets if parts else ()
    infos = [*options.custom_op_infos, *environment_infos(options.custom_op_infos)]
    files = layer_files(layer_paths(options))
    infos += list(_layer_infos(infos, assets, files))
    named = {info.op_name for info in infos}
    root = options.asset_root or environment_asset_root()
    for asset in assets:
        if asset.op_name not in named:
            if files:  # a file deeper in a directory, which the key does not cover
                return f"the cache does not watch the file of asset '{asset.name}', and the file may have changed"
            continue  # a file of a layer in a directory that the key covers
        if asset.companion_path and not _is_unchanged(asset, infos, root):
            return f"asset '{asset.name}' has changed"
    return ""


def _seal(key: str, root: bytes) -> bytes:
    """Returns a function that seals an entry for its key; None if the user cannot have a key."""
    try:
        return user_key.seal("compiled at load", key.encode(), root)
    except OSError:
        return NO_SEAL


def _is_as_stored(file: MappedFile, key: str, *, is_shared: bool) -> bool:
    """Returns whether a file is unchanged since it was stored under a key, or too large to compare.

    The errors are those of `check_digest`.

    In a shared directory, every file is compared and must have a seal.
    """
    found = find_digest(file.view)
    root = check_digest(file, None if is_shared else AT_LOAD_LIMIT, file.path)
    if found is None or (is_shared and not (root and found.is_sealed)):
        return False
    return not root or hmac.compare_digest(found.seal, _seal(key, root))


def _layer_infos(
    infos: Sequence[CustomOpInfo], assets: Sequence[Asset], files: Sequence[str]
) -> Iterator[CustomOpInfo]:
    """Maps each asset that the program does not name to its file: the file with the same bytes."""
    named = {info.op_name for info in infos}
    for asset in assets:
        if asset.companion_path or asset.op_name in named:
            continue
        for path in files:
            if _has_bytes(path, asset):
                yield CustomOpInfo(asset.op_name, path)


def _is_unchanged(asset: Asset, infos: Sequence[CustomOpInfo], asset_root: str) -> bool:
    """Returns whether one of the possible companion files has the companion file's bytes.

    Only the plugin knows the exact file.
    """
    there = [path for path in companion_paths(infos, [asset], asset_root) if os.path.isfile(path)]
    return bool(there) and all(_has_bytes(path, asset) for path in there)


def _has_bytes(path: str, asset: Asset) -> bool:
    try:
        with MappedFile(path) as file:
            return file.view == asset.blob.view
    except LiteRtError:
        return False
