"""Brings partitions into the layout that their vendor asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from compiler_plugin.compiling import Prepare, leave_as_is
from compiler_plugin.outline import model_of
from compiler_plugin.plugin import DataLayout
from litert.model.graph import Subgraph

if TYPE_CHECKING:
    from compiler_plugin.transformations.layout_change.custom import CustomLayout


def layout_preparation(
    layout: DataLayout, custom_layouts: Mapping[str, CustomLayout] | None = None
) -> Prepare:
    """What partitions go through before `compile`, so that it gets them in this layout.

    Args:
      layout: that the vendor asks for.
      custom_layouts: of the user's ops, by name.
    """
    if layout == "NHWC":
        return leave_as_is

    def prepare(subgraph: Subgraph) -> str:
        # Here, since most vendors take TFLite's own layout.
        from compiler_plugin.transformations.layout_change.change import change_layout

        report = change_layout(model_of(subgraph), subgraph, layout, custom_layouts)
        return str(report) if report.ops else ""

    return prepare
