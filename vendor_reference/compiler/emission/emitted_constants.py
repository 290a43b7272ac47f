"""The constants of an executable: those that kernels read, each once in each order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from vendor_reference.custom_layers.layout import Order, same_memory
from vendor_reference.executable.executable import Constant


class EmittedConstants:
    """Constants in the making.

    Attributes:
      constants: in the order of their indices.
    """

    def __init__(self, table: Mapping[str, Constant]) -> None:
        """Takes the constants of the module's resources, by key."""
        self.constants: list[Constant] = []
        self._table = table
        self._places: dict[object, int] = {}

    def resource(self, key: str, order: Order) -> int:
        """The index of a constant of the table, to be laid out in that order when it is loaded."""
        if key not in self._table:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"no data for the constant '{key}'",
                hint="A text alone has no weights: compile the model.",
            )
        return self._constant(key, self._table[key], order)

    def values(
        self, element_type: ElementType, shape: tuple[int, ...], data: bytes, order: Order = ()
    ) -> int:
        """The index of a constant with these bytes."""
        tensor_type = RankedTensorType.of(element_type, shape)
        return self._constant((data, tensor_type), Constant(tensor_type, Blob(data)), order)

    def _constant(self, key: object, constant: Constant, order: Order) -> int:
        shape = constant.tensor_type.shape
        rows = tuple(range(len(shape)))
        if same_memory(shape, order or rows, rows):
            order = ()
        same = (key, order)
        if same not in self._places:
            self._places[same] = len(self.constants)
            self.constants.append(replace(constant, order=order) if order else constant)
        return self._places[same]
