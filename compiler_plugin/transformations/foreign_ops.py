"""Infers the outputs of ops that stock LiteRT cannot infer, by their `infer` or from the types in the file.

The functions of a user-defined op set the shapes, values and types of its outputs. An op without such functions
keeps the output types that it has in the file, as long as the types of its inputs do not change; a new op takes
the types of the op that it replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

from compiler_plugin.transformations.extension_call import extension_call
from compiler_plugin.transformations.inferred_graph import InferredGraph
from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.op import Infer
from compiler_plugin.transformations.op_request import refused
from compiler_plugin.transformations.shape_probe import ShapeProbe, has_unknown
from compiler_plugin.transformations.stock_region import Shape
from litert.core.counts import count_text
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Op, Tensor

TensorType: TypeAlias = "tuple[Shape, Shape, ElementType]"


def input_types(op: Op) -> list[TensorType | None]:
    """Returns the type of each input of an op, as `tensor_type` does."""
    return [None if tensor is None else tensor_type(tensor) for tensor in op.inputs]


def check_input_types(node: Node, before: Sequence[TensorType | None], is_static: bool) -> None:
    """Refuses an op that cannot be inferred if its input types differ from the types in the file.

    In a graph with static shapes, unknown dimensions have the interpreter's initial sizes.
    """
    count = len(node.input_tensors)
    if len(before) != count:
        raise _unknown_op(
            node, f"the op has {count_text(count, 'input')}", count_text(len(before), "input")
        )
    for index, (old, tensor) in enumerate(zip(before, node.input_tensors, strict=True)):
        new = None if tensor is None else tensor_type(tensor)
        static = None if old is None else (old[0], old[0], old[2])
        if new != old and not (is_static and new == static):
            raise _unknown_op(node, f"input {index} is {_type_text(new)}", _type_text(old))


def try_sizes(
    graph: InferredGraph, node: Node, probes: Iterable[ShapeProbe]
) -> dict[ShapeProbe, list[Shape | None]]:
    """Calls the `infer` of a user-defined op with trial sizes for unknown dimensions; returns output shapes.

    The returned dictionary is empty if the op's inputs have no unknown dimension, or the op has no `infer`.
    """
    tensors = [t for t in node.input_tensors if t is not None and has_unknown(t)]
    inputs = {t: (t.shape, t.shape_signature) for t in tensors}
    if not inputs or find_infer(node) is None:
        return {}
    tried: dict[ShapeProbe, list[Shape | None]] = {}
    for probe in probes:
        shapes: list[Shape | None] = [None] * len(node.output_tensors)
        try:
            for tensor in inputs:
                tensor.shape = probe.find_shape(tensor) or tensor.shape
                tensor.shape_signature = None
            infer_by_definition(graph, node)
            shapes = [None if has_unknown(t) else t.shape for t in node.output_tensors]
        except LiteRtError:
            pass  # `infer` refuses this size; an error for all sizes is raised later
        finally:
            for tensor, before in inputs.items():
                tensor.shape, tensor.shape_signature = before
        tried[probe] = shapes
    return tried


def tensor_type(tensor: Tensor) -> TensorType:
    """Returns a tensor's shape, its shape signature (-1 for unknown dimensions), and its element type."""
    return tensor.shape, tensor.shape_signature or tensor.shape, tensor.element_type


def _type_text(known: TensorType | None) -> str:
    return "an omitted input" if known is None else f"{known[2].name} {list(known[1])}"


def _unknown_op(node: Node, new: str, old: str) -> LiteRtError:
    hint = f"Keep the number of inputs, and the types and shapes of the inputs, of {node}."
    if node.is_custom:
        hint = (
            f"Write a class for the op {node.op} with a function `infer`, in the folder `ops` of your extensions "
            "(--extensions). Alternatively, declare the op's shapes in a mapping file (--ops_mapping)."
        )
    return refused(
        f"the output shapes of {node} are not known: {new}, but the model file contains the output shapes only "
        f"for {old}",
        hint,
    )


def find_infer(node: Node, name: str = "infer") -> Infer | None:
    """Returns the node's function `name` (`infer` or `type_infer`), or else that function of its op class."""
    found = node.soft_get(name)
    if callable(found):
        function: Infer = found
        return function
    definition = node.op_definition
    if definition is None:
        return None
    return definition.attrs.get(name) or getattr(definition, name, None)


def infer_by_definition(graph: InferredGraph, node: Node) -> bool:
    """Calls `infer` and `type_infer` of a user-defined op; without `infer`, only types are set.

    Returns:
      Whether the op has an `infer`.

    Raises:
      LiteRtError: The errors of the op's functions, with the file of the function; SHAPE_INFERENCE_FAILED, if a
        function raises another exception, or sets no shape for an output.
    """
    infer, type_infer = find_infer(node), find_infer(node, "type_infer")
    if infer is None and type_infer is None and node.op_definition is None:
        return False
    with _call(node, "type_infer", type_infer):
        (type_infer or _infer_default_types)(node)
    if infer is None:
        return False
    graph.forget_values(node)
    graph.expect_shapes(node)
    with _call(node, "infer", infer):
        infer(node)
        for port in node.out_ports().values():
            if graph.is_unset(port):
                raise LiteRtError(
                    Status.SHAPE_INFERENCE_FAILED,
                    f"the function infer has not set the shape of {port}",
                    hint=(
                        f"In infer, call node.out_port({port.index}).data.set_shape(shape). For a dimension that "
                        "is known only at run time, the shape may contain -1."
                    ),
                )
    return True


def _infer_default_types(node: Node) -> None:
    """Sets output types from the attribute `data_type`, or else the type of output 0 from input 0.

    Output 0 keeps a type in the model that differs from input 0; other outputs keep their types.
    """
    definition, data_type = node.op_definition, node.soft_get("data_type")
    for port in node.out_ports().values():
        is_open = port.index == 0 and not (definition is not None and definition.keeps_type)
        is_open |= port.tensor.element_type is ElementType.NONE
        if data_type is not None:
            port.set_data_type(data_type)
        elif is_open and node.is_in_port_connected(0):
            port.set_data_type(node.in_port(0).get_data_type())


def _call(node: Node, name: str, function: Infer | None) -> AbstractContextManager[None]:
    definition = node.op_definition
    code = getattr(function, "__code__", None)
    file = code.co_filename if code is not None else ""
    if definition is not None and not callable(node.soft_get(name)):
        file = definition.source_file
    return extension_call(f"{node.op}.{name}", file, node, Status.SHAPE_INFERENCE_FAILED)
