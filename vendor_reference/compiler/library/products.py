"""Weights for matrix products and convolutions: the firmware reads them as panels of 16 columns.

The device packs constant weights when it loads the file. A `Pack` command, in front of the product, packs computed
weights into scratch memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from litert.core.element_type import ElementType
from litert.model.graph import Tensor
from vendor_reference.compiler.library.library_op import MOST_ELEMENTS, Attributes, PlacedOp
from vendor_reference.compiler.library.traced_size import range_of
from vendor_reference.compiler.library.views import View
from vendor_reference.compiler.unpacked_constants import is_known_ahead
from vendor_reference.custom_layers.kernel_spec import (
    InternalArgument,
    KernelArgument,
    KernelSpec,
    TensorArgument,
    tensor_arguments,
)
from vendor_reference.firmware.instructions import Command, FieldValue

PANEL = 16
"""Number of columns of a panel, as in `panels.cl`."""

MOST_BATCHES = 3
"""Largest number of batch dimensions of an instruction."""

_CONSTANT = "is_constant"


def constant_attribute(tensor: Tensor) -> Attributes:
    """Returns the attribute that says whether a tensor is known when the executable is loaded."""
    return {_CONSTANT: is_known_ahead(tensor)}


def panels_mismatch(call: PlacedOp, column: int) -> str:
    """Returns why operand 1 is too large in panels with `column` as the dimension of its columns.

    "" if it is not.
    """
    shape = call.inputs[1].shape
    columns = -(-shape[column] // PANEL) * PANEL
    count = columns * prod(size for dim, size in enumerate(shape) if dim != column)
    most = range_of(count)[1]
    if most <= MOST_ELEMENTS:
        return ""
    return (
        f"its weights have {most} elements with columns filled up to {PANEL}, but at most "
        f"{MOST_ELEMENTS} are possible"
    )


class ProductSpec:
    """A kernel under construction for a call: its commands and their arguments."""

    def __init__(self, call: PlacedOp) -> None:
        self._call = call
        self._arguments: list[KernelArgument] = [*tensor_arguments(len(call.inputs))]
        self._commands: list[Command] = []

    @property
    def result(self) -> int:
        """Returns the argument index of the result; an operand's argument index is its number."""
        return len(self._call.inputs)

    def add(self, instruction: str, **fields: FieldValue) -> None:
        """Adds a command."""
        self._commands.append(Command.of(instruction, **fields))

    def spec(self, title: str) -> KernelSpec:
        """Returns the kernel."""
        return KernelSpec(title, tuple(self._arguments), commands=tuple(self._commands))

    def panels(self, index: int, rows: tuple[int, ...], column: int) -> tuple[int, int, int]:
        """Adds operand `index` as a matrix in panels.

        Args:
          index: Number of the operand.
          rows: Dimensions that make up the row number; dimensions other than these and `column` are
            batches.
          column: Dimension that is the column number.

        Returns:
          The argument index; the number of rows in a panel; and the elements from one batch to the
          next.
        """
        view = self._call.inputs[index]
        depth = prod(view.shape[dim] for dim in rows)
        batches = tuple(dim for dim in range(len(view.shape)) if dim not in (*rows, column))
        if self._call.attributes.get(_CONSTANT):
            order = (*batches, *rows, column)
            self._arguments[index] = TensorArgument(False, index, order=order, panel=PANEL)
            return index, depth * prod(view.shape[dim] for dim in batches), depth * PANEL
        apart = depth * -(-view.shape[column] // PANEL) * PANEL
        return self._pack(index, batches, rows, column, PANEL), depth, apart

    def rows(self, index: int, batches: tuple[int, ...], row: int, column: int) -> int:
        """Returns the argument index of a dense copy of operand `index`.

        Elements of dimension `column` lie side by side in the copy.
        """
        return self._pack(index, batches, (row,), column, self._call.inputs[index].shape[column])

    def _pack(
        self, index: int, batches: tuple[int, ...], rows: tuple[int, ...], column: int, panel: int
    ) -> int:
        view = self._call.inputs[index]
        assert len(batches) <= MOST_BATCHES
        columns, depth = view.shape[column], prod(view.shape[dim] for dim in rows)
        sizes = [view.shape[dim] for dim in batches]
        count = prod(sizes) * depth * -(-columns // panel) * panel
        self._arguments.append(InternalArgument(ElementType.FLOAT32, str(count)))
        place = len(self._arguments) - 1
        self.add(
            "Pack",
            input=index,
            result=place,
            rows=depth,
            columns=columns,
            panel=panel,
            batches=three(sizes, 1),
            input_batch=three([view.strides[dim] for dim in batches], 0),
            input_first=view.offset,
            input_row=view.strides[rows[-1]],
            input_column=view.strides[column],
        )
        return place


def three(numbers: list[int], missing: int) -> tuple[int, ...]:
    """Returns an instruction's three batch numbers, the innermost last."""
    return (*(missing,) * (MOST_BATCHES - len(numbers)), *numbers)


def matrix_strides(view: View, batches: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """Returns the strides of rows and batches of `[..., rows, columns]`, in elements.

    Batches are repeated to `batches`.
    """
    repeated = view.broadcast((*batches, *view.shape[-2:]))
    return view.strides[-2], three([*repeated.strides[:-2]], 0)
