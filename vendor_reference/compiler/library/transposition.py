"""Elements moved so that other ones are neighbours: read in rows, turned in registers, written in rows.

Sizes and strides are an argument, so that one program does for all tensors whose elements are of a size.
"""

from __future__ import annotations

import struct

from litert.core.element_type import ElementType
from vendor_reference.compiler.kernel_spec import ConstantArgument, KernelSpec, TensorArgument
from vendor_reference.compiler.library.kernel_text import (
    ALONE,
    name_kernel,
    vector_size,
    vector_typedefs,
)
from vendor_reference.compiler.library.loops import Loops

_TILE_ELEMENTS = 4096
"""What a work item moves: both sides of it fit the first cache."""
_TILE = 64

_KERNEL = """
// `geometry` has the numbers of columns and rows, and how many of them a work item moves; the step from a column
// to the next where it reads, from a row to the next where it writes, and the first elements of both; the number
// of outer loops, and for each its size, and its steps where it reads and writes.
__kernel void KERNEL(const __global {word}* from, __global {word}* to, const __global uint* geometry) {{
  const size_t from_step = geometry[4], to_step = geometry[5];
  from += geometry[6];
  to += geometry[7];
  size_t rest = get_global_id(2);
  for (size_t loop = geometry[8]; loop > 0; --loop) {{
    const __global uint* const outer = geometry + 6 + 3 * loop;
    from += rest % outer[0] * outer[1];
    to += rest % outer[0] * outer[2];
    rest /= outer[0];
  }}
  const size_t first_column = get_global_id(0) * geometry[2], first_row = get_global_id(1) * geometry[3];
  const size_t columns = min(first_column + geometry[2], (size_t)geometry[0]);
  const size_t rows = min(first_row + geometry[3], (size_t)geometry[1]);
  size_t row = first_row;
  for (; row + {size} <= rows; row += {size}) {{
    size_t column = first_column;
    for (; column + {size} <= columns; column += {size}) {{
      const __global {word}* const in = from + column * from_step + row;
      __global {word}* const out = to + row * to_step + column;
{turn}
    }}
    for (; column < columns; ++column)
      for (size_t i = 0; i < {size}; ++i)
        to[(row + i) * to_step + column] = from[column * from_step + row + i];
  }}
  for (; row < rows; ++row)
    for (size_t column = first_column; column < columns; ++column)
      to[row * to_step + column] = from[column * from_step + row];
}}
"""


def find_turn(loops: Loops) -> int | None:
    """The loop whose elements are neighbours where they are read, if those written are others; None if not.

    Args:
      loops: of what is read, and what is written.
    """
    reads, writes = loops.strides
    if writes[-1] != 1 or reads[-1] == 1 or 1 not in reads:
        return None
    return reads.index(1)


def transposition_kernel(title: str, word: str, loops: Loops) -> KernelSpec:
    """The kernel that writes output 0.

    Args:
      title: of the layer.
      word: what elements are moved as: `uint`.
      loops: of what is read, and what is written; `find_turn` has found one.
    """
    turned = find_turn(loops)
    assert turned is not None
    reads, writes = loops.strides
    columns, rows = loops.sizes[-1], loops.sizes[turned]
    tile = _tile(columns, rows)
    outer = [i for i in range(len(loops.sizes) - 1) if i != turned]
    numbers = [columns, rows, *tile, reads[-1], writes[turned], *loops.offsets, len(outer)]
    count = 1
    for loop in outer:
        numbers += [loops.sizes[loop], reads[loop], writes[loop]]
        count *= loops.sizes[loop]
    entry, text = name_kernel(title, _text(word))
    return KernelSpec(
        title,
        (
            TensorArgument(is_output=False, index=0),
            TensorArgument(is_output=True, index=0),
            ConstantArgument(ElementType.UINT32, struct.pack(f"<{len(numbers)}I", *numbers)),
        ),
        text=text,
        entry=entry,
        global_size=(str(-(-columns // tile[0])), str(-(-rows // tile[1])), str(count)),
        local_size=ALONE,
    )


def _tile(columns: int, rows: int) -> tuple[int, int]:
    """Columns and rows for a work item: a square, or as much of a narrow band."""
    if columns < _TILE:
        return columns, max(_TILE_ELEMENTS // columns, 1)
    if rows < _TILE:
        return max(_TILE_ELEMENTS // rows, 1), rows
    return _TILE, _TILE


def _text(word: str) -> str:
    size = vector_size([word])
    turn = [
        f"const {word}{size} c{i} = *(const __global KERNEL_{word}*)(in{f' + {i} * from_step' if i else ''});"
        for i in range(size)
    ]
    for i in range(size):
        turned = ", ".join(f"c{column}.s{i}" for column in range(size))
        place = f"out{f' + {i} * to_step' if i else ''}"
        turn.append(f"*(__global KERNEL_{word}*)({place}) = ({word}{size})({turned});")
    kernel = _KERNEL.format(word=word, size=size, turn="\n".join(f"      {line}" for line in turn))
    return "\n".join(vector_typedefs([word], size)) + "\n" + kernel
