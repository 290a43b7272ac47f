"""Tests which buffers meet a vendor's memory requirements for a tensor."""

from __future__ import annotations

import pytest

from dispatch.requirements import refuse_misfit
from dispatch.tensor_buffer import TensorBuffer, TensorBufferRequirements
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.tensor_type import RankedTensorType

SIZED = [element_type for element_type in ElementType if element_type.bits]


@pytest.mark.parametrize("element_type", SIZED, ids=lambda kind: kind.name)
def test_strides_count_elements_of_any_size(element_type: ElementType) -> None:
    rows = RankedTensorType.of(element_type, (2, 1, 3))
    buffer = TensorBuffer.allocate(rows)
    # The stride of a dimension of size 1 does not matter.
    for strides in ((3, 3, 1), (3, 99, 1), ()):
        wanted = TensorBufferRequirements(rows.size_bytes, strides=strides)
        refuse_misfit(buffer, wanted, rows, "")
    for strides in ((4, 3, 1), (12, 12, 4), (3, 3, 2), (0, 0, 0)):
        wanted = TensorBufferRequirements(rows.size_bytes, strides=strides)
        with pytest.raises(LiteRtError, match="row-major order, but strides of"):
            refuse_misfit(buffer, wanted, rows, "")
