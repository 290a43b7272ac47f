"""Kernels that copy elements unchanged; each part of a result gets an operand's elements, or one value.

A transposition has one part. A concatenation has one part for each input. A padding has one part for the operand
in the middle, and further parts on each side of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from vendor_reference.compiler.library.library_op import PlacedOp, scale_mismatch
from vendor_reference.compiler.library.traced_size import is_multiple, is_same, range_of
from vendor_reference.compiler.library.views import Loops, View, plan_loops
from vendor_reference.custom_layers.kernel_spec import KernelSpec, tensor_arguments
from vendor_reference.firmware.instructions import Command, FieldValue, instruction_set

_ELEMENT_BYTES = (1, 2, 4, 8)
_WORD_BYTES = 16
"""Size of the largest element that the firmware moves, in bytes."""

MAX_LOOPS = next(f.count for f in instruction_set()["Move"].fields if f.name == "sizes")
"""Number of nested loops in an instruction."""


@dataclass(frozen=True, slots=True)
class MovedPart:
    """A part of a result, and the elements of an input that are copied to this part.

    Attributes:
      source: View of the elements to copy, in the shape of the part; None to write the fill value.
      input, output: Indices of the op's input and output to which the views belong.
    """

    result: View
    source: View | None = None
    input: int = 0
    output: int = 0


def move_mismatch(call: PlacedOp) -> str:
    """Returns why elements cannot be copied unchanged (types, sizes or scales differ); "" if they can."""
    element_type = call.result.element_type
    for view in call.tensors:
        if view.element_type is not element_type:
            return (
                f"the result has type {element_type.name}, but another tensor of the op has type "
                f"{view.element_type.name}"
            )
    if element_type.bits // 8 not in _ELEMENT_BYTES:
        return f"the firmware cannot move elements of type {element_type.name}"
    return scale_mismatch(call)


def move_kernel(
    title: str,
    num_inputs: int,
    parts: Sequence[MovedPart],
    value: bytes = b"",
    num_outputs: int = 1,
) -> KernelSpec:
    """Returns a kernel of commands that write parts of the outputs; the parts must not overlap.

    The arguments of the commands are all inputs of the layer. `value` holds the bytes of the element that fills
    parts without a source.
    """
    commands = []
    for part in [p for p in parts if range_of(p.result.num_elements)[1]] or parts[:1]:
        result, source = part.result, part.source
        places = {"result": num_inputs + part.output}
        if source is None:
            source = View(result.element_type, result.shape, (0,) * len(result.shape))
        else:
            places["input"] = part.input
        loops, size = _widened(plan_loops([source, result]), result.element_type.bits // 8)
        number = int.from_bytes(value, "little")
        fields: dict[str, FieldValue] = {
            **places,
            "value": (number % 2**32, number >> 32),
            "bytes": size,
        }
        commands += [
            Command.of("Move", **fields, **nest) for nest in command_loops(_inner_turn(loops))
        ]
    arguments = tensor_arguments(num_inputs, num_outputs)
    return KernelSpec(title, arguments, commands=tuple(commands))


def command_loops(loops: Loops) -> Iterator[Mapping[str, FieldValue]]:
    """Yields the fields `offsets`, `sizes` and `strides` of each command that the loops need."""
    excess = max(len(loops.sizes) - MAX_LOOPS, 0)
    for index in product(*map(range, loops.sizes[:excess])):
        offsets = [
            offset + sum(i * stride for i, stride in zip(index, strides, strict=False))
            for offset, strides in zip(loops.offsets, loops.strides, strict=True)
        ]
        inner = Loops(
            loops.sizes[excess:], tuple(s[excess:] for s in loops.strides), tuple(offsets)
        )
        missing = MAX_LOOPS - len(inner.sizes)
        yield {
            "offsets": inner.offsets,
            "sizes": (*(1,) * missing, *inner.sizes),
            "strides": tuple(
                stride for strides in inner.strides for stride in (*(0,) * missing, *strides)
            ),
        }


def _widened(loops: Loops, size: int) -> tuple[Loops, int]:
    """Returns loops over larger elements and their size, if pairs of neighbours stay together."""
    while size < _WORD_BYTES and is_multiple(loops.sizes[-1], 2):
        apart = [n for strides in loops.strides for n in strides[:-1]]
        is_row = all(is_same(step, 1) for step in loops.steps)
        if not is_row or not all(is_multiple(n, 2) for n in (*apart, *loops.offsets)):
            break
        size *= 2
        sizes = (*loops.sizes[:-1], loops.sizes[-1] // 2)
        strides = tuple((*(n // 2 for n in s[:-1]), 1) for s in loops.strides)
        loops = Loops(sizes, strides, tuple(n // 2 for n in loops.offsets))
        if is_same(sizes[-1], 1) and len(sizes) > 1:
            loops = loops.ordered(range(len(sizes) - 1))
            break
    return loops, size


def _inner_turn(loops: Loops) -> Loops:
    """Returns the loops in an order in which a loop that reads rows is next to the loop that writes rows."""
    reads, writes = loops.strides
    in_rows = [i for i, stride in enumerate(reads) if is_same(stride, 1)]
    last = len(reads) - 1
    is_apart = is_same(writes[-1], 1) and not is_same(reads[-1], 0) and last not in in_rows
    if not is_apart or not in_rows:
        return loops
    turned = in_rows[0]
    return loops.ordered([*(i for i in range(last) if i != turned), turned, last])
