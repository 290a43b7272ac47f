"""Reads a file that says which sub-graphs to replace: `--transformations_config=FILE`.

The format is the Model Optimizer's, so that its files need new names of nodes and nothing else: a list of
descriptions, each with the `id` of a transformation, how the sub-graph is found (`match_kind`), and
`custom_attributes` for the transformation. It is published as a JSON Schema,
`replacement_config.schema.json`; a test keeps schema and reader together.

    [{"id": "Decoder", "match_kind": "scope", "instances": ["model/decoder"], "custom_attributes": {"heads": 4}}]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from litert.core.checked_json import JsonNode
from litert.core.errors import LiteRtError
from litert.core.status import Status

_LARGEST_PORT = 1 << 16


class MatchKind(Enum):
    """How a sub-graph is found."""

    SCOPE = "scope"
    POINTS = "points"
    GENERAL = "general"


@dataclass(frozen=True, slots=True)
class PortName:
    """A port of a node in a sub-graph.

    Attributes:
      node: a regular expression for the node's name, from the start of what comes behind the scope; from the
        start of the whole name where the sub-graph is given by points.
      port: its number.
    """

    node: str
    port: int


@dataclass(frozen=True, slots=True)
class ReplacementDescription:
    """What is to be replaced, and for which transformation.

    Attributes:
      replacement_id: of the transformation.
      match_kind: how the sub-graph is found.
      scopes: by scope: regular expressions for the leading part of a name, up to a `/`.
      start_points, end_points: by points: names of nodes.
      inputs: for each input of the sub-graph the ports inside that read it; empty for all that come from outside.
      outputs: the ports that are read outside, in the order of the outputs; empty for all of them.
      includes_start_points, includes_end_points: whether the sub-graph has the points themselves.
      custom_attributes: for the transformation, as JSON has them.
      op: the op that takes the place of the sub-graph, for a description that needs no transformation; else "".
      where: the file and the element in it, for messages.
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
    """The descriptions in a file, in their order.

    Raises:
      LiteRtError: FILE_IO, for a file that cannot be read; INVALID_ARGUMENT, for what is none of this format, with
        the element and what was expected.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise LiteRtError(
            Status.FILE_IO, f"cannot read it: {error.strerror}", path, "Name a JSON file."
        ) from error
    root = JsonNode.parse(data, path, Status.INVALID_ARGUMENT)
    return [_read_description(node) for node in root.items()]


def _read_description(node: JsonNode) -> ReplacementDescription:
    known = (
        "instances", "inputs", "outputs", "custom_attributes", "op",
        "include_inputs_to_sub_graph", "include_outputs_to_sub_graph",
    )  # fmt: skip
    fields = node.fields(("id", "match_kind"), known)
    kind = MatchKind(fields["match_kind"].text([kind.value for kind in MatchKind]))
    if kind is MatchKind.GENERAL:
        for name in fields:
            if name not in ("id", "match_kind", "custom_attributes"):
                raise fields[name].error("a general description has custom_attributes only")
    elif "instances" not in fields:
        raise node.error("field 'instances' is missing")
    scopes: list[str] = []
    points: dict[str, list[str]] = {}
    if kind is MatchKind.SCOPE:
        scopes = [_read_scope(entry) for entry in fields["instances"].items(1)]
        for name in ("include_inputs_to_sub_graph", "include_outputs_to_sub_graph"):
            if name in fields and not fields[name].boolean():
                raise fields[name].error("a scope has no points to leave out")
    elif kind is MatchKind.POINTS:
        lists = fields["instances"].fields(("start_points", "end_points"))
        points = {name: [_name(e) for e in entry.items(1)] for name, entry in lists.items()}
    attributes = fields["custom_attributes"].entries() if "custom_attributes" in fields else {}
    inputs = fields["inputs"].items() if "inputs" in fields else []
    return ReplacementDescription(
        replacement_id=_name(fields["id"]),
        match_kind=kind,
        scopes=tuple(scopes),
        start_points=tuple(points.get("start_points", ())),
        end_points=tuple(points.get("end_points", ())),
        inputs=tuple(tuple(_read_port(port) for port in group.items(1)) for group in inputs),
        outputs=tuple(
            _read_port(port) for port in (fields["outputs"].items() if "outputs" in fields else ())
        ),
        includes_start_points=_flag(fields, "include_inputs_to_sub_graph"),
        includes_end_points=_flag(fields, "include_outputs_to_sub_graph"),
        custom_attributes={name: entry.value for name, entry in attributes.items()},
        op=_name(fields["op"]) if "op" in fields else "",
        where=f"{node.where}, {node.path}",
    )


def _read_scope(node: JsonNode) -> str:
    scope = _expression(node).rstrip("/")
    if not scope:
        raise node.error("an empty scope has the whole model")
    return scope


def _read_port(node: JsonNode) -> PortName:
    fields = node.fields(("node", "port"))
    return PortName(_expression(fields["node"]), fields["port"].integer(0, _LARGEST_PORT))


def _expression(node: JsonNode) -> str:
    text = _name(node)
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise node.error(
            f"{text!r:.100} is no regular expression: {error}",
            "Put a \\\\ in front of a character that stands for itself.",
        ) from error
    return text


def _name(node: JsonNode) -> str:
    text = node.text()
    if not text:
        raise node.error("an empty text names nothing")
    return text


def _flag(fields: Mapping[str, JsonNode], name: str) -> bool:
    return name not in fields or fields[name].boolean()
