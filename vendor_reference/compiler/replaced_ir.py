"""`--replace_ir`: during a compilation, replaces functions by functions of edited IR text.

The original function is compiled up to the stage of the IR text, and its types are compared with the types of the
edited function; from this stage on, the edited function is compiled instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from litert.core.counts import count_text, names_text
from litert.core.errors import LiteRtError
from litert.core.input_file import read_input
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from vendor_reference.compiler.edited_ir import (
    EditedIr,
    check_constants,
    drop_unused,
    foreign_text,
    read_edited,
    settle_kernels,
)
from vendor_reference.compiler.emission.module_emission import written_arguments
from vendor_reference.compiler.frontend.importer import Imported
from vendor_reference.compiler.ir.attributes import read_fp16_of
from vendor_reference.compiler.ir.edits import remove_op
from vendor_reference.compiler.ir.names import SymbolNames, bodies, functions_of
from vendor_reference.compiler.ir.text_bounds import MAX_TEXT_BYTES
from vendor_reference.compiler.job import Job
from vendor_reference.compiler.passes.plan_memory import tell_sizes


class Replacements:
    """The functions of a compilation that are replaced by edited IR text."""

    def __init__(self, job: Job, imported: Imported) -> None:
        """Reads and checks the edited IR texts.

        Raises:
          LiteRtError: NOT_FOUND, if a file is missing, or if the compilation does not have the function to
            replace; other statuses, if an IR text has an error, whose line is in the message.
        """
        own = {f.sym_name.data for f, _ in bodies(imported.module) if read_fp16_of(f) is None}
        self._edited: dict[str, EditedIr] = {}
        for name, path in job.edits.items():
            if name not in own:
                what = f"--replace_ir names function '{name}', but this compilation has no such function"
                hint = did_you_mean(name, own, f"{names_text('function', sorted(own))}.")
                raise LiteRtError(Status.NOT_FOUND, what, path, hint)
            with foreign_text(path):
                text = read_input(path, MAX_TEXT_BYTES + 1)
                edited = read_edited(text, path, name, job.soc, or_only=True)
                check_constants(edited, imported.constants, _CONSTANTS)
                settle_kernels(edited, job.layers)
            self._edited[name] = edited

    def put_in(self, stage: str, module: ModuleOp) -> list[str]:
        """Replaces functions after a pass by the edited functions that belong to this stage.

        Returns sentences for the report.

        Raises:
          LiteRtError: INVALID_IR_TYPE, if the arguments or results of the edited function differ from those of the
            original function; the message contains the line.
        """
        notes: list[str] = []
        for name, edited in self._edited.items():
            if edited.stage == stage:
                notes += _put_in(module, edited, name)
        return notes

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Makes a `with` block for the rest of the compilation.

        If the compilation fails in this block, the host does not retry with fewer ops.
        """
        with ExitStack() as stack:
            for edited in self._edited.values():
                stack.enter_context(foreign_text(edited.name))
            try:
                yield
            except LiteRtError as error:
                if error.status is not Status.UNSUPPORTED:
                    raise
                raise LiteRtError(
                    Status.COMPILATION, error.what, error.where, error.hint or _TOGETHER
                ) from error


_CONSTANTS = "The IR text can use only constants of this compilation: dump the model again with the same flags."
_TOGETHER = (
    "Because of --replace_ir, the compiler does not split the function into smaller functions. Edit the IR text, "
    "or compile without --replace_ir."
)


