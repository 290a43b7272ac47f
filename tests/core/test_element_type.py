"""Tests the conversion of NumPy types to element types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status


@pytest.mark.parametrize("dtype", [np.float32, "float32", np.dtype("<f4"), float, bool])
def test_what_numpy_takes_for_a_type_has_an_element_type(dtype: Any) -> None:
    found = ElementType.from_numpy(dtype)
    assert found.numpy_dtype == np.dtype(dtype)


@pytest.mark.parametrize("dtype", [1, "no_type", object(), np.dtype("M8[s]"), [1, 2]])
def test_what_is_no_type_is_refused(dtype: Any) -> None:
    known = isinstance(dtype, np.dtype)
    problem = (
        "no element type corresponds to the NumPy type dat" if known else " is not a NumPy type"
    )
    with pytest.raises(LiteRtError, match=problem) as error:
        ElementType.from_numpy(dtype)
    assert error.value.status is Status.UNSUPPORTED and "float32" in error.value.hint
