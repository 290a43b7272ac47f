"""Replaces ops and types, and makes ops quickly for lowerings, which make thousands of ops.

xDSL's constructors sort an op's operands into groups and count the groups, which takes most of the time to make an
op. The functions of this module take operands that are already in order.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from typing import TypeVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FunctionType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    i32,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.dialects.memref import AllocOp, DeallocOp
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.irdl import AttrSizedOperandSegments
from xdsl.rewriter import Rewriter

from vendor_reference.compiler.ir.names import SymbolNames, bodies, functions_of


def replace_op(old: Operation, new: Operation) -> None:
    """Replaces an op by another op; the uses of the old op's results become uses of the new op's results."""
    block = old.parent
    assert block is not None
    block.insert_op_before(new, old)
    for result, replacement in zip(old.results, new.results, strict=True):
        replacement.name_hint = result.name_hint
        result.replace_all_uses_with(replacement)
    remove_op(old)


def remove_op(op: Operation) -> None:
    """Removes an op whose results have no uses."""
    op.detach()  # type: ignore[no-untyped-call]
    op.erase()


def set_type(value: SSAValue, new_type: Attribute) -> SSAValue:
    """Replaces a value by a value with another type, and returns the new value.

    Ops that used the old value then use the new value.
    """
    if value.type == new_type:
        return value
    return Rewriter.replace_value_with_new_type(value, new_type)


def allocate(buffer: Attribute) -> AllocOp:
    """Returns a `memref.alloc` of a buffer with static shape."""
    made: AllocOp = AllocOp.create(result_types=[buffer], properties=segment_sizes(0, 0))
    return made


def release(buffer: SSAValue) -> DeallocOp:
    """Returns a `memref.dealloc` of a buffer."""
    made: DeallocOp = DeallocOp.create(operands=[buffer])
    return made


def call(
    callee: SymbolRefAttr, arguments: Sequence[SSAValue], results: Sequence[Attribute]
) -> CallOp:
    """Returns a `func.call` with results of these types."""
    properties = {"callee": callee}
    made: CallOp = CallOp.create(operands=arguments, result_types=results, properties=properties)
    return made


def segment_sizes(*sizes: int) -> dict[str, Attribute]:
    """Returns the property with the number of operands in each operand group of an op."""
    return {AttrSizedOperandSegments.attribute_name: _segments(sizes)}


@lru_cache(maxsize=256)
def _segments(sizes: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, sizes)


def settle_called_types(module: ModuleOp, only: Container[str] | None = None) -> None:
    """Sets the types of each external function, or of each function in `only`, to the types of its calls.

    If the calls of one function have different types, each combination of types gets its own function, for example
    `@Softsign_1`.
    """
    functions = functions_of(module)
    names = SymbolNames(functions)
    kinds: dict[object, FuncOp] = {}
    used: set[str] = set()
    for _, block in bodies(module):
        for op in block.ops:
            if not isinstance(op, CallOp):
                continue
            name = op.callee.root_reference.data
            function = functions.get(name)
            if function is None or not function.is_declaration:
                continue
            if only is not None and name not in only:
                continue
            types = (tuple(op.operand_types), tuple(op.result_types))
            kind = (name, types)
            target = kinds.get(kind)
            if target is None:
                target = kinds[kind] = function if name not in used else _clone(function, names)
                used.add(name)
                given = target.function_type
                if (given.inputs.data, given.outputs.data) != types:
                    target.function_type = FunctionType.from_lists(*types)
            if target is not function:
                op.callee = SymbolRefAttr(target.sym_name)


def _clone(function: FuncOp, names: SymbolNames) -> FuncOp:
    """Adds a copy after the function, with an unused name."""
    copy: FuncOp = function.clone()
    copy.sym_name = StringAttr(names.new(function.sym_name.data))
    assert function.parent is not None
    function.parent.insert_op_after(copy, function)
    return copy


_Made = TypeVar("_Made", bound=Operation)
_Given = TypeVar("_Given")


def read_through(
    result: OpResult, new_type: Attribute, make: Callable[[SSAValue, _Given], _Made], given: _Given
) -> _Made:
    """Changes the type of a result.

    Users of the result then use an op that `make` creates from the result and `given`.
    """
    new, block = set_type(result, new_type), result.op.parent
    assert block is not None
    made = make(new, given)
    block.insert_op_after(made, result.op)
    for use in list(new.uses):
        if use.operation is not made:
            use.operation.operands[use.index] = made.results[0]
    return made
