"""`litert-npu compare`: finds the op with wrong results on an NPU, or after transformations."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from compiler_plugin.apply_options import ApplyOptions
from litert.analysis.comparison import ModelComparison, NotCompared
from litert.core.counts import count_text, list_text
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.status import Status

from .apply_flags import PLAN_FLAGS, read_apply_options, start_hosting
from .array_files import read_named_arrays
from .command import Command
from .command_line import PAGE, REPORT, FlagValues, given_arguments, split_arguments
from .compare_report import CompareReport
from .console import name_text, native_output_to_stderr, print_lines
from .load_flags import RUN_FLAGS, LoadChoice, read_run_options
from .made_with import add_made_with, is_compiled
from .page.writing import check_pages, write_pages
from .pictures import Array
from .process_start import ERROR
from .progress_bar import ProgressBar
from .reference_function import REFERENCE_FUNCTION, load_functions
from .sample_files import SAMPLE_FLAGS, SampleOptions, read_samples
from .strangers import guarded
from .wrong_part_files import PartFiles, check_folder, write_part_files

if TYPE_CHECKING:
    from litert.analysis.compare_options import CompareOptions, Sample
    from litert.analysis.source_graph import SourceGraph
    from litert.analysis.wrong_part import WrongPart

    from .page.page import Page

_MOST_NAMED = 5
_KERNELS = ("reference", "xnnpack")
_INSIDE = ("auto", "cuts", "taps")
_OF_THE_WHOLE = {
    "reference", "all", "bisect", "signature", "subgraphs", "report", *(f.name for f in (*SAMPLE_FLAGS, *PAGE))
}  # fmt: skip
"""Flags that choose what is compared or shown.

