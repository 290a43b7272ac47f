"""Reads IR text that a person has written or edited, and checks each line, so that a compilation can use the IR.

The compilation continues after the last pass that the IR text lists. The compilation needs the constants that the
text refers to, and the files of the text's kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Attribute, Operation, SSAValue

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError, describe
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from vendor_reference.compiler.edited_plan import check_edited_plan
from vendor_reference.compiler.frontend.layer_kernel import (
    layer_mentions,
    layer_sources,
    program_source,
)
from vendor_reference.compiler.ir.attributes import read_fp16_of, set_soc
from vendor_reference.compiler.ir.edits import remove_op
from vendor_reference.compiler.ir.kernel_attribute import KERNEL, kernel_attributes, read_kernel
from vendor_reference.compiler.ir.names import bodies, functions_of
from vendor_reference.compiler.ir.text import Ir, read_ir
from vendor_reference.compiler.ir.types import ranked_type
from vendor_reference.compiler.ir.verification import check_ir
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.levels.values import AnyConstantOp
from vendor_reference.compiler.levels.vpuip import (
    GLOBAL_SIZE,
    DeclareBufferOp,
    OclOp,
    TaskOp,
    TaskViewOp,
)
from vendor_reference.compiler.library_layers import library_layers
from vendor_reference.compiler.pass_pipeline import find_stage
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.executable.executable import Constant, Source
from vendor_reference.soc import SocModel

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class EditedIr:
    """A function of an IR text, with everything in the text that the function needs.

    Attributes:
      name: File name of the IR text.
      ir: The part of the IR text that is in use: `entry`, `twin`, and the functions that these two refer to.
      stage: `import`, or the last pass that has run on the IR text.
      entry: Function to compile.
      twin: Function that replaces `entry` on devices with fp16 arithmetic; None if the text has no such function.
    """

    name: str
    ir: Ir
    stage: str
    entry: FuncOp
    twin: FuncOp | None

    @property
    def functions(self) -> Sequence[FuncOp]:
        """Returns all functions of the part of the IR text that is in use, in order."""
        return list(functions_of(self.ir.module).values())

    def place(self, op: Operation) -> str:
        """Returns the position of an op in the IR text, as `file:line:column`."""
        return self.ir.places.get(op, self.name)

    def error(self, op: Operation, what: str, hint: str = "") -> LiteRtError:
        """Returns an error about an op, with the op's line."""
        return LiteRtError(Status.INVALID_IR_TYPE, what, self.place(op), hint)

    def checked(self, op: Operation, read: Callable[[], _Read]) -> _Read:
        """Calls `read` for an op; if this raises an error, adds the op's line to the error."""
        try:
            return read()
        except LiteRtError as error:
            raise LiteRtError(error.status, error.what, self.place(op), error.hint) from error


def read_edited(
    text: bytes, name: str, wanted: str, soc: SocModel | None = None, *, or_only: bool = False
) -> EditedIr:
    """Reads and verifies IR text, and extracts one function with all functions that it refers to.

    Args:
      text: IR text of any level.
      name: File name of the IR text, for messages.
      wanted: Name of the function to read; "" for `main`, or for the only function of the IR text.
      soc: SoC to compile for; None to use the SoC of the IR text.
      or_only: Whether to accept the only function of the IR text, even if its name differs.

    Raises:
      LiteRtError: INVALID_ARGUMENT or INVALID_IR_TYPE, for an error in the IR text, with the line; NOT_FOUND, if
        the function or pass does not exist.
    """
    ir = read_ir(text, name, make_context(list(library_layers().values())))
    check_ir(ir.module, ir.places)
    if soc is not None:
        set_soc(ir.module, soc)
    try:
        stage = find_stage(ir.module)
    except LiteRtError as error:
        raise LiteRtError(error.status, error.what, name, error.hint) from error
    check_edited_plan(ir.module, ir.places)
    entry = _find_entry(ir.module, wanted, name, or_only)
    entry_name = entry.sym_name.data
    twins = [f for f, _ in bodies(ir.module) if read_fp16_of(f) == entry_name]
    twin = twins[0] if twins else None
    edited = EditedIr(name, ir, stage, entry, twin)
    for one in (entry, *twins):
        _check_called(edited, one)
        _check_tasks(edited, one)
    drop_unused(ir.module, [entry, *twins[:1]])
    return edited


