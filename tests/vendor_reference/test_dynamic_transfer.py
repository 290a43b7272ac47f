"""The text of the kernel that writes tensors of dynamic shape as they are read."""

from __future__ import annotations

from litert.core.element_type import ElementType
from vendor_reference.compiler.ir.types import tensor_type
from vendor_reference.compiler.transfer_kernels import dynamic_transfer_kernel

_E = ElementType


def test_where_the_order_stays_an_element_is_read_where_it_is_written() -> None:
    source, target = tensor_type(_E.FLOAT32, (2, 3, 4)), tensor_type(_E.INT32, (2, 3, 4))
    text = dynamic_transfer_kernel("Convert", source, target).text
    assert "at = i;" in text and "%" not in text
