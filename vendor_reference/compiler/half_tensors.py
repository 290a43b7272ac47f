"""Chooses the element type in which a kernel gets the model's half tensors if its layer requires no type.

On a device with fp16 arithmetic, the kernel gets half tensors as half. On other devices, a kernel that computes in
`INPUT0_TYPE` could not be built with half. Therefore, the kernel gets half tensors as float, and the tensors are
converted before and after the kernel. The device is not known at compile time. A partition with such a kernel
therefore becomes two functions, and the device chooses one of them when it loads the model.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from litert.core.element_type import ElementType


class HalfTensors(str, Enum):
    """The values of the option `--reference_fp16`."""

    DEVICE = "device"
    """Kernels get half tensors as half on devices with fp16 arithmetic, and as float on other devices."""
    FLOAT = "float"
    """Kernels get half tensors as float on every device."""
    HALF = "half"
    """Kernels get half tensors as half on every device.

    Without fp16 arithmetic, kernels can read half tensors with `vload_half`.
    """


@dataclass(frozen=True, slots=True)
class HalfPolicy:
    """The policy for half tensors in kernels.

    Attributes:
      tensors: Value of `--reference_fp16`.
      half_ops: Names of custom ops whose kernels declare a `half*` argument. These kernels get half tensors as
        half on every device.
    """

    tensors: HalfTensors = HalfTensors.DEVICE
    half_ops: Collection[str] = ()

    def is_half(self, op_name: str, has_fp16: bool) -> bool:
        """Returns whether an op's kernel gets half tensors as half.

        `has_fp16` says whether the device has fp16 arithmetic.
        """
        if self.tensors is HalfTensors.DEVICE:
            return has_fp16 or op_name in self.half_ops
        return self.tensors is HalfTensors.HALF


BY_DEVICE = HalfPolicy()
"""The policy that applies if `--reference_fp16` is not set."""


def kernel_type(tensor_type: ElementType, wanted: ElementType | None, is_half: bool) -> ElementType:
    """Returns the element type in which a kernel gets a tensor.

    If the layer requires a type, the result is this type, `wanted`. If `wanted` is None, the result is the model's
    type, but half becomes float unless `is_half` is true.
    """
    if wanted is not None:
        return wanted
    if tensor_type is ElementType.FLOAT16 and not is_half:
        return ElementType.FLOAT32
    return tensor_type
