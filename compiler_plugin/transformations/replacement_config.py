"""Reads a file of `--transformations_config`, which describes the sub-graphs to replace.

The Model Optimizer has the same format, so its files need only new node names. A file is a list of descriptions.
Each description has the `id` of a transformation, the way to find the sub-graph (`match_kind`), and
`custom_attributes` for the transformation. The format is published as a JSON Schema,
`replacement_config.schema.json`; a test checks that the schema and this reader agree.

    [{"id": "Decoder", "match_kind": "scope", "instances": ["model/decoder"], "custom_attributes": {"heads": 4}}]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from litert.core.checked_json import JsonNode
from litert.core.codec import (
    BOOLEAN,
    TEXT,
    Codec,
    checked,
    entries,
    enumeration,
    frozen_array,
    integer,
    record,
)
from litert.core.input_file import read_input
from litert.core.status import Status

_LARGEST_PORT = 1 << 16


class MatchKind(Enum):
    """How to find the sub-graph: by scope, or by start and end points; `general` means the whole graph."""

    SCOPE = "scope"
    POINTS = "points"
    GENERAL = "general"


@dataclass(frozen=True, slots=True)
class PortName:
    """A reference to an input or output port of a node in a sub-graph.

    Attributes:
      node: Regular expression for the beginning of the node's name. For a match by scope, the expression applies
        to the part of the name after the scope.
      port: Number of the port.
    """

    node: str
    port: int


@dataclass(frozen=True, slots=True)
class ReplacementDescription:
    """A description of sub-graphs to replace, with the id of the transformation that replaces them.

    Attributes:
      replacement_id: The `replacement_id` of the transformation.
      match_kind: How to find the sub-graphs.
      scopes: For matches by scope, regular expressions for the leading part of node names, up to a `/`.
      start_points, end_points: For matches by points, the names of the first and the last nodes.
      inputs: For each input of the sub-graph, the ports inside the sub-graph that read the input. If the list is
        empty, all tensors from outside are inputs.
      outputs: Ports inside the sub-graph that are its outputs, in order. If the list is empty, all ports that
        outside ops read are outputs.
      includes_start_points, includes_end_points: Whether the sub-graph contains its start points or end points.
      custom_attributes: Attributes for the transformation or the op, as JSON values.
      op: Name of the op that replaces the sub-graphs if no transformation has the id; "" if there is no such op.
      where: File and JSON element that contain the description, for messages.
    """

    replacement_id: str
    match_kind: MatchKind
    scopes: Sequence[str] = ()
    start_points: Sequence[str] = ()
    end_points: Sequence[str] = ()
    inputs: Sequence[Sequence[PortName]] = ()
    outputs: Sequence[PortName] = ()
    includes_start_points: bool = True
    includes_end_points: bool = True
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    op: str = ""
    where: str = ""


def read_replacement_config(path: str) -> list[ReplacementDescription]:
    """Reads the descriptions in a configuration file, in order."""
    root = JsonNode.parse(read_input(path), path, Status.INVALID_ARGUMENT)
    return [_read_description(node) for node in root.items()]


def _read_description(node: JsonNode) -> ReplacementDescription:
    fields = node.fields(("id", "match_kind"), ("instances", *_OPTIONAL))
    kind = enumeration(MatchKind).read(fields["match_kind"])
    if kind is MatchKind.GENERAL:
        for name in fields:
            if name not in ("id", "match_kind", "custom_attributes"):
                raise fields[name].error(
                    "a description with match_kind 'general' cannot have this field",
                    "Remove the field. Only id, match_kind and custom_attributes are allowed.",
                )
    elif "instances" not in fields:
        raise node.error("field 'instances' is missing")
    values = {
        name: codec.read(fields[key]) for key, (name, codec) in _OPTIONAL.items() if key in fields
    }
    if kind is MatchKind.SCOPE:
        values["scopes"] = _SCOPES.read(fields["instances"])
        for name in ("include_inputs_to_sub_graph", "include_outputs_to_sub_graph"):
            if not values.get(_OPTIONAL[name][0], True):
                raise fields[name].error(
                    "a description with match_kind 'scope' has no start or end points, so this field cannot be "
                    "false",
                    "Remove the field.",
                )
    elif kind is MatchKind.POINTS:
        lists = fields["instances"].fields(("start_points", "end_points"))
        values.update({name: _POINTS.read(entry) for name, entry in lists.items()})
    where = f"{node.where}, {node.path}"
    return ReplacementDescription(_NAME.read(fields["id"]), kind, **values, where=where)


def _read_scope(node: JsonNode) -> str:
    scope = _expression(node).rstrip("/")
    if not scope:
        raise node.error(
            "the scope is empty and would match the whole model",
            "Write the common beginning of the ops' names, for example model/decoder.",
        )
    return scope


def _expression(node: JsonNode) -> str:
    text = _NAME.read(node)
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise node.error(
            f"{text!r:.100} is not a valid regular expression: {error}",
            "Put a \\\\ in front of special characters that the name contains.",
        ) from error
    return text


_NAME = checked(TEXT, lambda text: "" if text else "the name is empty")
_POINTS = frozen_array(_NAME, 1)
_SCOPES = frozen_array(Codec(_read_scope), 1)
_PORT = record(PortName, node=Codec(_expression), port=integer(0, _LARGEST_PORT))
_OPTIONAL: Mapping[str, tuple[str, Codec[Any]]] = {
    "inputs": ("inputs", frozen_array(frozen_array(_PORT, 1))),
    "outputs": ("outputs", frozen_array(_PORT)),
    "custom_attributes": ("custom_attributes", entries(Codec(lambda node: node.value))),
    "op": ("op", _NAME),
    "include_inputs_to_sub_graph": ("includes_start_points", BOOLEAN),
    "include_outputs_to_sub_graph": ("includes_end_points", BOOLEAN),
}
"""For each optional field of the file, the attribute that the field sets and the type of its value."""
