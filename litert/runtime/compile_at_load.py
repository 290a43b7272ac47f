"""Compiles a model when it is loaded, as stock LiteRT does; the first vendor that takes an op is used.

Stock LiteRT passes the model to all plugins in turn. In this project, a compiled file is for one vendor, which is
named in the file's stamp; therefore the first vendor that takes an op is offered all ops. The compiled model is
cached in the cache directory of the `Environment`, so that later loads import no compiler.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import MappedFile
from litert.model.graph import Model
from litert.options import Options
from litert.runtime.compile_cache import CompileCache, Kept, Nothing
from litert.runtime.compile_key import make_key
from litert.runtime.load_candidates import Candidates, find_candidates, name_manufacturers

if TYPE_CHECKING:
    from compiler_plugin.apply_options import ApplyOptions
    from compiler_plugin.report import Report

_SHOWN = 3  # maximum number of ops and of reasons in messages
_LOG = logging.getLogger(__name__)


@contextmanager
def compiled_at_load(
    source: MappedFile | bytes,
    where: str,
    options: Options,
    environment: EnvironmentOptions,
) -> Iterator[Kept | MappedFile | bytes | Nothing]:
    """Compiles a model, or finds the compiled model in the cache.

    Args:
      source: The model, which is not compiled yet.
      where: Name of the model, for log messages.
      options: Options of the program.
      environment: Options that name the folders of plugins, of dispatch tables and of the cache.

    Yields:
      The compiled model: an entry of the cache with its graph, or the new file. The caller closes the file, whose
      path may no longer exist after the block. If no vendor takes any op, the result is a `Nothing`.

    Raises:
      LiteRtError: An error of the compilation, if the program has set a vendor, assets or compiler options;
        otherwise the next vendor is tried.
    """
    candidates = find_candidates(options, environment)
    if not candidates:
        none = (
            "No compiler plugin is installed, and the environment has no folder of compiler "
            "plugins."
        )
        yield Nothing(candidates.left_out or none)
        return
    cache, key = None, ""
    if environment.compiler_cache_dir:
        cache = CompileCache(
            environment.compiler_cache_dir, environment.compiler_cache_max_total_size
        )
        key = make_key(source, options, candidates, environment)
        found = cache.find(key, options)
        if isinstance(found, Kept):
            _LOG.info("%s was compiled before: the kept file %s is used", where, found.file.path)
        if found is not None:
            yield found
            return
    with ExitStack() as stack:
        yield _LoadCompiler(
            source, where, options, environment, candidates, cache, key, stack
        ).compile()


@dataclass(eq=False, repr=False)
class _LoadCompiler:
    """Compiles one model, for the first vendor that takes one of its ops.

    Attributes:
      candidates: Places of vendors' plugins.
      cache: Cache for the result, under the key; None for no cache.
      stack: Stack that removes temporary files.
    """

    source: MappedFile | bytes
    where: str
    options: Options
    environment: EnvironmentOptions
    candidates: Candidates
    cache: CompileCache | None
    key: str
    stack: ExitStack

    def compile(self) -> MappedFile | bytes | Nothing:
        """Tries one vendor after the other; returns the compiled model, or the reason why there is none."""
        reasons: list[str] = []
        warnings: dict[str, None] = {}
        errors: list[LiteRtError] = []
        try:
            names = name_manufacturers(self.candidates, self.options)
        except LiteRtError as problem:
            self._raise_if_asked(problem)
            return Nothing(str(problem))
        for name in names:
            try:
                found = self._try(name, warnings)
            except LiteRtError as problem:
                errors.append(problem)
                end = "" if str(problem).endswith((".", "?")) else "."
                reasons.append(f"Vendor '{name}' failed: {problem}{end}")
                continue
            if not isinstance(found, Nothing):
                return found
            reasons.append(f"Vendor '{name}' compiled no op: {found.why}.")
        for warning in warnings:
            _LOG.warning("%s: %s", self.where, warning)
        told = " ".join(filter(None, [self.candidates.left_out, *reasons]))
        nothing = Nothing(told or "No compiler plugin can be used.")
        if errors:
            is_same = len(errors) == len(reasons) and len(set(map(str, errors))) == 1
            what = f"no vendor compiled the model. {nothing.why}".removesuffix(".")
            self._raise_if_asked(errors[0] if is_same else LiteRtError(errors[0].status, what))
        elif self.cache is not None and names:
            self.cache.store_nothing(self.key, nothing)
        return nothing

    def _raise_if_asked(self, error: LiteRtError) -> None:
        """Raises an error if the program has asked for this compilation."""
        if self.options.asks_to_compile:
            raise error

    def _try(self, name: str, warnings: dict[str, None]) -> MappedFile | bytes | Nothing:
        """Compiles for one vendor.

        If the vendor takes no op, its warnings are logged only after all other vendors were tried.
        """
        # imported here, and in the next functions, because a cached model needs no compiler
        from compiler_plugin import pipeline
        from compiler_plugin.report import NO_CALLS
        from dispatch.loader import find_dispatch, find_origin

        start = time.perf_counter()
        find = (
            find_origin if self.options.isolated else find_dispatch
        )  # this loads the plugin in this process
        find(name, self.environment.dispatch_library_path)  # otherwise, compiling is unnecessary
        source = self.source if isinstance(self.source, bytes) else self.source.path
        with pipeline.apply_in_memory(source, self._apply_options(name)) as (model, report):
            self._check_unchanged(model)
            if not report.calls:
                warnings.update(dict.fromkeys(w for w in report.warnings if w != NO_CALLS))
                return Nothing(_why(report, {op.name for op in model.ops() if op.is_custom}))
            for warning in report.warnings:
                _LOG.warning("%s: %s", self.where, warning)
            kept = self.cache.store(self.key, model) if self.cache is not None else None
            found = kept or self._keep_for_now(model)
        _LOG.info(
            "%s was compiled for %s in %.2f s: %d of %d ops",
            self.where,
            name,
            time.perf_counter() - start,
            len(report.npu_ops),
            len(report.ops),
        )
        return found

    def _check_unchanged(self, model: Model) -> None:
        if isinstance(self.source, MappedFile) and model.source is not None:
            opened, compiled = os.fstat(self.source.fd), os.fstat(model.source.fd)
            if not os.path.samestat(opened, compiled):
                raise LiteRtError(
                    Status.FILE_IO,
                    "another file replaced the file while it was loaded",
                    self.where,
                    "Load it again.",
                )

    def _apply_options(self, name: str) -> ApplyOptions:
        from compiler_plugin.apply_options import ApplyOptions
        from litert.core.compiler_options import DumpOptions
        from litert.core.vendor_names import options_of

        options = self.options
        given = {
            n: v for group in options.stock_compiler_flags().values() for n, v in group.items()
        }
        own = options_of(name, {**given, **options.compiler_options})
        dump = DumpOptions(options.dump_kernels, kernels=bool(options.dump_kernels))
        compiler = replace(options.for_compiler(), vendor_options=own, dump=dump)
        return ApplyOptions(name, options.soc_model, self.candidates.libs, compiler=compiler)

    def _keep_for_now(self, model: Model) -> MappedFile | bytes:
        """Returns the compiled model in memory, or in a file that is removed once the model is loaded."""
        from litert.model.atomic_file import temporary_folder
        from litert.model.writer import to_bytes, write_model

        if isinstance(self.source, bytes):
            return to_bytes(model)
        folder = self.stack.enter_context(temporary_folder())
        path = os.path.join(folder, "compiled.tflite")
        write_model(model, path)
        return MappedFile(path)


def _why(report: Report, custom: Collection[str]) -> str:
    """Returns reasons why a vendor took no op; custom ops come first, because few hosts implement them."""
    by_reason: dict[str, list[str]] = {}
    for op in sorted(report.cpu_ops, key=lambda op: op.name not in custom):
        names = by_reason.setdefault(op.reason, [])
        if op.name not in names:
            names.append(op.name)
    shown = [
        f"{_first(names, ', ')} ({reason.removesuffix('.')})" for reason, names in by_reason.items()
    ]
    return _first(shown, "; ") or "the model has no ops"


def _first(texts: Sequence[str], separator: str) -> str:
    more = [f"{len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return separator.join([*texts[:_SHOWN], *more])
