"""Reads the mapping file (`--ops_mapping`), which declares custom ops in JSON instead of Python.

    {"version": 1, "ops": [
        {"op": "Upscale", "parameters": "all", "output_shapes": [["B", "INPUT0_SHAPE[1]*2", "X", "F"]]},
        {"op": "Gate", "parameters": "none", "output_shapes": [{"input": 0}], "output_types": ["int8"]}]}

Shapes are given by the same formulas as in descriptions of custom layers. The JSON Schema
`ops_mapping.schema.json` describes the format.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.op import Op, Record, is_builtin
from compiler_plugin.transformations.op_request import refused
from litert.core.checked_json import JsonNode
from litert.core.codec import TEXT, Codec, Renamed, array, named, record
from litert.core.counts import count_text
from litert.core.element_type import ElementType
from litert.core.output_shape import OutputShape, output_sizes, read_output_shape
from litert.core.sizes import Dimension, Size
from litert.core.status import Status
from litert.model.blob import MappedFile

_VERSION = 1
_TYPES = {t.name.lower(): t for t in ElementType if t is not ElementType.NONE}
_MOST_PORTS = 65_535


@dataclass(frozen=True, slots=True)
class MappedOp:
    """The declaration of an op in the mapping file.

    Attributes:
      op: Custom code of the op.
      has_parameters: Whether the options of the op become attributes: either all of them or none.
      output_shapes: Shape of each output, as formulas. An output whose entry is None or missing keeps its shape in
        the model.
      output_types: Type of each output, or the index of an input with the same type. An output whose entry is None
        or missing keeps its type in the model.
      description: Description for readers of the file.
      place: File and JSON element that contain the declaration, for messages.
    """

    op: str
    has_parameters: bool = True
    output_shapes: Sequence[OutputShape | None] = ()
    output_types: Sequence[ElementType | int | None] = ()
    description: str = ""
    place: str = ""


class MappedOpDefinition(Op):
    """The definition of a node whose op is declared in the mapping file."""

    def __init__(self, node: Node, mapped: MappedOp) -> None:
        """Creates `infer` and `type_infer` for a custom op from its declaration."""
        functions = {
            "infer": self._set_shapes if any(mapped.output_shapes) else None,
            "type_infer": self._set_types
            if any(t is not None for t in mapped.output_types)
            else None,
        }
        super().__init__(node.graph, {"op": mapped.op, **functions})
        self._node = node
        self._mapped = mapped

    @property
    def source_file(self) -> str:
        return self._mapped.place

    def backend_attrs(self) -> Sequence[Record]:
        """Returns the names of all parameters of the node; the parameters are also written to the file."""
        return [
            (name, lambda node, name=name: node.custom_attributes()[name])
            for name in self._node.custom_attributes()
        ]

    def _set_shapes(self, node: Node) -> None:
        rules, ports = self._mapped.output_shapes, node.out_ports().values()
        _check_count("output_shapes", len(rules), len(ports))
        inputs = [_sizes(node, index) for index in range(len(node.in_ports()))]
        for port, rule in zip_longest(ports, rules):
            if rule is not None:
                sizes = output_sizes(rule, inputs)
                port.data.set_shape([size if isinstance(size, int) else -1 for size in sizes])
            elif (shape := port.data.get_shape()) is not None:
                port.data.set_shape(shape)

    def _set_types(self, node: Node) -> None:
        types, ports = self._mapped.output_types, node.out_ports().values()
        _check_count("output_types", len(types), len(ports))
        for port, found in zip(ports, types, strict=False):
            if isinstance(found, ElementType):
                port.set_data_type(found)
            elif found is not None:
                if not node.is_in_port_connected(found):
                    raise refused(
                        f"output {port.index} must have the type of input {found}, but {node} has no connected "
                        f"input {found}",
                        "Correct the number of the input in output_types.",
                    )
                port.set_data_type(node.in_port(found).get_data_type())


def read_mapping_file(path: str | os.PathLike[str]) -> Mapping[str, MappedOp]:
    """Returns the declarations in a mapping file, by op name."""
    with MappedFile(path) as file:
        root = JsonNode.parse(file.view, file.path, Status.INVALID_ARGUMENT)
    fields = root.fields(("version", "ops"), ("$schema", "description"))
    fields["version"].integer(_VERSION, _VERSION)
    for name in fields.keys() - {"version", "ops"}:
        fields[name].text()
    found: dict[str, MappedOp] = {}
    for node in fields["ops"].items():
        mapped = replace(_OP.read(node), place=f"{node.where}, {node.path}")
        if mapped.op in found:
            raise node.error(
                f"op '{mapped.op}' is declared twice", "Remove one of the declarations."
            )
        found[mapped.op] = mapped
    return found


def _read_name(node: JsonNode) -> str:
    name = node.text()
    if not name:
        raise node.error("the op's name is empty", "Write the op's custom code.")
    if is_builtin(name):
        raise node.error(
            f"'{name}' is a builtin operator, but only custom ops can be declared",
            f"Remove the declaration of '{name}'.",
        )
    return name


def _read_type(node: JsonNode) -> ElementType | int | None:
    if node.value is None:
        return None
    if isinstance(node.value, str):
        return _TYPES[node.text(_TYPES)]
    return node.fields(("input",))["input"].integer(0, _MOST_PORTS)


_OP = record(
    MappedOp,
    fixed={"place": ""},
    op=Codec(_read_name),
    description=TEXT,
    has_parameters=Renamed("parameters", named({"all": True, "none": False})),
    output_shapes=array(Codec(read_output_shape), 1),
    output_types=array(Codec(_read_type), 1),
)


def _check_count(what: str, count: int, outputs: int) -> None:
    if count > outputs:
        raise refused(
            f"{what} describes {count_text(count, 'output')}, but the op has {count_text(outputs, 'output')}",
            f"Remove the last entries of {what}.",
        )


def _sizes(node: Node, index: int) -> Sequence[Size] | None:
    """Returns the shape of an input, with a `Dimension` for each unknown size; None for an omitted input."""
    if not node.is_in_port_connected(index):
        return None
    shape = node.in_port(index).data.get_shape()
    if shape is None:
        raise refused(
            f"output_shapes needs the shapes of all inputs, but the number of dimensions of input {index} is "
            "known only at run time",
            "Instead of the declaration, write a class for the op with a function `infer`, in the folder `ops` of "
            "your extensions (--extensions).",
        )
    return [Dimension(index, d) if size < 0 else size for d, size in enumerate(shape)]
