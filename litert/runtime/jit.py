"""Compiles a model when it is loaded, as stock LiteRT does: for the first vendor that takes an op of it.

Stock hands the model to one plugin after the other; here a file is for one vendor, whose stamp it has, so the
first that takes an op has all of it. The result is kept where the environment names a folder for it.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from compiler_plugin.pipeline import NO_CALLS, ApplyOptions, apply_in_memory
from compiler_plugin.report import Report
from compiler_plugin.vendor_options import options_of
from dispatch.loader import find_dispatch
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import MappedFile
from litert.model.graph import Model
from litert.model.writer import to_bytes, write_model
from litert.runtime.jit_cache import JitCache, Nothing
from litert.runtime.jit_candidates import Candidates, find_candidates, name_manufacturers
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
    with ExitStack() as stack:
        candidates = find_candidates(settings, environment)
        if not candidates:
            yield Nothing(
                "no vendor's compiler plugin is installed, and the environment names none"
            )
            return
        jit = _Jit(source, where, settings, environment, stack)
        if not environment.compiler_cache_dir:
            yield jit.compile(candidates, None, "")
            return
        cache = JitCache(environment.compiler_cache_dir, environment.compiler_cache_max_total_size)
        key = make_key(source, settings, candidates, environment)
        found = cache.find(key, settings.compiler.custom_op_infos)
        if isinstance(found, MappedFile):
            _LOG.info("%s was compiled before: %s", where, found.path)
        yield jit.compile(candidates, cache, key) if found is None else found


class _Jit:
    """One model, with all that is to be known for compiling it."""

    def __init__(
        self,
        source: MappedFile | bytes,
        where: str,
        settings: JitSettings,
        environment: EnvironmentOptions,
        stack: ExitStack,
    ) -> None:
        self._source = source
        self._where = where
        self._settings = settings
        self._environment = environment
        self._stack = stack

    def compile(
        self, candidates: Candidates, cache: JitCache | None, key: str
    ) -> MappedFile | bytes | Nothing:
        """Asks vendor after vendor; keeps what comes of it, if there is a cache."""
        reasons: list[str] = []
        error: LiteRtError | None = None
        try:
            names = name_manufacturers(candidates, self._settings)
        except LiteRtError as problem:
            self._fail(problem)
            return Nothing(str(problem))
        for name in names:
            try:
                found = self._try(name, candidates, cache, key)
            except LiteRtError as problem:
                error = error or problem
                reasons.append(f"{name}: {problem}")
                continue
            if not isinstance(found, Nothing):
                return found
            reasons.append(f"{name}: {found.why}")
        nothing = Nothing("; ".join(reasons) or "no compiler plugin can be used")
        if error is not None:
            self._fail(error if len(reasons) == 1 else LiteRtError(error.status, nothing.why))
        elif cache is not None and names:
            cache.store_nothing(key, nothing)
        return nothing

    def _fail(self, error: LiteRtError) -> None:
        """Raises what a program that has asked for it must know; else it is for the log."""
        if self._settings.is_asked:
            raise error
        _LOG.warning("%s was not compiled when it was loaded: %s", self._where, error)

    def _try(
        self, name: str, candidates: Candidates, cache: JitCache | None, key: str
    ) -> MappedFile | bytes | Nothing:
        """Compiles for one vendor."""
        start = time.perf_counter()
        find_dispatch(
            name, self._environment.dispatch_library_path
        )  # without it no need to compile
        source = self._source if isinstance(self._source, bytes) else self._source.path
        with apply_in_memory(source, self._options(name, candidates)) as (model, report):
            self._check_unchanged(model)
            for warning in report.warnings:
                if warning != NO_CALLS:  # that is said once all vendors have been asked
                    _LOG.warning("%s: %s", self._where, warning)
            if not report.calls:
                return Nothing(_why(report))
            kept = cache.store(key, model) if cache is not None else None
            found = kept or self._keep_for_now(model)
        _LOG.info(
            "%s was compiled for %s in %.2f s: %d of %d ops",
            self._where,
            name,
            time.perf_counter() - start,
            len(report.npu_ops),
            len(report.ops),
        )
        return found

    def _check_unchanged(self, model: Model) -> None:
        if isinstance(self._source, MappedFile) and model.source is not None:
            opened, compiled = os.fstat(self._source.fd), os.fstat(model.source.fd)
            if not os.path.samestat(opened, compiled):
                raise LiteRtError(
                    Status.FILE_IO,
                    "the file was replaced by another while it was loaded",
                    self._where,
                    "Load it again.",
                )

    def _options(self, name: str, candidates: Candidates) -> ApplyOptions:
        compiler, flags = self._settings.compiler, self._settings.stock_flags
        given = {n: v for group in flags.values() for n, v in group.items()} | dict(
            compiler.vendor_options
        )
        return ApplyOptions(
            name,
            self._settings.soc_model,
            candidates.libs,
            compiler=replace(compiler, vendor_options=options_of(name, given)),
        )

    def _keep_for_now(self, model: Model) -> MappedFile | bytes:
        """The compiled model in memory, as it came; or in a file that is gone once the model is loaded."""
        if isinstance(self._source, bytes):
            return to_bytes(model)
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="litert-npu-"))
        path = os.path.join(folder, "compiled.tflite")
        write_model(model, path)
        return MappedFile(path)


def _why(report: Report) -> str:
    """Why a vendor has taken no op."""
    reasons = dict.fromkeys(f"{op.name}: {op.reason}" for op in report.cpu_ops)
    shown = list(reasons)[:3]
    return "; ".join([*shown, *(["..."] if len(reasons) > len(shown) else [])]) or "no ops"
