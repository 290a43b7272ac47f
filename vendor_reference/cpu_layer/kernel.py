"""A kernel that a library of CPU layers has made for an op, and the tensors that it runs on."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from litert.core.errors import LiteRtError
from vendor_reference.cpu_layer.abi import CallStatus, LibraryStruct, TensorStruct
from vendor_reference.cpu_layer.marshal import MessageRoom, fill_tensor
from vendor_reference.executable.cpu_op import CpuConfig, CpuOp, CpuOperand, TensorConfig

Failure: TypeAlias = Callable[[str, int, MessageRoom, str], LiteRtError]
"""The error of a function that failed: its name, what it answers, what it says, and for which op."""


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where a tensor's elements lie: `strides` and `offset` as `CpuPlace` has them; `data` is an address, or 0."""

    strides: Sequence[int] = ()
    offset: int = 0
    data: int = 0


class Kernel:
    """A kernel that `init` made; for one thread at a time. It ends with this object."""

    def __init__(
        self,
        table: LibraryStruct,
        failure: Failure,
        name: str,
        handle: int | None,
        inputs: Any,
        outputs: Any,
    ) -> None:
        """Takes a kernel over.

        Args:
          table: of the library.
          failure: makes its errors.
          name: of the op.
          handle: of the kernel.
          inputs: structs of the tensors that it was made with.
          outputs: likewise.
        """
        self._table = table
        self._failure = failure
        self._name = name
        self._handle = handle
        self._message = MessageRoom()
        self._inputs = inputs
        self._outputs = outputs
        if table.destroy:
            end = weakref.finalize(self, table.destroy, handle)
            end.atexit = False  # nothing of it outlives the process

    def set_shapes(self, op: CpuOp, config: CpuConfig) -> None:
        """Says that what it runs on is smaller than in `init`, which its configuration allows.

        Args:
          op: with the shapes as they are.
          config: that it was made with.
        """
        _fill(self._inputs, op.inputs, config.inputs)
        _fill(self._outputs, op.outputs, config.outputs)

    def execute(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Runs it.

        Args:
          inputs: addresses; 0 for no bytes, or an input that is left out.
          outputs: likewise.

        Raises:
          LiteRtError: with what the library says.
        """
        for struct, address in zip(self._inputs, inputs, strict=True):
            struct.data = address
        for struct, address in zip(self._outputs, outputs, strict=True):
            struct.data = address
        status = self._table.execute(
            self._handle, self._inputs, self._outputs, self._message.struct
        )
        if status != CallStatus.OK:
            raise self._failure("execute", status, self._message, self._name)


def place_tensors(
    operands: Sequence[CpuOperand | None],
    configs: Sequence[TensorConfig | None],
    places: Sequence[TensorPlace | None],
) -> Any:
    """The library's structs of tensors; those that are left out stay zero."""
    structs = (TensorStruct * len(operands))()
    for struct, operand, config, place in zip(structs, operands, configs, places, strict=True):
        if operand is not None and config is not None and place is not None:
            fill_tensor(struct, operand, config, place.strides, place.offset)
            struct.data = place.data
    return structs


def _fill(
    structs: Any, operands: Sequence[CpuOperand | None], configs: Sequence[TensorConfig | None]
) -> None:
    for struct, operand, config in zip(structs, operands, configs, strict=True):
        if operand is not None and config is not None:
            strides = struct.strides[: struct.memory_rank]
            fill_tensor(struct, operand, config, strides, struct.offset)
