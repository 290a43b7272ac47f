"""Brings partitions into the layout that their vendor asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from compiler_plugin.compiling import Prepare, leave_as_is
from compiler_plugin.outline import model_of
from compiler_plugin.plugin import DataLayout
from litert.model.graph import Model, Subgraph

if TYPE_CHECKING:
    from compiler_plugin.transformations.layout_change.rule import CustomLayout


def layout_preparation(
    layout: DataLayout,
    custom_layouts: Mapping[str, CustomLayout] | None = None,
    then: Callable[[Model, DataLayout], None] = lambda model, layout: None,
) -> Prepare:
    """What partitions go through before `compile`, so that it gets them in this layout.

    Args:
      layout: that the vendor asks for.
      custom_layouts: of the user's ops, by name.
      then: given a model whose only subgraph is the partition, in the new layout.
    """
    if layout == "NHWC":
        return leave_as_is

    def prepare(subgraph: Subgraph) -> str:
        # Here, since most vendors take TFLite's own layout.
        from compiler_plugin.transformations.layout_change.change import change_layout

        model = model_of(subgraph)
        report = change_layout(model, subgraph, layout, custom_layouts)
        then(model, layout)
        return str(report) if report.ops else ""

    return prepare
