"""What a kernel gets where the model has half tensors, and its layer asks for no type.

On a device with fp16 arithmetic they are half in the kernel. Elsewhere a kernel that computes in `INPUT0_TYPE`
would not build with half: there they are float, converted before and after. Nobody knows the device at compile
time. So a partition with such a kernel becomes two functions, and the device chooses when it loads one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from litert.core.element_type import ElementType


class HalfTensors(str, Enum):
    """The values of `--reference_fp16`."""

    DEVICE = "device"
    """Half where the device has fp16 arithmetic, float elsewhere."""
    FLOAT = "float"
    """Float on every device."""
    HALF = "half"
    """Half on every device; one without fp16 arithmetic has `vload_half` for them."""


@dataclass(frozen=True, slots=True)
class HalfPolicy:
    """What half tensors are in which kernels.

    Attributes:
      tensors: as the user wants it.
      half_ops: names of custom ops whose kernels take halves on every device, since they declare `half*`.
    """

    tensors: HalfTensors = HalfTensors.DEVICE
    half_ops: Collection[str] = ()

    def is_half(self, op_name: str, has_fp16: bool) -> bool:
        """Whether a half tensor is half in the kernel of that op, on a device with fp16 arithmetic or without."""
        if self.tensors is HalfTensors.DEVICE:
            return has_fp16 or op_name in self.half_ops
        return self.tensors is HalfTensors.HALF


BY_DEVICE = HalfPolicy()
"""Where nobody says anything else."""


def kernel_type(tensor_type: ElementType, wanted: ElementType | None, is_half: bool) -> ElementType:
    """The type of elements that a kernel gets for a tensor: what its layer wants, or None, then the model's.

    Without `is_half` that is float for half tensors.
    """
    if wanted is not None:
        return wanted
    if tensor_type is ElementType.FLOAT16 and not is_half:
        return ElementType.FLOAT32
    return tensor_type
