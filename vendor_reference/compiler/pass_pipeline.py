"""Finds, orders and runs the passes of the compiler, and dumps the IR after each pass.

A pass is a module of `passes/` whose constant `PASS` is a frozen dataclass; to add a pass, add such a file.
`litert-npu opt --list_passes` prints the first line of the class's docstring.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.memref import AllocOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException

from litert.core.compiler_options import DumpOptions
from litert.core.errors import LiteRtError
from litert.core.progress import told
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from litert.core.tracing import SpanKind, span
from litert.host.extensions import load_package
from litert.model.atomic_file import make_folder, open_atomic
from litert.model.output import write_at
from vendor_reference.compiler.ir.attributes import AFTER, read_after, set_after
from vendor_reference.compiler.ir.names import bodies
from vendor_reference.compiler.ir.text import print_ir
from vendor_reference.compiler.ir.types import ShapeType, is_open, space_of
from vendor_reference.compiler.ir.verification import check_ir
from vendor_reference.compiler.levels.vpuip import DeclareBufferOp

ALL = "all"
IMPORT = "import"
"""Name of the IR before the first pass."""


class CompilerPass(ModulePass):
    """Base class of passes. The fields of a pass are its options."""

    AFTER: ClassVar[str | None] = None
    """Name of the pass after which this pass runs in a compilation; "" for no pass.

    None means that this pass runs only on request.
    """


AfterPass = Callable[[str, ModuleOp], None]
"""Function that is called after each pass, with the name of the pass and the module."""


def run_passes(
    context: Context,
    module: ModuleOp,
    passes: Sequence[ModulePass],
    after: AfterPass | None = None,
) -> None:
    """Runs passes in order; they modify the module. Does not verify the module: see `check_ir`.

    Raises:
      LiteRtError: A pass fails. The status is COMPILATION if the pass raises an error of xDSL.
    """
    for index, one in enumerate(told("lower", passes)):
        try:
            with span(SpanKind.PASS, one.name):
                one.apply(context, module)
        except DiagnosticException as error:
            before = ", ".join(p.name for p in passes[:index])
            where = f"pass '{one.name}'{f', which ran after {before}' if before else ''}"
            what = f"the compiler pass fails: {error}"
            raise LiteRtError(Status.COMPILATION, what, where) from error
        _come_further(module, one.name)
        if after is not None:
            after(one.name, module)


def find_stage(module: ModuleOp) -> str:
    """Returns the stage of a module.

    The stage is `import`, or the name of the last compilation pass that has run on the module. The stage is in the
    module's attribute `VPUIP.after`; without this attribute, the function derives the stage from the level of the
    ops.

    Raises:
      LiteRtError: INVALID_ARGUMENT or NOT_FOUND, if the attribute `VPUIP.after` is not a valid stage.
    """
    said = read_after(module)
    if said:
        check_stage(said)
        return said
    ops = [op for _, block in bodies(module) for op in block.ops]
    levels = {op.name.partition(".")[0] for op in ops}
    spaces = [space_of(op.memref.type) for op in ops if isinstance(op, AllocOp)]
    if any(isinstance(op, DeclareBufferOp) for op in ops):
        return "plan-memory"
    if "VPUIP" in levels:
        has_spaces = bool(spaces) and None not in spaces
        return "assign-memory-spaces" if has_spaces else "lower-iert-to-vpuip"
    if levels & {"IERT", "memref"}:
        return "lower-ie-to-iert"
    types = [ir_type for op in ops for ir_type in op.operand_types]
    if any(isinstance(ir_type, ShapeType) for ir_type in types):
        return "add-shape-values" if any(map(is_open, types)) else "bound-shapes"
    return IMPORT


def compile_passes(behind: str = IMPORT) -> list[ModulePass]:
    """Returns the passes of a compilation that run after a given pass; by default, returns all passes."""
    names, known = [IMPORT, *pipeline()], find_passes()
    return [known[name]() for name in names[names.index(behind) + 1 :]]


def check_stage(name: str) -> None:
    """Rejects a name that is neither `import` nor a pass of a compilation."""
    stages = [IMPORT, *pipeline()]
    if name not in stages:
        what = f"attribute {AFTER} is '{name}', but must be the name of a pass of a compilation"
        raise LiteRtError(Status.NOT_FOUND, what, hint=f"Use one of {', '.join(stages)}.")


def _come_further(module: ModuleOp, name: str) -> None:
    """Updates a module's `VPUIP.after` after a pass, unless the module is already at a later stage."""
    stages = [IMPORT, *pipeline()]
    if AFTER in module.attributes and name in stages:
        set_after(module, max(name, read_after(module), key=stages.index))


