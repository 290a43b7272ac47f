"""Inference by a user's op: its own functions set shapes, values and types of its node's outputs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from compiler_plugin.transformations.extension_call import extension_call
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status

if TYPE_CHECKING:
    from compiler_plugin.transformations.node import Node
    from compiler_plugin.transformations.op import Infer


def find_infer(node: Node, name: str = "infer") -> Infer | None:
    """A function that says shapes (`infer`) or types (`type_infer`) of a node: its attribute, else its op's."""
    found = node.soft_get(name)
    if callable(found):
        function: Infer = found
        return function
    definition = node.op_definition
    if definition is None:
        return None
    return definition.attrs.get(name) or getattr(definition, name, None)


def infer_by_definition(node: Node) -> bool:
    """Lets a user's op set types, shapes and values of a node's outputs.

    Args:
      node: whose inputs have been inferred.

    Returns:
      Whether there is an `infer`; where there is none nothing is set but types.

    Raises:
      LiteRtError: of the op's functions, with their file; SHAPE_INFERENCE_FAILED for other exceptions of theirs,
        and where an output is left without a shape.
    """
    infer, type_infer = find_infer(node), find_infer(node, "type_infer")
    if infer is None and type_infer is None and node.op_definition is None:
        return False
    with _call(node, "type_infer", type_infer):
        (type_infer or _infer_default_types)(node)
    if infer is None:
        return False
    node.graph.data.forget_values(node)
    node.graph.data.expect_shapes(node)
    with _call(node, "infer", infer):
        infer(node)
        for port in node.out_ports():
            if node.graph.data.is_unset(port):
                raise LiteRtError(
                    Status.SHAPE_INFERENCE_FAILED,
                    f"no shape was set for {port}",
                    hint="Set it: node.out_port(0).data.set_shape([-1, 8]), with -1 for what a run tells.",
                )
    return True


def _infer_default_types(node: Node) -> None:
    """Outputs are of the type that the attribute `data_type` says, else of that of input 0.

    Of output 0 that holds unless the model says another type than that of input 0; others keep what they have.
    """
    definition, data_type = node.op_definition, node.soft_get("data_type")
    for port in node.out_ports():
        is_open = port.index == 0 and not (definition is not None and definition.keeps_type)
        if port.tensor.element_type is ElementType.NONE or is_open or data_type is not None:
            if data_type is not None:
                port.set_data_type(data_type)
            elif node.is_in_port_connected(0):
                port.set_data_type(node.in_port(0).get_data_type())


def _call(node: Node, name: str, function: Infer | None) -> AbstractContextManager[None]:
    definition = node.op_definition
    code = getattr(function, "__code__", None)
    file = code.co_filename if code is not None else ""
    if definition is not None and not callable(node.soft_get(name)):
        file = definition.source_file
    return extension_call(f"{node.op}.{name}", file, node, Status.SHAPE_INFERENCE_FAILED)