@contextmanager
def foreign_text(name: str) -> Iterator[None]:
    """Makes a `with` block in which passes run on IR that was read from text.

    Passes trust IR that the compiler made, but edited IR can be invalid in any way.
    """
    try:
        yield
    except RecursionError as error:
        raise LiteRtError(
            Status.UNSUPPORTED,
            "the IR text is nested too deeply: a pass reaches Python's recursion limit",
            name,
        ) from error
    except (LiteRtError, MemoryError):
        raise
    except Exception as error:
        what = f"a compiler pass fails on this IR text with the Python error {describe(error)}"
        hint = "Check the lines that you edited. If you edited none, report this bug to the vendor."
        raise LiteRtError(Status.INVALID_IR_TYPE, what, name, hint) from error


def check_constants(edited: EditedIr, constants: Mapping[str, Constant], hint: str) -> None:
    """Checks that the data of each constant exist and have the constant's type.

    `hint` tells the user where to get missing data.
    """
    for op in edited.ir.module.walk():
        if not isinstance(op, AnyConstantOp) or not (key := op.key()):
            continue
        constant = constants.get(key)
        if constant is None:
            raise edited.error(op, f"the data of constant '{key}' is missing", hint)
        found, wanted = _type_read(constant), ranked_type(op.output.type)
        if (found.element_type, found.shape) != (wanted.element_type, wanted.shape):
            raise edited.error(
                op, f"constant '{key}' has type {found}, but the IR text declares type {wanted}"
            )


def settle_kernels(edited: EditedIr, layers: Mapping[str, CustomLayer]) -> None:
    """Makes kernels refer to the files of this compilation.

    A kernel without a file gets the files of its op's layer.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if an attribute is not a valid kernel; INVALID_IR_TYPE, if a
        kernel's file does not exist.
    """
    files = {
        (layer.asset_name(file), file.path): program_source(layer, file)
        for layer in layers.values()
        for file in layer.files()
    }
    for op in edited.ir.module.walk():
        if KERNEL not in op.attributes:
            continue
        spec = edited.checked(op, partial(read_kernel, op.attributes))
        if spec.commands:
            continue
        op_name = spec.op_name or spec.title
        layer = layers.get(op_name)
        if layer is None:
            raise _no_asset(edited, op, op_name, spec.sources)
        if spec.sources:
            sources = _settle(edited, op, spec.sources, files, op_name)
            headers = _settle(edited, op, spec.headers, files, op_name)
            spec = replace(spec, sources=sources, headers=headers)
        else:
            found, included = layer_sources(layer)
            spec = replace(
                spec,
                sources=tuple(found),
                headers=tuple(included),
                mentions=layer_mentions(layer) if spec.mentions is None else spec.mentions,
            )
        op.attributes.update(kernel_attributes(spec))


def drop_unused(module: ModuleOp, roots: Iterable[FuncOp]) -> None:
    """Removes all functions from a module except `roots` and the functions that these refer to."""
    functions = functions_of(module)
    kept = {root.sym_name.data for root in roots}
    waiting = list(kept)
    while waiting:
        named = {name for name in _named_by(functions[waiting.pop()]) if name in functions}
        waiting += named - kept
        kept |= named
    for name, function in functions.items():
        if name not in kept:
            remove_op(function)


