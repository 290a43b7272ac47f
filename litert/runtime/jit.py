"""Compiles a model when it is loaded, as stock LiteRT does: for the first vendor that takes an op of it.

Stock hands the model to one plugin after the other; here a file is for one vendor, whose stamp it has, so the
first that takes an op has all of it. The result is kept where the environment names a folder for it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from litert.core.environment_options import EnvironmentOptions
from litert.model.blob import MappedFile
from litert.runtime.jit_cache import JitCache, Nothing
from litert.runtime.jit_candidates import find_candidates
from litert.runtime.jit_files import environment_asset_root, environment_infos, layer_files
from litert.runtime.jit_key import make_key
from litert.runtime.jit_settings import JitSettings

_LOG = logging.getLogger(__name__)


@contextmanager
def compiled_at_load(
    source: MappedFile | bytes,
    where: str,
    settings: JitSettings,
    environment: EnvironmentOptions,
) -> Iterator[MappedFile | bytes | Nothing]:
    """Compiles a model, or finds it compiled.

    Args:
      source: the model, which is not compiled.
      where: its name, for the log.
      settings: what the program has asked for.
      environment: where plugins and dispatch tables are, and where results are kept.

    Yields:
      The compiled model, whose file is the caller's to close, and may have lost its name at the end of the block;
      `Nothing`, where no vendor takes an op of it.

    Raises:
      LiteRtError: what went wrong, if the program has named a vendor, assets or options; else that is logged, and
        the next vendor is asked.
    """
    candidates = find_candidates(settings, environment)
    if not candidates:
        yield Nothing("no vendor's compiler plugin is installed, and the environment names none")
        return
    cache, key = None, ""
    if environment.compiler_cache_dir:
        cache = JitCache(environment.compiler_cache_dir, environment.compiler_cache_max_total_size)
        key = make_key(source, settings, candidates, environment)
        infos = settings.compiler.custom_op_infos
        infos = [*infos, *environment_infos(infos)]
        root = settings.compiler.asset_root or environment_asset_root()
        found = cache.find(key, infos, root, layer_files(settings.compiler.custom_layers))
        if isinstance(found, MappedFile):
            _LOG.info("%s was compiled before: %s", where, found.path)
        if found is not None:
            yield found
            return
    from litert.runtime.jit_compiler import JitCompiler  # here: what is kept needs no compiler

    with ExitStack() as stack:
        compiler = JitCompiler(source, where, settings, environment, stack)
        yield compiler.compile(candidates, cache, key)
