"""Whose an option is: a vendor's options begin with its name, as in `reference_ops`."""

from __future__ import annotations

from collections.abc import Mapping

from litert.host.stock_vendors import plain_name


def is_option_of(manufacturer: str, option: str) -> bool:
    """Whether an option is a manufacturer's: `intel_openvino_graph_backends` is IntelOpenVINO's."""
    prefix, name = plain_name(manufacturer), plain_name(option)
    return name.startswith(prefix) and name != prefix


def options_of(manufacturer: str, options: Mapping[str, str]) -> dict[str, str]:
    """A manufacturer's among the options of several."""
    return {n: value for n, value in options.items() if is_option_of(manufacturer, n)}
