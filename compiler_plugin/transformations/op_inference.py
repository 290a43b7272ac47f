"""Inference by a user's op: its own functions set shapes, values and types of its node's outputs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from compiler_plugin.transformations.extension_call import extension_call
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.tensor_data import as_element_type

if TYPE_CHECKING:
    from compiler_plugin.transformations.node import Node
    from compiler_plugin.transformations.op import Infer, Op


def infer_by_definition(node: Node) -> bool:
    """Lets a user's op set types, shapes and values of a node's outputs.

    Args:
      node: whose inputs have been inferred.

    Returns:
      Whether the op has an `infer`; where it has none nothing is set but types.

    Raises:
      LiteRtError: of the op's functions, with their file; SHAPE_INFERENCE_FAILED for other exceptions of theirs,
        and where an output is left without a shape.
    """
    definition = node.op_definition
    if definition is None:
        return False
    _infer_types(node, definition)
    infer = _function(definition, "infer")
    if infer is None:
        return False
    with _call(definition, "infer", node):
        infer(node)
        for port in node.out_ports():
            if not node.graph.has_rank(port):
                raise LiteRtError(
                    Status.SHAPE_INFERENCE_FAILED,
                    f"no shape was set for {port}",
                    hint="Set it: node.out_port(0).data.set_shape([-1, 8]), with -1 for what a run tells.",
                )
    return True


def _infer_types(node: Node, definition: Op) -> None:
    function = _function(definition, "type_infer") or _infer_default_type
    with _call(definition, "type_infer", node):
        function(node)


def _infer_default_type(node: Node) -> None:
    """Output 0 is of the type that the attribute `data_type` says, else of that of input 0.

    A type that the file says stays, where it was another than that of input 0 there.
    """
    definition = node.op_definition
    if not node.out_ports() or definition is None:
        return
    data_type = node.soft_get("data_type")
    if data_type is not None:
        node.out_port(0).set_data_type(as_element_type(data_type))
    elif definition.keeps_type:
        return
    elif node.is_in_port_connected(0):
        found = node.in_port(0).get_data_type()
        if found is not ElementType.NONE:
            node.out_port(0).set_data_type(found)


def _call(definition: Op, function: str, node: Node) -> AbstractContextManager[None]:
    name = f"{definition.attrs['op']}.{function}"
    return extension_call(name, definition.source_file, node, Status.SHAPE_INFERENCE_FAILED)


def _function(definition: Op, name: str) -> Infer | None:
    """A function that the attributes have, or else the class."""
    found: Infer | None = definition.attrs.get(name) or getattr(definition, name)
    return found