def _put_in(module: ModuleOp, edited: EditedIr, name: str) -> list[str]:
    """Replaces a module's function, and its version for fp16 arithmetic, by edited functions.

    Returns sentences for the report.

    Raises:
      LiteRtError: INVALID_IR_TYPE, if the arguments or results of the edited function differ from those of the
        original function; the message contains the line.
    """
    own = functions_of(module)[name]
    twins = [f for f, _ in bodies(module) if read_fp16_of(f) == name]
    notes = [f"{name} is compiled from {edited.name}, after '{edited.stage}'."]
    pairs = [(own, edited.entry)]
    if twins and edited.twin is not None:
        pairs.append((twins[0], edited.twin))
    elif twins:
        notes.append(
            f"{edited.name} has no {twins[0].sym_name.data}: that function is not replaced."
        )
    for old, new in pairs:
        _check_fit(edited, old, new)
        new.attributes.update({n: a for n, a in old.attributes.items() if n not in new.attributes})
        tell_sizes(new)
    kept = {new.sym_name.data: old.sym_name.data for old, new in pairs}
    replaced = [old for old, _ in pairs]
    others = [f for f, _ in bodies(module) if f not in replaced]
    block = module.body.block
    anchor = replaced[-1].next_op
    for old in replaced:
        remove_op(old)
    drop_unused(module, others)
    taken = SymbolNames([*functions_of(module), *kept.values()])
    renamed = {
        f.sym_name.data: kept.get(f.sym_name.data) or taken.new(f.sym_name.data)
        for f in edited.functions
        if f.is_declaration or f.sym_name.data in kept
    }
    for function in edited.functions:
        if function.sym_name.data not in renamed:
            continue
        function.detach()  # type: ignore[no-untyped-call]
        _rename(function, renamed)
        if anchor is None:
            block.add_op(function)
        else:
            block.insert_op_before(function, anchor)
    return notes


def _check_fit(edited: EditedIr, old: FuncOp, new: FuncOp) -> None:
    name = old.sym_name.data
    for kind, had, has in (
        ("argument", old.function_type.inputs.data, new.function_type.inputs.data),
        ("result", old.function_type.outputs.data, new.function_type.outputs.data),
    ):
        if len(had) != len(has):
            what = (
                f"the function has {count_text(len(has), kind)}, but function '{name}', which it replaces after "
                f"'{edited.stage}', has {count_text(len(had), kind)}"
            )
            raise edited.error(new, what)
        for index, (one, other) in enumerate(zip(had, has, strict=True)):
            if one != other:
                what = (
                    f"{kind} {index} has type {other}, but in function '{name}', which the IR text replaces after "
                    f"'{edited.stage}', {kind} {index} has type {one}"
                )
                raise edited.error(new, what)
    _check_written(edited, old, new)


def _check_written(edited: EditedIr, old: FuncOp, new: FuncOp) -> None:
    """Rejects tasks that write other arguments than the tasks of `old`, if `old` has tasks."""
    written = written_arguments(old) | written_arguments(new)
    if not written_arguments(old):
        return
    for index, (one, other) in enumerate(zip(old.args, new.args, strict=True)):
        is_result = one in written
        if is_result != (other in written):
            kind, does = ("a result", "no task") if is_result else ("an input", "a task")
            what = (
                f"argument {index} is {kind} of function '{old.sym_name.data}', but in the IR text, {does} "
                "writes it"
            )
            raise edited.error(new, what)


def _rename(function: FuncOp, names: Mapping[str, str]) -> None:
    """Renames a function, and the functions to which it refers."""
    function.properties["sym_name"] = StringAttr(names[function.sym_name.data])
    for op in function.walk():
        for entries in (op.attributes, op.properties):
            entries.update({key: _renamed(value, names) for key, value in entries.items()})


def _renamed(attribute: Attribute, names: Mapping[str, str]) -> Attribute:
    if isinstance(attribute, SymbolRefAttr):
        name = attribute.root_reference.data
        return SymbolRefAttr(names[name]) if names.get(name, name) != name else attribute
    if isinstance(attribute, ArrayAttr):
        return ArrayAttr([_renamed(item, names) for item in attribute.data])
    if isinstance(attribute, DictionaryAttr):
        return DictionaryAttr({k: _renamed(v, names) for k, v in attribute.data.items()})
    return attribute
