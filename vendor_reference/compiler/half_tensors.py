"""`--reference_fp16`: what a kernel gets where the model has half tensors.

Neither the emulated SoCs nor PoCL have fp16 arithmetic: a kernel that computes in `INPUT0_TYPE` would not build
with half. So such tensors are float in kernels, converted before and after; or what they are, where one says so.
"""

from __future__ import annotations

from enum import Enum

from litert.core.element_type import ElementType


class HalfTensors(str, Enum):
    """What half tensors are in kernels that ask for no type."""

    FLOAT = "float"
    HALF = "half"


def kernel_type(
    tensor_type: ElementType, wanted: ElementType | None, half_tensors: HalfTensors
) -> ElementType:
    """The type of elements that a kernel gets for a tensor.

    Args:
      tensor_type: of the model.
      wanted: what the layer asks for; None where it leaves it to the model.
      half_tensors: what halves are where it does.
    """
    if wanted is not None:
        return wanted
    if tensor_type is ElementType.FLOAT16 and half_tensors is HalfTensors.FLOAT:
        return ElementType.FLOAT32
    return tensor_type
