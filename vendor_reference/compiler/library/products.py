"""Weights of matrix products and convolutions, which the firmware reads as panels of 16 columns.

The device packs constant weights when it loads the file. For weights that the model computes, a `Pack` command
before the product packs them into scratch memory.
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
"""Largest number of batch dimensions that an instruction can have."""

_CONSTANT = "is_constant"


def constant_attribute(tensor: Tensor) -> Attributes:
    """Returns the attribute that says whether a tensor is a constant when the executable is loaded."""
    return {_CONSTANT: is_known_ahead(tensor)}


def panels_mismatch(call: PlacedOp, column: int) -> str:
    """Returns why operand 1 is too large to be stored as panels; dimension `column` becomes the panels' columns.

    Returns "" if the operand fits.
    """
    shape = call.inputs[1].shape
    columns = -(-shape[column] // PANEL) * PANEL
    count = columns * prod(size for dim, size in enumerate(shape) if dim != column)
    most = range_of(count)[1]
    if most <= MOST_ELEMENTS:
        return ""
    return (
        f"the weights, padded to a multiple of {PANEL} columns, have {most} elements, but at most "
        f"{MOST_ELEMENTS} are possible"
    )


class ProductSpec:
    """Builds the kernel of an op from commands and their arguments."""

    def __init__(self, call: PlacedOp) -> None:
        self._call = call
        self._arguments: list[KernelArgument] = [*tensor_arguments(len(call.inputs))]
        self._commands: list[Command] = []

    @property
    def result(self) -> int:
        """Returns the argument index of the result.

        The argument index of an operand is the operand's own index.
        """
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
          index: Index of the operand.
          rows: Dimensions that become the rows of the matrix; all dimensions except these and `column` are batch
            dimensions.
          column: Dimension that becomes the columns of the matrix.

        Returns:
          The argument index of the matrix; the number of rows in a panel; and the stride of batches, in elements.
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

        In the copy, elements along dimension `column` are contiguous.
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
    """Returns the three batch numbers of an instruction; the innermost is last."""
    return (*(missing,) * (MOST_BATCHES - len(numbers)), *numbers)


def matrix_strides(view: View, batches: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """Returns the strides of rows and batches of a view `[..., rows, columns]`, in elements.

    The batch dimensions are broadcast to `batches`.
    """
    repeated = view.broadcast((*batches, *view.shape[-2:]))
    return view.strides[-2], three([*repeated.strides[:-2]], 0)
