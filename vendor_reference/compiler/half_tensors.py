"""Decides what a kernel gets for the model's half tensors if its layer asks for no type.

On a device with fp16 arithmetic, half tensors are half in the kernel. On other devices, a kernel
that computes in `INPUT0_TYPE` would not build with half: there they are float, converted before and
after the kernel. The device is not known at compile time. So a partition with such a kernel becomes
two functions, and the device chooses one at load.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from litert.core.element_type import ElementType


class HalfTensors(str, Enum):
    """The values of `--reference_fp16`."""

    DEVICE = "device"
    """Half on devices with fp16 arithmetic, float on other devices."""
    FLOAT = "float"
    """Float on every device."""
    HALF = "half"
    """Half on every device; devices without fp16 arithmetic have `vload_half` for them."""


@dataclass(frozen=True, slots=True)
class HalfPolicy:
    """The policy for half tensors in kernels.

    Attributes:
      tensors: The user's choice.
      half_ops: Names of custom ops whose kernels declare `half*`, and so get halves on every
        device.
    """

    tensors: HalfTensors = HalfTensors.DEVICE
    half_ops: Collection[str] = ()

    def is_half(self, op_name: str, has_fp16: bool) -> bool:
        """Returns whether an op's kernel gets half tensors as half, on a device with or without fp16."""
        if self.tensors is HalfTensors.DEVICE:
            return has_fp16 or op_name in self.half_ops
        return self.tensors is HalfTensors.HALF


BY_DEVICE = HalfPolicy()
"""The policy if the user makes no choice."""


def kernel_type(tensor_type: ElementType, wanted: ElementType | None, is_half: bool) -> ElementType:
    """Returns the element type that a kernel gets for a tensor.

    The layer's choice, or the model's type if that is None.

    Without `is_half`, the model's half tensors are float.
    """
    if wanted is not None:
        return wanted
    if tensor_type is ElementType.FLOAT16 and not is_half:
        return ElementType.FLOAT32
    return tensor_type