def parse_passes(text: str) -> list[ModulePass]:
    """Parses the list of passes in a command line, for example `adjust-layouts,bound-shapes{input=1x2}`.

    Raises:
      LiteRtError: NOT_FOUND, if a pass does not exist; INVALID_ARGUMENT, if the options of a pass are invalid.
    """
    passes = []
    try:
        specs = list(parse_pipeline(text)) if text.strip() else []
    except ArgSpecParseError as error:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"'{text}' is not a list of names of passes",
            hint="Separate the names by commas, for example convert-precisions,adjust-layouts.",
        ) from error
    for spec in specs:
        check_pass_name(spec.name)
        known = find_passes()[spec.name]
        try:
            passes.append(known.from_pass_spec(spec))
        except Exception as error:  # xDSL raises ValueErrors, and bare ones
            what = ": ".join(
                filter(None, ("the options of the pass are invalid", " ".join(str(error).split())))
            )
            raise LiteRtError(Status.INVALID_ARGUMENT, what, f"pass '{spec.name}'") from error
    return passes


def check_pass_name(name: str, also: Sequence[str] = ()) -> None:
    """Rejects a name that is neither a pass nor one of `also`."""
    names = [*also, *find_passes()]
    if name not in names:
        hint = did_you_mean(name, names, f"Use one of {', '.join(names)}.")
        raise LiteRtError(Status.NOT_FOUND, f"there is no compiler pass '{name}'", hint=hint)


@cache
def find_passes() -> Mapping[str, type[CompilerPass]]:
    """Returns all passes by name: first the passes of a compilation in order, then the other passes."""
    found: dict[str, type[CompilerPass]] = load_package(
        "vendor_reference.compiler.passes", "PASS", lambda one: str(one.name)
    )
    order = _in_order({name: one.AFTER for name, one in found.items() if one.AFTER is not None})
    return {name: found[name] for name in (*order, *sorted(found.keys() - set(order)))}


def pipeline() -> Sequence[str]:
    """Returns the names of a compilation's passes, in order."""
    return [name for name, one in find_passes().items() if one.AFTER is not None]


def _in_order(after: Mapping[str, str]) -> Sequence[str]:
    """Returns the passes in an order in which each follows the pass that it names.

    If several passes follow the same pass, the pass with the fewest followers comes first.
    """

    def chain(name: str) -> list[str]:
        followers = [chain(other) for other, before in after.items() if before == name]
        return [
            name,
            *(one for part in sorted(followers, key=lambda c: (len(c), c)) for one in part),
        ]

    _, *order = chain("")
    for name in sorted(after.keys() - set(order)):
        raise LiteRtError(
            Status.NOT_FOUND,
            f"AFTER of pass '{name}' is '{after[name]}', which is not the name of an earlier pass",
            hint=f"Set AFTER to one of {', '.join(order)}. To run before all other passes, set AFTER to an empty "
            "string.",
        )
    return order


def describe_pass(known: type[ModulePass]) -> str:
    """Returns the first line of a pass's docstring."""
    return (known.__doc__ or "").strip().partition("\n")[0]


def check_dump_options(options: DumpOptions) -> None:
    """Rejects dump options that contain a pass that does not exist."""
    if options.ir_after:
        check_pass_name(options.ir_after, (ALL, IMPORT))


def make_dump_files(options: DumpOptions) -> Mapping[str, str]:
    """Returns the path of each dump file of a compilation, by pass; also makes the dump folder.

    The file names are `00_import.mlir`, then `NN_<pass>.mlir`, where `NN` is the position of the pass in the
    compilation.

    Raises:
      LiteRtError: NOT_FOUND, if a pass or the parent of the dump folder does not exist; FILE_IO, if the dump
        folder cannot be made.
    """
    check_dump_options(options)
    if not options.ir_after:
        return {}
    make_folder(options.folder)
    return {
        name: os.path.join(options.folder, f"{number:02}_{name}.mlir")
        for number, name in enumerate((IMPORT, *pipeline()))
        if options.ir_after in (name, ALL)
    }


def write_dump(files: Mapping[str, str], name: str, module: ModuleOp) -> None:
    """Writes a file with the module after a pass, if this dump is requested; then verifies the module.

    Raises:
      LiteRtError: FILE_IO, if the file cannot be written; INVALID_IR_TYPE, if the module is invalid after the
        pass.
    """
    if name not in files:
        return
    with open_atomic(files[name]) as fd:
        write_at(fd, print_ir(module).encode(), 0)
    check_ir(module, after=name)
