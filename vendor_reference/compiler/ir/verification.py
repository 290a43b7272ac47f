"""Verifies that IR follows the rules of its dialects; the errors name the invalid op.

This module also contains checks that all IR levels share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from xdsl.dialects.builtin import (
    AffineMapAttr,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StridedLayoutAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp, DeallocOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from litert.core.counts import count_text
from litert.core.errors import VENDOR_REPAIRS, LiteRtError, describe
from litert.core.status import Status
from vendor_reference.compiler.ir.types import (
    end_bytes_of,
    find_element_type,
    layout_of,
    map_order,
    size_bytes_of,
)
from vendor_reference.compiler.memory_spaces import MemorySpace

_NO_PLACES: Mapping[Operation, str] = {}


def check_ir(
    module: ModuleOp, places: Mapping[Operation, str] = _NO_PLACES, after: str = ""
) -> None:
    """Checks each op, and checks that each value is defined before it is used.

    `places` holds the positions of ops in their file; if an op has no position, messages give its function and
    number. `after` is the name of the last pass that ran on the module, and is used in messages; it is "" if the
    module was read from a file.

    Raises:
      LiteRtError: INVALID_IR_TYPE, if the module is invalid; the error names the op and the problem.
    """
    defined: set[SSAValue] = set()
    for op in module.walk():
        for index, operand in enumerate(op.operands):
            if operand not in defined:
                raise _error(f"operand {index} is used before it is defined", op, places, after)
        defined.update(op.results)
        for block in _blocks(op):
            defined.update(block.args)
        _check_op(op, places, after)


def _check_op(op: Operation, places: Mapping[Operation, str], after: str) -> None:
    try:
        op.verify(verify_nested_ops=False)
        if isinstance(op, DeallocOp) and not isinstance(op.memref.owner, AllocOp):
            raise VerifyException(
                "the op frees memory that no alloc has allocated; a function must not free its arguments"
            )
        if any(len(region.blocks) > 1 for region in op.regions):
            raise VerifyException(
                "the op has a region of several blocks, but a region may have only one block"
            )
        for block in _blocks(op):
            if not block.ops:
                block.verify()
    except VerifyException as error:
        sentence = (str(error).splitlines() or [""])[0].rstrip(".")
        raise _error(sentence, op, places, after) from error
    except Exception as error:  # a verifier did not expect this case
        raise _error(describe(error), op, places, after) from error


def _blocks(op: Operation) -> Iterator[Block]:
    for region in op.regions:
        yield from region.blocks


def _error(what: str, op: Operation, places: Mapping[Operation, str], after: str) -> LiteRtError:
    where = [places.get(op) or _describe_place(op)]
    if after:
        where.append(f"after pass '{after}'")
    hint = VENDOR_REPAIRS if after else ""
    return LiteRtError(Status.INVALID_IR_TYPE, f"op {op.name}: {what}", ", ".join(where), hint)


def _describe_place(op: Operation) -> str:
    block = op.parent
    function = op.parent_op()
    if block is None:
        return "the module"
    number = next(i for i, other in enumerate(block.ops) if other is op)
    inside = f" of @{function.sym_name.data}" if isinstance(function, FuncOp) else ""
    return f"op {number}{inside}"


_SPACES = tuple(space.value for space in MemorySpace)


def check_tensors(kind: str, types: Sequence[Attribute]) -> None:
    """Checks that each type is a tensor type that a kernel can read."""
    for index, ir_type in enumerate(types):
        if not isinstance(ir_type, TensorType):
            raise VerifyException(f"{kind} {index} has type {ir_type}, but must be a tensor")
        _check_elements(f"{kind} {index}", ir_type)


def check_memrefs(kind: str, types: Sequence[Attribute]) -> None:
    """Checks that each type is a memref type that a kernel can read."""
    for index, ir_type in enumerate(types):
        where = f"{kind} {index}"
        if not isinstance(ir_type, MemRefType):
            raise VerifyException(f"{where} has type {ir_type}, but must be a memref")
        _check_elements(where, ir_type)
        space = ir_type.memory_space
        if not isinstance(space, NoneAttr) and (
            not isinstance(space, SymbolRefAttr) or space.root_reference.data not in _SPACES
        ):
            raise VerifyException(
                f"{where} lies in memory space {space}, but the memory spaces are @{', @'.join(_SPACES)}"
            )


def check_view(source: Attribute, result: Attribute) -> None:
    """Checks that a view has as many bytes as its source, or is a part of its source."""
    check_memrefs("source", [source])
    check_memrefs("result", [result])
    if isinstance(layout_of(result), StridedLayoutAttr):
        end, size = end_bytes_of(result), end_bytes_of(source)
        if end > size and not isinstance(layout_of(source), StridedLayoutAttr):
            raise VerifyException(f"the view ends at byte {end}, but its source has {size} bytes")
    elif size_bytes_of(source) != size_bytes_of(result):
        raise VerifyException(
            f"the source has {size_bytes_of(source)} bytes, but the view has "
            f"{size_bytes_of(result)}"
        )


def check_count(what: str, found: int, expected: int) -> None:
    """Checks that a number is the expected number."""
    if found != expected:
        raise VerifyException(f"the op has {count_text(found, what)}, but must have {expected}")


_Result = TypeVar("_Result")


def verified(read: Callable[[], _Result]) -> _Result:
    """Returns the result of `read`; if `read` raises a `LiteRtError`, converts it to an error of the verifier."""
    try:
        return read()
    except LiteRtError as error:
        raise VerifyException(f"{error.what}. {error.hint}".rstrip(". ")) from error


def _check_elements(where: str, ir_type: TensorType[Attribute] | MemRefType[Attribute]) -> None:
    if find_element_type(ir_type.element_type) is None:
        raise VerifyException(
            f"{where} has elements of type {ir_type.element_type}, which no kernel can read"
        )
    rank = len(ir_type.get_shape())
    layout = layout_of(ir_type)
    if isinstance(layout, AffineMapAttr):
        order = verified(lambda: map_order(layout))
        if len(order) != rank:
            raise VerifyException(
                f"{where} has rank {rank}, but its layout is for rank {len(order)}"
            )
    elif isinstance(layout, StridedLayoutAttr) and isinstance(ir_type, MemRefType):
        if len(layout.strides) != rank:
            raise VerifyException(f"{where} has rank {rank}, but {len(layout.strides)} strides")
    elif not isinstance(layout, NoneAttr):
        raise VerifyException(f"{where} has layout {layout}, but a layout must be an affine map")
