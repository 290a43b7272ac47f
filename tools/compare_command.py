"""`litert-npu compare`: which op of a model is wrong on the NPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from compiler_plugin.apply_options import ApplyOptions
from litert.analysis.comparison import ModelComparison, TensorErrors
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.option import Flag, Section
from litert.core.status import Status
from litert.options import CpuOptions, HardwareAccelerator, Options

from .apply_flags import DECLARED, read_apply_options, start_hosting
from .array_files import TensorSpec, complete_inputs, read_inputs
from .command import Command
from .command_line import REPORT, SEED, FlagValues, split_arguments
from .console import (
    PrintedReport,
    ProgressBar,
    count_text,
    name_text,
    native_output_to_stderr,
    print_text,
)
from .input_ranges import INPUT_RANGE, model_ranges
from .load_flags import RUN_FLAGS, read_dispatch_options
from .pictures import Array
from .reference_function import REFERENCE_FUNCTION, load_functions

if TYPE_CHECKING:
    from litert.analysis.source_graph import SourceGraph

_SHOWN = 10
_KERNELS = ("reference", "xnnpack")
_NOT_HERE = (Section.DUMPS, Section.DUMP_FOLDER)
_NOT_TAKEN = ("require_npu", "require_runnable", "dump_model_after")


@dataclass(frozen=True, slots=True)
class CompareCommandOptions:
    """What is compared, on what.

    Attributes:
      apply: how the model is compiled.
      signature: its key; "" for the first.
      threads: number of the CPU's threads.
      dispatch_library_path: a folder with dispatch tables.
      dispatch_options: for the vendor's driver.
      reference: the model that the reference runs; "" for the compared one.
      kernels: of stock LiteRT, that compute the reference.
      functions: `op,file.py:function`, for custom ops.
      tolerance: the greatest error of an op, as a part of what it accumulates.
      inputs: `[input=]file`, as `read_inputs` has it; others are random.
      ranges: `input:LOW:HIGH` of random inputs, as `read_ranges` has it.
      seed: of random inputs.
    """

    apply: ApplyOptions = field(default_factory=ApplyOptions)
    signature: str = ""
    threads: int = 1
    dispatch_library_path: str = ""
    dispatch_options: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    kernels: str = "reference"
    functions: Sequence[str] = ()
    tolerance: float = 0.01
    inputs: Sequence[str] = ()
    ranges: Sequence[str] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class CompareReport(ModelComparison, PrintedReport):
    """A model beside its reference.

    Attributes:
      path: of the model.
      reference: of the model that the reference ran.
    """

    path: str = ""
    reference: str = ""

    @classmethod
    def of(cls, comparison: ModelComparison, path: str, reference: str) -> CompareReport:
        """The report of a comparison."""
        values = {f.name: getattr(comparison, f.name) for f in fields(comparison)}
        return cls(**values, path=path, reference=reference)

    def lines(self) -> Iterator[str]:
        yield from self.lines_of(is_all=False)

    def lines_of(self, is_all: bool) -> Iterator[str]:
        """What people read, with all tensors or the worst ones."""
        compared = f"{count_text(len(self.tensors), 'tensor')} of {self.path}"
        samples = count_text(self.num_samples, "sample")
        yield f"Compared {compared} with stock's {self.kernels} kernels on {self.reference}, on {samples}"
        shown = (
            self.tensors if is_all else sorted(self.tensors, key=_badness, reverse=True)[:_SHOWN]
        )
        yield from _table(shown)
        yield from (f"Not compared: {name_text(n.name)}: {n.reason}" for n in self.not_compared)
        yield from (f"Note: {note}" for note in self.notes)
        if self.blamed is None:
            yield "No op is beyond its limit"
            return
        yield f"First beyond its limit: {name_text(self.first)}"
        op, call = self.blamed.op, self.blamed.call
        where = f"in NPU call {name_text(call)}" if call else "on the CPU"
        yield f"To blame: op {op.index} {name_text(op.name)} of subgraph {op.subgraph}, {where}"
        yield f"  {self.blamed.why}"


def _badness(tensor: TensorErrors) -> tuple[float, float]:
    if tensor.local_greatest is None or not tensor.limit:
        return (float(not tensor.is_within), -tensor.snr_db)
    return (tensor.local_greatest / tensor.limit, -tensor.snr_db)


def _table(tensors: Sequence[TensorErrors]) -> Iterator[str]:
    yield f"  {'op':>4}  {'':24}  {'where':5}  {'greatest':>9}  {'mean':>9}  {'cosine':>8}  {'dB':>6}  own error"
    for t in tensors:
        own = "" if t.local_greatest is None else f"{t.local_greatest:.3g} {t.unit}".rstrip()
        mark = "" if t.is_within else f"  beyond {t.limit:g}"
        yield (
            f"  {t.op:4}  {name_text(t.op_name)[:24]:24}  {t.where:5}  {t.greatest:9.3g}  {t.mean:9.3g}  "
            f"{t.cosine:8.6f}  {t.snr_db:6.1f}  {own}{mark}"
        )
        if t.problem:
            yield f"        {t.problem}"


def compare(path: str, options: CompareCommandOptions, progress: ProgressBar) -> CompareReport:
    """Compares a model with its reference."""
    # Here: --help must not wait for them.
    from litert.analysis.comparing import CompareOptions, compare_model
    from litert.analysis.reference_run import ReferenceOptions
    from litert.analysis.source_graph import SourceGraph
    from litert.model.reader import read_model
    from litert.model.stamp import read_stamp

    with read_model(path) as model:
        stamp = read_stamp(model, path)
    if stamp is not None and not options.reference:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            "the file is compiled, and the model that it was made from is not in it",
            path,
            "Name that model with --reference.",
        )
    source = SourceGraph(options.reference or path, options.signature)
    sample = _sample(source, options)
    functions = load_functions(options.functions)
    load = Options(
        HardwareAccelerator.NPU | HardwareAccelerator.CPU,
        CpuOptions(num_threads=options.threads),
        dispatch_options=options.dispatch_options,
        allow_native_assets=options.apply.compiler.allow_native_assets,
    )
    comparison = compare_model(
        source,
        path if stamp is not None else "",
        [sample],
        CompareOptions(
            ReferenceOptions(options.kernels, options.threads, functions),
            options.tolerance,
            options.apply,
            load,
            EnvironmentOptions(dispatch_library_path=options.dispatch_library_path),
        ),
        progress,
    )
    return CompareReport.of(comparison, path, source.path)


def _sample(source: SourceGraph, options: CompareCommandOptions) -> dict[str, Array]:
    specs = [
        TensorSpec(name, tensor.element_type.numpy_dtype.name, tensor.shape, index)
        for index, (name, tensor) in enumerate(
            (name, source.tensor(place)) for name, place in source.inputs.items()
        )
    ]
    given = read_inputs(options.inputs, specs, (0.0, 1.0))
    ranges = model_ranges(options.ranges, specs, given, [source.path], source.key)
    completed = complete_inputs(given, specs, options.seed, ranges)
    return {name: array.value for name, array in completed.items()}


_FLAGS = (
    Flag("reference", "", "The model that the file was made from; by default the file itself."),
    Flag(
        "kernels",
        _KERNELS[0],
        "The kernels of stock LiteRT that compute the reference: reference (plain C++), or xnnpack.",
        choices=_KERNELS,
    ),
    REFERENCE_FUNCTION,
    Flag(
        "tolerance",
        0.01,
        "The greatest error of an op's own in floats, as a part of what the op accumulates.",
        least=0,
    ),
    Flag(
        "input",
        (),
        "[input=]file: a .npy, .npz or picture for an input, by name or index; without one, for the next. "
        "Inputs that have none are random. May be repeated.",
        is_repeated=True,
    ),
    INPUT_RANGE,
    SEED,
    Flag("all", False, "Shows all tensors, in execution order."),
    *RUN_FLAGS,
    *(o.flag for o in DECLARED if o.section not in _NOT_HERE and o.flag.name not in _NOT_TAKEN),
    REPORT,
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    (path,), unknown = split_arguments(arguments)
    options = CompareCommandOptions(
        read_apply_options(flags, unknown, start_hosting(flags)),
        flags.signature,
        flags.threads,
        flags.dispatch_library_path,
        read_dispatch_options(flags.dispatch_option),
        flags.reference,
        flags.kernels,
        flags.reference_function,
        flags.tolerance,
        flags.input,
        flags.input_range,
        flags.seed,
    )
    with native_output_to_stderr(flags.report == "json"), ProgressBar() as progress:
        report = compare(path, options, progress)
    if flags.report == "json":
        report.show("json")
    else:
        print_text("\n".join(report.lines_of(flags.all)), sys.stdout)
    return 0 if report.blamed is None else 1


COMMAND = Command(
    "FILE\nRuns a model on the NPU, and each of its ops by stock LiteRT's kernels on the CPU, and says which op\n"
    "is wrong. The model is compiled as by apply_plugin, with its flags and a vendor's own.\n"
    "The exit status is 0 if no op is beyond its limit, 1 if one is, and 2 if that cannot be said.",
    _FLAGS,
    _run,
    num_arguments=1,
    takes_vendor_options=True,
)
