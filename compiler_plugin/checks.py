"""Checks the paths and the model of a command, its output, and the ops that must run on the NPU."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack

from compiler_plugin.report import Report, not_runnable_text
from litert.core.compiler_options import CompilerOptions
from litert.core.counts import names_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import SpanKind, measured
from litert.model.atomic_file import check_place
from litert.model.dispatch_op import is_dispatch_op
from litert.model.file_digest import Seal
from litert.model.graph import Model, Tensor
from litert.model.reader import read_model
from litert.model.stamp import STAMP_KEY, read_stamp
from litert.model.stock_checks import check_subgraphs
from litert.model.stock_custom_ops import find_not_runnable
from litert.model.writer import write_model

ALL = "all"
_MOST_NAMED = 5


def check_output(target: str, sources: Iterable[str]) -> None:
    """Refuses an output path that leads to an input file, or whose folder does not exist; called at the start.

    Raises:
      LiteRtError: INVALID_ARGUMENT or NOT_FOUND, if no output file can be written at the path.
    """
    if not target:
        return
    for source in sources:
        if os.path.exists(source) and os.path.exists(target) and os.path.samefile(source, target):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                "the output file is also an input file"
                if source == target
                else f"the output file and the input file {source} are the same file",
                target,
                "Write to another file.",
            )
    check_place(target)
    if os.path.isdir(target):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            "the output path is a folder",
            target,
            "Give the path of a file.",
        )


@measured(SpanKind.STEP, "read")
def read_uncompiled(source: str | bytes) -> Model:
    """Reads a model from a file or from bytes; refuses compiled models and models without a subgraph.

    Raises:
      LiteRtError: ALREADY_EXISTS, if the model is compiled already; all errors that `check_subgraphs` and
        `read_model` raise.
    """
    where = source if isinstance(source, str) else "model from a buffer"
    with ExitStack() as stack:
        model = stack.enter_context(read_model(source))
        check_subgraphs(model, where)
        if model.find_metadata(STAMP_KEY) is not None or any(map(is_dispatch_op, model.ops())):
            raise LiteRtError(
                Status.ALREADY_EXISTS,
                f"the model is already compiled{_target(model)}",
                where,
                "Give the model that this file was compiled from.",
            )
        stack.pop_all()
        return model


@measured(SpanKind.STEP, "write")
def write_output(
    model: Model,
    target: str,
    report: Report,
    *,
    seal: Seal | None = None,
    digest_weights: bool = False,
) -> None:
    """Writes the model unless `target` is "", and adds the path and size of the output file to the report."""
    if target:
        written = write_model(model, target, seal=seal, digest_weights=digest_weights)
        report.output_path, report.output_size = written.path, written.size


def check_ir_flags(options: CompilerOptions, report: Report) -> None:
    """Handles the flags about the IR of partitions if a model has no partitions; a dump flag becomes a warning.

    Raises:
      LiteRtError: NOT_FOUND, if an edited IR text should replace a function.
    """
    why = "because no op went to the NPU"
    for name, path in options.replace_ir.items():
        hint = "Compile without --replace_ir: the report then says why each op stays on the CPU."
        what = f"--replace_ir cannot replace the IR of function '{name}', {why}"
        raise LiteRtError(Status.NOT_FOUND, what, path, hint)
    dumps = {"dump_ir_after": options.dump.ir_after, "dump_kernels": options.dump.kernels}
    report.warnings += [f"--{flag} wrote no files, {why}" for flag, given in dumps.items() if given]


def check_required(report: Report, required: Sequence[str]) -> None:
    """Checks that the ops named by `--require_npu` run on the NPU.

    Raises:
      LiteRtError: UNSUPPORTED, if one of the ops stays on the CPU; NOT_FOUND, if the model has no op with a
        required name.
    """
    known = {op.name for op in report.ops}
    composites = {composite.name for composite in report.composites}
    for name in required:
        if name != ALL and name not in known:
            is_composite = name in composites
            raise LiteRtError(
                Status.NOT_FOUND,
                f"--require_npu contains '{name}', which is the name of a composite, not of an op"
                if is_composite
                else f"--require_npu names op '{name}', but the model has no such op",
                report.model_path,
                f"{'Give the name of an op. ' if is_composite else ''}{names_text('op', sorted(known))}.",
            )
    left = [op for op in report.cpu_ops if ALL in required or op.name in required]
    if left:
        names = list(dict.fromkeys(op.name for op in left))
        kind, these, stay = ("ops", "these ops", "stay") if names[1:] else ("op", "the op", "stays")
        reasons = list(dict.fromkeys(f"{op.name}: {op.reason}" for op in left))
        why = f"Reasons: {'; '.join(reasons)}" if reasons[1:] else f"Reason: {left[0].reason}"
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"--require_npu requires the NPU for {kind} {', '.join(names)}, but {these} {stay} on the CPU",
            report.model_path,
            f"{' '.join(why.split()).removesuffix('.')}. "
            f"If {these} may run on the CPU, compile without --require_npu.",
        )


def check_runnable(report: Report, model: Model, *, is_required: bool) -> None:
    """Adds to the report the ops that neither the NPU nor stock LiteRT's CPU kernels can run.

    Raises:
      LiteRtError: UNSUPPORTED, if the model has an op that cannot run, and `is_required` is set.
    """
    report.not_runnable = list(dict.fromkeys(find_not_runnable(model)))
    if is_required and report.not_runnable:
        raise LiteRtError(
            Status.UNSUPPORTED,
            not_runnable_text(report.not_runnable),
            report.model_path,
            "Give each custom op an asset file for the NPU (--npu_custom_op_info). If your program "
            "registers CPU kernels for these ops, compile without --require_runnable.",
        )


def _target(model: Model) -> str:
    try:
        stamp = read_stamp(model)
    except LiteRtError:  # older files have stamps of other sizes
        return ""
    return f" for {stamp.soc_manufacturer}'s SoC {stamp.soc_model}" if stamp else ""


def check_shape_bounds(model: Model, bounds: Mapping[str, Sequence[int]]) -> None:
    """Raises an error for a shape bound whose tensor does not exist, or which contradicts the tensor's shape.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if a bound is wrong; the message lists the tensors that can have a bound.
    """
    for name, bound in bounds.items():
        tensors = [t for s in model.subgraphs for t in s.tensors if t.name == name]
        open_tensors = [t for t in tensors if not t.type.layout.is_static]
        if not open_tensors:
            named = dict.fromkeys(
                f"'{t.name}' ({t.type})"
                for s in model.subgraphs
                for t in (*s.inputs, *s.tensors)
                if not t.type.layout.is_static
            )
            more = f", and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"tensor '{name}' has a fixed shape, {tensors[0].type}"
                if tensors
                else f"the model has no tensor '{name}'",
                "--shape_bounds",
                "Give bounds only for tensors of dynamic shape: "
                f"{', '.join([*named][:_MOST_NAMED])}{more}."
                if named
                else "All tensors of the model have fixed shapes; remove the shape bounds.",
            )
        for tensor in open_tensors:
            _check_bound(tensor, bound)


def _check_bound(tensor: Tensor, bound: Sequence[int]) -> None:
    where = "--shape_bounds"
    shown = "x".join(map(str, bound))
    pattern = tensor.type.shape
    fits = len(pattern) == len(bound)
    if not fits or any(p not in (-1, b) for p, b in zip(pattern, bound, strict=True)):
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"the shape bound {shown} does not fit tensor '{tensor.name}' of type {tensor.type}",
            where,
            "Give a number for each unknown dimension (?), and repeat the known dimensions "
            "unchanged.",
        )
    if any(d > b for d, b in zip(tensor.shape, bound, strict=True)):
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"the shape bound {shown} of tensor '{tensor.name}' is smaller than the tensor's shape in the "
            f"model file, {'x'.join(map(str, tensor.shape))}",
            where,
            "Give a bound that is at least as large as the shape in the file.",
        )
