"""Ops that a lowering makes by the thousand, from operands that are in order already.

xDSL's constructors sort operands into the groups that an op declares, and count them anew: most of what an op
costs to make.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import DenseArrayBase, SymbolRefAttr, i32
from xdsl.dialects.func import CallOp
from xdsl.dialects.memref import AllocOp, DeallocOp
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AttrSizedOperandSegments


def allocate(buffer: Attribute) -> AllocOp:
    """`memref.alloc` of a buffer of a static shape."""
    made: AllocOp = AllocOp.create(result_types=[buffer], properties=segment_sizes(0, 0))
    return made


def release(buffer: SSAValue) -> DeallocOp:
    """`memref.dealloc`."""
    made: DeallocOp = DeallocOp.create(operands=[buffer])
    return made


def call(
    callee: SymbolRefAttr, arguments: Sequence[SSAValue], results: Sequence[Attribute]
) -> CallOp:
    """`func.call`, with results of these types."""
    properties = {"callee": callee}
    made: CallOp = CallOp.create(operands=arguments, result_types=results, properties=properties)
    return made


def segment_sizes(*sizes: int) -> dict[str, Attribute]:
    """The property that says how many operands each of an op's groups has."""
    return {AttrSizedOperandSegments.attribute_name: _segments(sizes)}


@lru_cache(maxsize=256)
def _segments(sizes: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, sizes)