def _find_entry(module: ModuleOp, wanted: str, name: str, or_only: bool) -> FuncOp:
    """Returns the function to compile, which must have a body.

    Functions that replace another function on devices with fp16 arithmetic do not count.
    """
    found = {f.sym_name.data: f for f, _ in bodies(module) if read_fp16_of(f) is None}
    if wanted in found:
        return found[wanted]
    if not wanted and "main" in found:
        return found["main"]
    if len(found) == 1 and (or_only or not wanted):
        return next(iter(found.values()))
    names, has = ", ".join(found), "has" if len(found) == 1 else "have"
    if not found:
        what, hint = "the IR text has no function with a body, so nothing can be compiled", ""
    elif wanted:
        what, hint = (
            f"the IR text has no function '{wanted}' with a body",
            f"Only {names} {has} a body.",
        )
    else:
        what = f"the IR text has {len(found)} functions with bodies, but only one can be compiled"
        hint = f"Select one of {names} with --function."
    raise LiteRtError(Status.NOT_FOUND, what, name, hint)


def _check_called(edited: EditedIr, function: FuncOp) -> None:
    functions = functions_of(edited.ir.module)
    for op in function.walk():
        callee = op.properties.get("callee")
        if isinstance(callee, SymbolRefAttr) and callee.root_reference.data not in functions:
            name = callee.root_reference.data
            hint = "Correct the name, or add the function to the IR text."
            raise edited.error(
                op, f"the IR text has no function '{name}', which this op calls", hint
            )


def _check_tasks(edited: EditedIr, function: FuncOp) -> None:
    """Rejects a task that has no work items, or reads a buffer that no task has written."""
    roots: dict[SSAValue, SSAValue] = {}
    written: set[SSAValue] = set()
    for op in function.walk():
        if isinstance(op, TaskViewOp):
            roots[op.result] = roots.get(op.source, op.source)
        if not isinstance(op, TaskOp):
            continue
        if isinstance(op, OclOp) and op.callee is not None and not op.numbers(GLOBAL_SIZE):
            hint = f"Give the task its number of work items, for example: {GLOBAL_SIZE} = array<i64: 96>."
            raise edited.error(op, f"task {op.name} needs the attribute {GLOBAL_SIZE}", hint)
        for value in (roots.get(v, v) for v in op.inputs):
            is_buffer = isinstance(value.owner, (AllocOp, DeclareBufferOp))
            if is_buffer and value not in written:
                name = f"%{value.name_hint}" if value.name_hint else "a buffer"
                hint = "Put the task that writes the buffer before this task."
                raise edited.error(op, f"the task reads {name}, which no earlier task writes", hint)
        written.update(roots.get(v, v) for v in op.outputs)


def _settle(
    edited: EditedIr,
    op: Operation,
    sources: Sequence[Source],
    files: Mapping[tuple[str, str], Source],
    op_name: str,
) -> tuple[Source, ...]:
    for source in sources:
        if (source.asset, source.file_name) not in files:
            raise _no_asset(edited, op, op_name, [source])
    return tuple(files[source.asset, source.file_name] for source in sources)


def _no_asset(
    edited: EditedIr, op: Operation, op_name: str, sources: Sequence[Source]
) -> LiteRtError:
    names = [f"'{source.file_name}' of asset '{source.asset}'" for source in sources[:1]]
    where = names[0] if names else f"the asset for op '{op_name}'"
    what = f"the IR text needs the kernel in {where}, but no flag gives this asset"
    return edited.error(op, what, f"Give the asset with --npu_custom_op_info={op_name},FILE.")


def _type_read(constant: Constant) -> RankedTensorType:
    """Returns the type that kernels read."""
    if constant.dequantization is None:
        return constant.tensor_type
    return RankedTensorType.of(ElementType.FLOAT32, constant.tensor_type.shape)


def _named_by(function: FuncOp) -> Iterator[str]:
    """Yields the names of functions in a function's attributes and calls; other names may be among them."""
    for op in function.walk():
        for attribute in (*op.attributes.values(), *op.properties.values()):
            yield from _symbols(attribute)


def _symbols(attribute: Attribute) -> Iterator[str]:
    if isinstance(attribute, SymbolRefAttr):
        yield attribute.root_reference.data
    elif isinstance(attribute, ArrayAttr):
        for item in attribute.data:
            yield from _symbols(item)
    elif isinstance(attribute, DictionaryAttr):
        for item in attribute.data.values():
            yield from _symbols(item)
