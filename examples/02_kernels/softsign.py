"""Softsign in NumPy: `litert-npu layer run` compares the results of the kernel with this function's results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def softsign(inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Computes `alpha * x / (1 + |x|)`."""
    (x,) = inputs
    return options["alpha"] * x / (1 + np.abs(x))
