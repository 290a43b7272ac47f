"""Reads a configuration file that lists the sub-graphs to replace: `--transformations_config=FILE`.

The format is that of the Model Optimizer, whose files therefore only need new node names. A file is a list of
descriptions. Each description has the `id` of a transformation, the way to find the sub-graph (`match_kind`), and
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
    """Way to find the sub-graph: by scope or by points; `general` for the whole graph."""

    SCOPE = "scope"
    POINTS = "points"
    GENERAL = "general"


@dataclass(frozen=True, slots=True)
class PortName:
    """Names an input or output port of a node in a sub-graph.

    Attributes:
      node: Regular expression for the start of the node's name: of the part behind the scope, or of the whole name
        if the sub-graph is given by points.
      port: Number of the port.
    """

    node: str
    port: int


@dataclass(frozen=True, slots=True)
class ReplacementDescription:
    """Describes sub-graphs to replace, and names the transformation that replaces them.

    Attributes:
      replacement_id: The `replacement_id` of the transformation.
      match_kind: Way to find the sub-graph.
      scopes: Regular expressions for the leading part of a node's name, up to a `/`; only for matches by scope.
      start_points, end_points: Names of the first and last nodes; only for matches by points.
      inputs: For each input of the sub-graph, the ports inside that read this input. If empty, all tensors from
        outside are inputs.
      outputs: Ports inside the sub-graph that are its outputs, in order. If empty, all ports that outside ops read
        are outputs.
      includes_start_points, includes_end_points: Whether the sub-graph contains its start points or end points.
      custom_attributes: Attributes for the transformation, as JSON values.
      op: Name of the op that replaces the sub-graph if no transformation does; "" otherwise.
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
                    "a description with match_kind 'general' can only have custom_attributes"
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
                    "a description by scope has no start or end points to leave out"
                )
    elif kind is MatchKind.POINTS:
        lists = fields["instances"].fields(("start_points", "end_points"))
        values.update({name: _POINTS.read(entry) for name, entry in lists.items()})
    where = f"{node.where}, {node.path}"
    return ReplacementDescription(_NAME.read(fields["id"]), kind, **values, where=where)


def _read_scope(node: JsonNode) -> str:
    scope = _expression(node).rstrip("/")
    if not scope:
        raise node.error("the scope is empty and would match the whole model")
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


_NAME = checked(TEXT, lambda text: "" if text else "the text is empty, but a name is needed")
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
"""Optional fields of the file: the attribute that each one sets, and the type of its value."""