The command that reproduces an error has its own values for these flags.
"""


@dataclass(frozen=True, slots=True)
class CompareCommandOptions:
    """The model to compare, the input samples, and the reference.

    Attributes:
      apply: Options for compiling the model; None if the command line has no flags for compiling.
      apply_flags: The flags for compiling in the command line, for messages.
      reference: Path of the model that stock LiteRT runs as the reference, or of a file with golden arrays; "" for
        the compared model itself.
      kernels: Kernels of stock LiteRT that compute the reference.
      functions: Python functions that compute ops for the reference, as `op,file.py:function`.
      tolerance: Maximum error that one op may add to a float result, divided by the sum of the absolute values of
        the terms that the op adds up.
      num_runs: Number of runs with each sample.
      inside: The method of reading tensors inside NPU calls: `cuts`, `taps` or `auto`.
      samples: Sources of the input samples.
      load: Options for loading the compiled model, and the signature to run.
      part_folder: Folder for the smallest part of the model that gives wrong results; "" to write no part.
      part_flags: Flags for the command that reproduces the error.
    """

    apply: ApplyOptions | None = None
    apply_flags: Sequence[str] = ()
    reference: str = ""
    kernels: str = _KERNELS[0]
    functions: Sequence[str] = ()
    tolerance: float = 0.01
    num_runs: int = 2
    inside: str = _INSIDE[0]
    samples: SampleOptions = field(default_factory=SampleOptions)
    load: LoadChoice = field(default_factory=LoadChoice)
    part_folder: str = ""
    part_flags: Sequence[str] = ()


def compare(path: str, options: CompareCommandOptions) -> CompareReport:
    """Compares a model with its reference.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the file is not compiled and the command line has both a reference and
        flags for compiling; or an error of the comparison.
    """
    from litert.analysis.source_graph import SourceGraph  # here: --help must not wait for it

    golden = options.reference if _is_golden(options.reference) else ""
    other = "" if golden else options.reference
    compiled = path if is_compiled(path) else ""
    if other and not compiled and options.apply is not None and not os.path.samefile(path, other):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"flags for compiling ({' '.join(options.apply_flags)}) cannot be combined with --reference, because "
            "the file is not compiled",
            path,
            "To compare the file with the reference, leave out the flags for compiling. To compile the file "
            "and compare the compiled model with the file, leave out --reference.",
        )
    source = SourceGraph(other or path, options.load.signature)
    samples = read_samples(source, replace(options.samples, golden=golden))
    engine, left = _engine_options(options, source, golden)
    transformed = path if other and options.apply is None and not compiled else ""
    compared = _Compared(source, compiled, transformed, samples, engine)
    comparison = compared.compare(is_alone=bool(compiled and golden))
    missed = [NotCompared(name, reason) for name, reason in left.items()]
    comparison = replace(comparison, not_compared=[*comparison.not_compared, *missed])
    part = None
    if options.part_folder:
        comparison, part = _write_part(compared, comparison, options)
    return CompareReport.of(comparison, path, options.reference or path, part)


@dataclass(frozen=True, slots=True)
class _Compared:
    """The files of a comparison.

    Attributes:
      source: The model that computes the reference; the compiled file itself, if no other model is given.
      compiled: Path of the compiled file; "" to compile the source.
      transformed: Path of the model that transformations made from the source; "" if there is none.
      samples: Inputs of the runs.
      options: Options of the comparison.
    """

    source: SourceGraph
    compiled: str
    transformed: str
    samples: Sequence[Sample]
    options: CompareOptions

    def compare(self, *, is_alone: bool) -> ModelComparison:
        """Compares the files. A compiled file may be compared without the model from which it was made."""
        from litert.analysis.comparing import compare_as_it_is, compare_model, compare_transformed

        if is_alone:
            return compare_as_it_is(self.source, self.samples, self.options)
        if self.transformed:
            return compare_transformed(self.source, self.transformed, self.samples, self.options)
        return compare_model(self.source, self.compiled, self.samples, self.options)

    def find_wrong_part(self, comparison: ModelComparison, folder: str) -> WrongPart:
        """Finds the smallest part with wrong results, and writes its files to a folder."""
        from litert.analysis.wrong_part import find_wrong_part
        from litert.analysis.wrong_rewrite import find_wrong_rewrite

        found = self.source, comparison, self.samples, self.options, folder
        if self.transformed:
            return find_wrong_rewrite(self.transformed, *found)
        return find_wrong_part(*found, is_compiled=bool(self.compiled))


def _write_part(
    compared: _Compared, comparison: ModelComparison, options: CompareCommandOptions
) -> tuple[ModelComparison, PartFiles | None]:
    """Writes the smallest part with wrong results; if there is none, adds a note with the reason."""
    from litert.analysis.npu_files import working_folder
    from litert.analysis.wrong_part import NoPartError

    with working_folder(compared.source.path) as folder:
        try:
            part = compared.find_wrong_part(comparison, folder)
        except NoPartError as error:
            note = f"--bisect wrote no files: {error.what}"
            return replace(comparison, notes=[*comparison.notes, note]), None
        return comparison, write_part_files(part, options.part_folder, options.part_flags)


def _check_files(path: str, reference: str, part_folder: str) -> None:
    """Refuses files that cannot be compared, or for which no part can be written; "" stands for no file."""
    if reference and not _is_golden(reference) and is_compiled(reference):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            "the model of --reference must not be compiled, but this file is compiled for an NPU",
            reference,
            "With --reference, give the model from which this file was compiled, or a .npz file with golden "
            "tensors (expected values).",
        )
    if not reference and is_compiled(path):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            "the file is compiled, so the comparison also needs the model from which the file was compiled",
            path,
            "Give this model with --reference, or give a .npz file with golden tensors (expected values).",
        )
    if part_folder and _is_golden(reference) and is_compiled(path):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            "--bisect needs the model from which the file was compiled, but --reference gives only golden "
            "tensors",
            path,
            "With --reference, give this model instead of the golden tensors.",
        )
    if part_folder:
        check_folder(part_folder)


def _is_golden(path: str) -> bool:
    return path.endswith((".npz", ".npy"))


def _engine_options(
    options: CompareCommandOptions, source: SourceGraph, golden: str
) -> tuple[CompareOptions, Mapping[str, str]]:
    """Returns the options of the comparison; and reasons why golden arrays are not compared, by name."""
    from litert.analysis.compare_options import CompareOptions
    from litert.analysis.golden_arrays import match_golden
    from litert.analysis.reference_run import ReferenceOptions

    arrays: dict[int, Array] = {}
    left: dict[str, str] = {}
    if golden:
        arrays, left = match_golden(source, read_named_arrays(golden, "out0"))
        if not arrays:
            by_reason: dict[str, list[str]] = {}
            for name, reason in left.items():
                by_reason.setdefault(reason, []).append(f"'{name}'")
            reasons = "; ".join(
                f"for {list_text('array', names)}, {reason}" for reason, names in by_reason.items()
            )
            raise LiteRtError(
                Status.NOT_FOUND,
                "no array in the file can be compared with a tensor of the model"
                f"{': ' if left else ''}{reasons[:600]}",
                golden,
                "Name the arrays out0, out1, ..., or name them after tensors of the model: "
                f"{', '.join(repr(name) for name in list(source.outputs)[:5])}.",
            )
    load = options.load
    functions = load_functions(options.functions)
    threads = load.options.cpu_options.num_threads
    reference = ReferenceOptions(options.kernels, threads, functions)
    return CompareOptions(
        reference,
        arrays,
        options.tolerance,
        options.num_runs,
        options.inside,
        options.apply or ApplyOptions(),
        load.options,
        load.environment,
    ), left


_FLAGS = (
    Flag(
        "reference",
        "",
        "The model from which FILE was made; stock LiteRT runs this model for comparison. "
        "Instead, you can give a .npz file with golden tensors, which are the expected values of "
        "tensors. Each golden tensor has the name of a tensor of the model. Golden outputs may "
        "also have the names out0, out1, and so on. The .npz file may also contain inputs (in0, "
        "in1, ...). If FILE is compiled, this flag is required. If not, the default is FILE "
        "itself.",
    ),
    Flag(
        "kernels",
        _KERNELS[0],
        "Kernels of stock LiteRT that compute the reference results: reference (plain C++) or "
        "xnnpack.",
        choices=_KERNELS,
    ),
    REFERENCE_FUNCTION,
    Flag(
        "tolerance",
        0.01,
        "Maximum relative error that one op may add to a float result. The relative error is the "
        "error, divided by the sum of the absolute values of the terms that the op adds up, such "
        "as the products in a convolution.",
        least=0,
    ),
    *SAMPLE_FLAGS,
    Flag(
        "num_runs",
        2,
        "Number of runs with each sample. All runs must give the same results.",
        least=1,
    ),
    Flag(
        "inside",
        _INSIDE[0],
        "How the command reads tensors inside NPU calls. With 'cuts', the command compiles the "
        "model again, with these tensors as outputs. With 'taps', the vendor's driver returns "
        "the tensors while the byte code runs. With 'auto', the command uses taps if the byte "
        "code has taps, and otherwise cuts.",
        choices=_INSIDE,
    ),
    Flag("all", False, "Show all compared tensors, in execution order."),
    Flag(
        "bisect",
        "",
        "Folder to which the command writes the smallest part of the model that still gives wrong "
        "results, as a model with its inputs. The report shows the command that reproduces the "
        "error. The folder is created if it is missing.",
    ),
    *RUN_FLAGS,
    *PLAN_FLAGS,
    REPORT,
    *PAGE,
)

_PART_FLAGS = [flag for flag in _FLAGS if flag.name not in _OF_THE_WHOLE]


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    (path,), unknown = split_arguments(arguments)
    _check_files(path, flags.reference, flags.bisect)
    if is_compiled(path) and not _is_golden(flags.reference):
        given = {text.partition("=")[0] for text in unknown}
        unknown += [o for o in add_made_with(flags, path) if o.partition("=")[0] not in given]
    options = CompareCommandOptions(
        _read_compile_flags(flags, unknown),
        [*given_arguments(flags, PLAN_FLAGS), *unknown],
        flags.reference,
        flags.kernels,
        flags.reference_function,
        flags.tolerance,
        flags.num_runs,
        flags.inside,
        SampleOptions(
            flags.input, flags.inputs, "", flags.num_samples, flags.seed, flags.input_range
        ),
        _read_load_choice(flags, path),
        flags.bisect,
        [*_part_arguments(flags), *unknown],
    )
    check_pages(flags, [path, flags.reference, *flags.input, flags.inputs])
    with native_output_to_stderr(flags.report == "json"), ProgressBar():
        report = compare(path, options)
    write_pages(flags, lambda: _page(report))
    if flags.all and flags.report != "json":
        print_lines(report.lines_with(report.tensors), sys.stdout)
    else:
        report.show(flags.report)
    if report.unchecked and not report.first:
        print_lines([str(_unchecked_error(report))], sys.stderr)  # stdout has the report
        return ERROR
    return 0 if report.passed else 1


def _read_load_choice(flags: FlagValues, path: str) -> LoadChoice:
    """Returns the options for loading the compared file, and for compiling the model to compare it with."""
    environment = EnvironmentOptions(dispatch_library_path=flags.dispatch_library_path)
    return guarded(path, LoadChoice(flags.signature, read_run_options(flags), environment))


def _page(report: CompareReport) -> Page:
    from .compare_page import compare_page  # here: --help must not wait for it

    return compare_page(report, report.path if _is_golden(report.reference) else report.reference)


def _unchecked_error(report: CompareReport) -> LiteRtError:
    """Returns the error for NPU ops that were not compared."""
    from litert.analysis.comparing import reference_hint

    names = ", ".join(
        f"op {op.index} '{name_text(op.name)}'" for op in report.unchecked[:_MOST_NAMED]
    )
    more = len(report.unchecked) - _MOST_NAMED
    return LiteRtError(
        Status.UNSUPPORTED,
        f"{count_text(len(report.unchecked), 'op')} on the NPU cannot be compared, because no expected "
        f"outputs exist for {names}{f' and {more} more' if more > 0 else ''}",
        report.path,
        reference_hint(op.name for op in report.unchecked),
    )


def _part_arguments(flags: FlagValues) -> list[str]:
    """Returns the flags for comparing a part of the model, whose calls may have no tensors for taps."""
    gone = {"inside"} if flags.inside == "taps" else set()
    return given_arguments(flags, [flag for flag in _PART_FLAGS if flag.name not in gone])


def _read_compile_flags(flags: FlagValues, unknown: Sequence[str]) -> ApplyOptions | None:
    """Returns the options for compiling, if a flag asks for compiling; otherwise None."""
    if not unknown and not any(flags[flag.name].present for flag in PLAN_FLAGS):
        return None
    return read_apply_options(flags, unknown, start_hosting(flags))


COMMAND = Command(
    "FILE\nRuns a model on the NPU, runs each op of the model with stock LiteRT's CPU kernels "
    "too, and reports the ops with wrong results. If FILE is not compiled, the command compiles "
    "FILE like apply_plugin does, and accepts the flags of apply_plugin and of the vendor. If "
    "FILE is compiled, the command runs FILE as it is. The command also compiles the --reference "
    "model, with the flags that are stored in FILE. The command thus finds out whether FILE is "
    "out of date, for example because another version of the compiler made FILE. Without taps (see "
    "--inside), the command also needs this compilation to read tensors inside NPU calls. FILE may "
    "also be a model that transformations wrote. In this case, give no flags for compiling: the "
    "command then runs FILE on the CPU, and compares FILE with the --reference model. NPU calls of "
    "a file that you have not compiled on this machine run in a sandboxed process; --sandbox=off "
    "turns the sandbox off. The exit status is 0 if the errors of all tensors are within their "
    "limits, and 1 if an error is larger. The exit status is 2 if the result is unknown, for "
    "example because an op on the NPU could not be compared.",
    _FLAGS,
    _run,
    num_arguments=1,
    takes_vendor_options=True,
)
