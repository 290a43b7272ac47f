"""What Softsign computes: `litert-npu layer run` compares the kernel with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def softsign(inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Computes `alpha * x / (1 + |x|)`."""
    (x,) = inputs
    return options["alpha"] * x / (1 + np.abs(x))
