"""Elements moved as they are: a kernel that fills parts of a result from its inputs, or with one value.

A transposition is one part, a concatenation one for each input, padding the middle and a box on each side of it.
Where neighbours are read that are written apart, another kernel reads them in rows, turns them in registers, and
writes them in rows. Sizes and strides are an argument, so that few programs do for a network.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from litert.core.element_type import ElementType
from vendor_reference.compiler.library.kernel_text import (
    ALONE,
    CHUNK,
    UNSIGNED,
    name_kernel,
    vector_size,
    vector_typedefs,
)
from vendor_reference.compiler.library.library_op import PlacedOp, scale_mismatch
from vendor_reference.compiler.library.views import Loops, View, plan_loops
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    KernelArgument,
    KernelSpec,
    ScalarArgument,
    TensorArgument,
)

_TILE = 32
"""Rows and columns that a work item moves where it cannot read what it writes in one row: both fit the caches."""

_KERNEL = """
// One row of a part.
void KERNEL_row(const __global {word}* from, const size_t from_step, __global {word}* to,
                const size_t to_step, size_t i, const size_t end) {{
  if (from_step == 1 && to_step == 1)
    for (; i + {vector} <= end; i += {vector})
      *(__global KERNEL_{word}*)(to + i) = *(const __global KERNEL_{word}*)(from + i);
  for (; i < end; ++i) to[i * to_step] = from[i * from_step];
}}

void KERNEL_fill(const {word} value, __global {word}* to, const size_t to_step, size_t i, const size_t end) {{
  if (to_step == 1)
    for (; i + {vector} <= end; i += {vector}) *(__global KERNEL_{word}*)(to + i) = value;
  for (; i < end; ++i) to[i * to_step] = value;
}}

// The first of `parts` is the number of loops. Then a part has: the input that it comes from, or {num_inputs} for
// `value`; columns and rows for a work item; the sizes of its loops; of what is read, then of what is written, the
// offset, and the stride in each loop.
__kernel void KERNEL({inputs}__global {word}* r_data, const {word} value, const __global uint* parts) {{
  const size_t num_loops = parts[0], inner = num_loops - 1;
  const __global uint* const part = parts + 1 + get_global_id(2) * (3 * num_loops + 5);
  const __global uint* const sizes = part + 3;
  const __global uint* const from_place = sizes + num_loops;
  const __global uint* const to_place = from_place + num_loops + 1;
  size_t num_rows = 1;
  for (size_t loop = 0; loop < inner; ++loop) num_rows *= sizes[loop];
  const size_t begin = get_global_id(0) * part[1], end = min(begin + part[1], (size_t)sizes[inner]);
  const size_t first = get_global_id(1) * part[2], last = min(first + part[2], num_rows);
  const __global {word}* in = 0;
  {choice}
  for (size_t row = first; row < last; ++row) {{
    size_t rest = row, from = from_place[0], to = to_place[0];
    for (size_t loop = inner; loop > 0; --loop) {{
      const size_t index = rest % sizes[loop - 1];
      rest /= sizes[loop - 1];
      from += index * from_place[loop];
      to += index * to_place[loop];
    }}
    if (in)
      KERNEL_row(in + from, from_place[num_loops], r_data + to, to_place[num_loops], begin, end);
    else
      KERNEL_fill(value, r_data + to, to_place[num_loops], begin, end);
  }}
}}
"""


_TURN_ELEMENTS = 4096
"""What a work item moves: both sides of it fit the first cache."""
_TURN_TILE = 64

_TURN_KERNEL = """
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


@dataclass(frozen=True, slots=True)
class MovedPart:
    """Elements of a result, and where those of an input of the op come from that they are.

    Attributes:
      source: of the same shape; None for the value that fills.
    """

    result: View
    source: View | None = None
    input: int = 0


def move_mismatch(call: PlacedOp) -> str:
    """Why elements of a call's tensors are not moved between them: they are not of one type, size or scale."""
    element_type = call.result.element_type
    for view in call.inputs:
        if view.element_type is not element_type:
            return f"it makes {element_type.name} of {view.element_type.name}"
    if element_type.bits not in UNSIGNED:
        return f"its elements are {element_type.name}"
    return scale_mismatch(call)


