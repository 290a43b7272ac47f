"""Compiles a model for the first vendor that takes an op of it, of those that may be asked."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace

from compiler_plugin.pipeline import ApplyOptions, apply_in_memory
from compiler_plugin.report import Report
from compiler_plugin.reporting import NO_CALLS
from compiler_plugin.vendor_options import options_of
from dispatch.loader import find_dispatch
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import MappedFile
from litert.model.graph import Model
from litert.model.writer import to_bytes, write_model
from litert.runtime.jit_cache import JitCache, Nothing
from litert.runtime.jit_candidates import Candidates, name_manufacturers
from litert.runtime.jit_settings import JitSettings

_SHOWN = 3  # of ops, and of reasons
_LOG = logging.getLogger(__name__)


class JitCompiler:
    """Compiles one model."""

    def __init__(
        self,
        source: MappedFile | bytes,
        where: str,
        settings: JitSettings,
        environment: EnvironmentOptions,
        stack: ExitStack,
    ) -> None:
        """For one model.

        Args:
          source: the model.
          where: its name, for the log.
          settings: what the program has asked for.
          environment: where dispatch tables are.
          stack: removes files that are not kept.
        """
        self._source = source
        self._where = where
        self._settings = settings
        self._environment = environment
        self._stack = stack

    def compile(
        self, candidates: Candidates, cache: JitCache | None, key: str
    ) -> MappedFile | bytes | Nothing:
        """Asks vendor after vendor.

        Args:
          candidates: where their plugins are.
          cache: keeps what comes of it, under the key; None keeps nothing.
          key: of the model with all that shapes it.

        Returns:
          The compiled model, whose file is open; or why there is none.

        Raises:
          LiteRtError: what went wrong, where the program must know it.
        """
        reasons: list[str] = []
        warnings: dict[str, None] = {}
        error: LiteRtError | None = None
        try:
            names = name_manufacturers(candidates, self._settings)
        except LiteRtError as problem:
            self._fail(problem)
            return Nothing(str(problem))
        for name in names:
            try:
                found = self._try(name, candidates, cache, key, warnings)
            except LiteRtError as problem:
                error = error or problem
                reasons.append(f"{name}: {problem}".removesuffix("."))
                continue
            if not isinstance(found, Nothing):
                return found
            reasons.append(f"{name}: {found.why}")
        for warning in warnings:
            _LOG.warning("%s: %s", self._where, warning)
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
        self,
        name: str,
        candidates: Candidates,
        cache: JitCache | None,
        key: str,
        warnings: dict[str, None],
    ) -> MappedFile | bytes | Nothing:
        """Compiles for one vendor; where it takes nothing, its warnings wait for what the others say."""
        start = time.perf_counter()
        find_dispatch(
            name, self._environment.dispatch_library_path
        )  # without it no need to compile
        source = self._source if isinstance(self._source, bytes) else self._source.path
        with apply_in_memory(source, self._options(name, candidates)) as (model, report):
            self._check_unchanged(model)
            if not report.calls:
                warnings.update(dict.fromkeys(w for w in report.warnings if w != NO_CALLS))
                return Nothing(_why(report, {op.name for op in model.ops() if op.is_custom}))
            for warning in report.warnings:
                _LOG.warning("%s: %s", self._where, warning)
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


def _why(report: Report, custom: Collection[str]) -> str:
    """Why a vendor has taken no op: custom ops, which few hosts have, before others."""
    by_reason: dict[str, list[str]] = {}
    for op in sorted(report.cpu_ops, key=lambda op: op.name not in custom):
        names = by_reason.setdefault(op.reason, [])
        if op.name not in names:
            names.append(op.name)
    shown = [f"{_first(names, ', ')}: {reason}" for reason, names in by_reason.items()]
    return _first(shown, "; ") or "no ops"


def _first(texts: Sequence[str], separator: str) -> str:
    more = [f"{len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return separator.join([*texts[:_SHOWN], *more])
