"""Which input of an op a description means by a constant's name."""

from __future__ import annotations

import re

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Op


def find_data_input(op: Op, name: str) -> int:
    """The constant input of that name: its whole name, else the last part of a converter's path.

    `weights` is `weights`, else the only constant input like `net/layer_1/weights:0`; of several that agree,
    the first of the whole name. A constant behind a DEQUANTIZE has the name of either end.

    Returns:
      The input's index.

    Raises:
      LiteRtError: NOT_FOUND, with the names that there are; INVALID_ARGUMENT, where two fit.
    """
    names: dict[int, list[str]] = {}
    for index, tensor in enumerate(op.inputs):
        if tensor is None:
            continue
        if tensor.is_constant:
            names[index] = [tensor.name]
        elif tensor.producer is not None and tensor.producer.name == "DEQUANTIZE":
            stored = tensor.producer.inputs[0]
            if stored is not None and stored.is_constant:
                names[index] = [tensor.name, stored.name]
    for index, own in names.items():
        if name in own:
            return index
    found = [index for index, own in names.items() if name in map(_last_part, own)]
    if len(found) == 1:
        return found[0]
    has = ", ".join(f"'{own[0]}'" for own in names.values()) or "none"
    if found:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"several constant inputs could be the data '{name}': the op has {has}",
            f"op '{op.name}'",
            "Give the whole name.",
        )
    raise LiteRtError(
        Status.NOT_FOUND,
        f"no constant input is named '{name}', as the layer's data is: the op has {has}",
        f"op '{op.name}'",
        "Give the tensor's name, or its last part.",
    )


def _last_part(name: str) -> str:
    """`weights` of `net/layer/weights:0`."""
    return re.sub(r":\d+$", "", name.rsplit("/", 1)[-1])