def move_kernel(
    title: str, num_inputs: int, parts: Sequence[MovedPart], value: bytes = b""
) -> KernelSpec:
    """The kernel that writes the parts of output 0, which are apart from each other.

    It gets all inputs of the layer; `value` has the bytes of the element that fills parts without a source.
    """
    bits = parts[0].result.element_type.bits
    word_type, word = ElementType[f"UINT{bits}"], UNSIGNED[bits]
    parts = [part for part in parts if part.result.num_elements]
    loops = [plan_loops([part.source or part.result, part.result]) for part in parts]
    if num_inputs == len(parts) == 1 and parts[0].source and find_turn(loops[0]) is not None:
        return transposition_kernel(title, word, loops[0])
    num_loops = max((len(nest.sizes) for nest in loops), default=1)
    tiles = [_tile(nest) for nest in loops]
    numbers = [num_loops]
    for part, nest, tile in zip(parts, loops, tiles, strict=True):
        missing = num_loops - len(nest.sizes)
        numbers += [part.input if part.source else num_inputs, *tile, *(1,) * missing, *nest.sizes]
        for offset, strides in zip(nest.offsets, nest.strides, strict=True):
            numbers += [offset, *(0,) * missing, *strides]
    arguments: list[KernelArgument] = [
        *(TensorArgument(is_output=False, index=i) for i in range(num_inputs)),
        TensorArgument(is_output=True, index=0),
        ScalarArgument(word_type, value or bytes(bits // 8)),
        ConstantArgument(ElementType.UINT32, struct.pack(f"<{len(numbers)}I", *numbers)),
    ]
    entry, text = name_kernel(title, _text(word, num_inputs))
    return KernelSpec(
        title,
        tuple(arguments),
        text=text,
        entry=entry,
        global_size=_global_size(loops, tiles),
        local_size=ALONE,
    )


def _tile(loops: Loops) -> tuple[int, int]:
    """Columns and rows for a work item."""
    if loops.steps != (1, 1):
        return _TILE, _TILE
    return CHUNK, max(1, CHUNK // max(loops.sizes[-1], 1))


def _global_size(loops: Sequence[Loops], tiles: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """Work items for the widest part, for the highest, and for each part."""
    columns = [-(-nest.sizes[-1] // tile[0]) for nest, tile in zip(loops, tiles, strict=True)]
    rows = [-(-nest.num_rows // tile[1]) for nest, tile in zip(loops, tiles, strict=True)]
    return str(max(columns, default=0)), str(max(rows, default=0)), str(len(loops))


def _text(word: str, num_inputs: int) -> str:
    size = vector_size([word])
    choice = [f"if (part[0] == {i}) in = in{i};" for i in range(num_inputs)]
    kernel = _KERNEL.format(
        word=word,
        vector=size,
        inputs="".join(f"const __global {word}* in{i}, " for i in range(num_inputs)),
        num_inputs=num_inputs,
        choice="\n  ".join(choice),
    )
    return "\n".join(vector_typedefs([word], size)) + "\n" + kernel


def find_turn(loops: Loops) -> int | None:
    """The loop whose elements are neighbours where they are read, if those written are others; None if not."""
    reads, writes = loops.strides
    if writes[-1] != 1 or reads[-1] == 1 or 1 not in reads:
        return None
    return reads.index(1)


def transposition_kernel(title: str, word: str, loops: Loops) -> KernelSpec:
    """The kernel that writes output 0, by loops in which `find_turn` has found one.

    Elements are moved as `word`: `uint`.
    """
    turned = find_turn(loops)
    assert turned is not None
    reads, writes = loops.strides
    columns, rows = loops.sizes[-1], loops.sizes[turned]
    tile = _turn_tile(columns, rows)
    outer = [i for i in range(len(loops.sizes) - 1) if i != turned]
    numbers = [columns, rows, *tile, reads[-1], writes[turned], *loops.offsets, len(outer)]
    count = 1
    for loop in outer:
        numbers += [loops.sizes[loop], reads[loop], writes[loop]]
        count *= loops.sizes[loop]
    entry, text = name_kernel(title, _turn_text(word))
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


def _turn_tile(columns: int, rows: int) -> tuple[int, int]:
    """Columns and rows for a work item: a square, or as much of a narrow band."""
    if columns < _TURN_TILE:
        return columns, max(_TURN_ELEMENTS // columns, 1)
    if rows < _TURN_TILE:
        return max(_TURN_ELEMENTS // rows, 1), rows
    return _TURN_TILE, _TURN_TILE


def _turn_text(word: str) -> str:
    size = vector_size([word])
    turn = [
        f"const {word}{size} c{i} = *(const __global KERNEL_{word}*)(in{f' + {i} * from_step' if i else ''});"
        for i in range(size)
    ]
    for i in range(size):
        turned = ", ".join(f"c{column}.s{i}" for column in range(size))
        place = f"out{f' + {i} * to_step' if i else ''}"
        turn.append(f"*(__global KERNEL_{word}*)({place}) = ({word}{size})({turned});")
    kernel = _TURN_KERNEL.format(
        word=word, size=size, turn="\n".join(f"      {line}" for line in turn)
    )
    return "\n".join(vector_typedefs([word], size)) + "\n" + kernel
