"""Option groups of stock's vendors as flags of `apply_plugin`, for a model that is compiled when it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Any

from litert.abi.vendor_flags import FLAGS_OF_FIELDS


def group_flags(group: str, options: Any) -> dict[str, str]:
    """What is set in a group.

    Args:
      group: its name, which flags begin with: `intel_openvino`.
      options: a data class of `ai_edge_litert.options`.

    Returns:
      Values as text, by the flags' names.
    """
    defaults = type(options)()
    found = {}
    for member in fields(options):
        value = getattr(options, member.name)
        if value != getattr(defaults, member.name):
            name = f"{group}_{member.name}"
            found[FLAGS_OF_FIELDS.get(name, name)] = _text(value)
    return found


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, str | int):
        return str(value)
    return ",".join(map(str, value))
