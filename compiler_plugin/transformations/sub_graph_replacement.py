"""Base classes of transformations that are configured by a file from `--transformations_config`."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.extension_folders import (
    ExtensionOrigin,
    LoadedTransformation,
    check_names,
)
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.op import CLASSES, is_builtin
from compiler_plugin.transformations.replacement import Replacement, Replacer, remove_unread
from compiler_plugin.transformations.replacement_config import (
    MatchKind,
    ReplacementDescription,
    read_replacement_config,
)
from compiler_plugin.transformations.sub_graph_match import SubgraphMatch
from compiler_plugin.transformations.sub_graph_search import matching_instances
from compiler_plugin.transformations.transformation import Transformation, snake_case
from litert.core.counts import names_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean

_logger = logging.getLogger(__name__)


class ConfiguredReplacement(Transformation):
    """A transformation with a `replacement_id`; it runs once for each description that has this `id`.

    Attributes:
      match_kinds: Kinds of descriptions that the transformation accepts.
      replacement_id: The `id` of descriptions for this transformation.
      descriptions: Descriptions with this id; `assign_descriptions` sets them.
    """

    match_kinds: ClassVar[Sequence[MatchKind]] = tuple(MatchKind)
    descriptions: Sequence[ReplacementDescription] = ()

    @property
    @abstractmethod
    def replacement_id(self) -> str: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        wanted = cls.__dict__.get("replacement_id", property())
        if not isinstance(wanted, property) and not (isinstance(wanted, str) and wanted):
            raise LiteRtError(
                Status.INVALID_TRANSFORMATION,
                f"replacement_id must be an id, but is {wanted!r:.100}",
                f"class {cls.__name__}",
                "Set replacement_id to an `id` from the file of --transformations_config.",
            )

    def check_description(self, description: ReplacementDescription) -> None:
        """Raises an error if this class does not accept the `match_kind` of a description."""
        if description.match_kind not in self.match_kinds:
            accepted = " or ".join(f"'{kind.value}'" for kind in self.match_kinds)
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the description with id '{description.replacement_id}' has match_kind "
                f"'{description.match_kind.value}', but transformation '{self.name}' accepts only {accepted}",
                description.where,
                f"Set match_kind to {accepted} in the description.",
            )

    def find_unmatched(self) -> list[str]:
        """Returns sentences for the report if no description has this id."""
        if self.descriptions:
            return []
        return [
            f"transformation '{self.name}' has no effect: no description in a file of --transformations_config "
            f"has the id '{self.replacement_id}'"
        ]


class SubgraphReplacement(ConfiguredReplacement):
    """Replaces sub-graphs that a configuration file describes.

    A description in the file gives a common prefix of the ops' names, or the first and last ops of the sub-graph.
    """

    match_kinds = (MatchKind.SCOPE, MatchKind.POINTS)
    _matched: frozenset[tuple[str, str]] = frozenset()

    def replace_sub_graph(self, graph: Graph, match: SubgraphMatch) -> Replacement:
        """Returns the replacement of a sub-graph.

        The default implementation creates an op; the entry `op` of the description contains the op's name. The op
        can be a user-defined op, a builtin operator of TFLite, or any custom op. The new op gets the custom
        attributes in the description, and the inputs and outputs of the sub-graph.

        Args:
          graph: Graph to change.
          match: Sub-graph to replace.

        Returns:
          A node with the same outputs as the match, in the same order; an output port, if the match has only one
          output; or a list with a port or node for each output. If the sub-graph stays unchanged, or the function
          has already reconnected the readers, it returns None.
        """
        if not match.description.op:
            raise match.error(
                f"class {type(self).__name__} does not define the function replace_sub_graph, and the description "
                "of the sub-graph has no field 'op'",
                "Define the function in the class, or add the field to the description.",
            )
        return _create_op(graph, match)

    def nodes_to_remove(self, graph: Graph, match: SubgraphMatch) -> Sequence[Node | str]:
        """Returns the ops to remove after a replacement, as nodes or ids; by default, all matched ops.

        Returned ops that still have readers are not removed.
        """
        return match.nodes

    def find_and_replace_pattern(self, graph: Graph) -> int:
        """Replaces all sub-graphs that match the descriptions."""
        count = 0
        for description in self.descriptions:
            for match in matching_instances(graph, description):
                self._matched |= {(description.where, match.instance)}
                count += self._replace(graph, match)
        return count

    def find_unmatched(self) -> list[str]:
        """Returns sentences for the report: one sentence for each description that has matched no ops so far.

        If a description has scopes, which are regular expressions for prefixes of op names, there is a sentence
        for each scope without a match.
        """
        return super().find_unmatched() or [
            f"{d.where}: no op of the model is {f'in scope {scope!r}' if scope else 'between the points'}"
            for d in self.descriptions
            for scope in d.scopes or [""]
            if (d.where, scope) not in self._matched
        ]

    def _replace(self, graph: Graph, match: SubgraphMatch) -> bool:
        names = map(_names, (match.inputs, match.outputs))
        _logger.info("%s matches %s, with inputs %s and outputs %s", self.name, match, *names)
        edits, created = graph.edit_count, graph.creation_count
        going = [graph.as_node(node) for node in self.nodes_to_remove(graph, match)]
        replacement = self.replace_sub_graph(graph, match)
        if replacement is None and graph.edit_count == edits:
            return False
        if replacement is not None:
            Replacer(graph, self.name).replace(match.outputs, replacement, created)
        places = {node: place for place, node in enumerate(match.nodes)}
        going.sort(key=lambda node: places.get(node, -1), reverse=True)
        remove_unread(graph, going)
        return True


class OpForSubgraph(SubgraphReplacement):
    """Replaces each sub-graph that matches a description by the `op` in this description."""

    def __init__(self, replacement_id: str) -> None:
        """Creates the transformation for a description that has an `op` and an id of no other transformation."""
        self._replacement_id = replacement_id

    @property
    def name(self) -> str:
        return snake_case(self._replacement_id)

    @property
    def replacement_id(self) -> str:
        return self._replacement_id


class GeneralReplacement(ConfiguredReplacement):
    """A transformation of the whole graph, with parameters from a configuration file.

    The file is a list of descriptions. A description gives the id of a transformation; the entry
    `custom_attributes` contains the parameters of this transformation.
    """

    match_kinds = (MatchKind.GENERAL,)

    @abstractmethod
    def transform_graph(self, graph: Graph, descriptions: Mapping[str, Any]) -> int | None:
        """Changes one subgraph of the model.

        Args:
          graph: Graph to change.
          descriptions: The parameters of the transformation: the entry `custom_attributes` of one description in
            the configuration file.

        Returns:
          Number of matches. None means one match if the graph has changed, and no match otherwise.
        """

    def find_and_replace_pattern(self, graph: Graph) -> int:
        """Calls `transform_graph` once for each description with this transformation's id in the configuration."""
        count = 0
        for description in self.descriptions:
            edits = graph.edit_count
            done = self.transform_graph(graph, dict(description.custom_attributes))
            count += graph.edit_count != edits if done is None else done
        return count


def assign_descriptions(
    transformations: Iterable[Transformation], descriptions: Sequence[ReplacementDescription]
) -> list[OpForSubgraph]:
    """Assigns each description to the transformation that has its id.

    Returns:
      New front-phase transformations. They are for descriptions that have an `op` and an id that no given
      transformation has.

    Raises:
      LiteRtError: NOT_FOUND, if no transformation has the id of a description and the description has no `op`;
        INVALID_ARGUMENT, if the transformation does not accept the `match_kind` of its description.
    """
    by_id: dict[str, list[ConfiguredReplacement]] = {}
    for transformation in transformations:
        if isinstance(transformation, ConfiguredReplacement):
            by_id.setdefault(transformation.replacement_id, []).append(transformation)
            transformation.descriptions = ()
    made: list[OpForSubgraph] = []
    for description in descriptions:
        name = description.replacement_id
        if name not in by_id:
            if not description.op:
                raise _unknown_id(description, list(by_id))
            made.append(OpForSubgraph(name))
            by_id[name] = [made[-1]]
        for transformation in by_id[name]:
            transformation.check_description(description)
            transformation.descriptions = (*transformation.descriptions, description)
    return made


def _names(ports: Sequence[OutPort]) -> str:
    return ", ".join(f"'{port.name}'" for port in ports) or "none"


def _create_op(graph: Graph, match: SubgraphMatch) -> Node:
    """Creates the `op` in a description: a user-defined op, a builtin op, or a custom op without a class."""
    name, attributes = match.description.op, match.custom_attributes
    cls = CLASSES.get({}).get(name)
    if cls is not None:
        attributes = {**attributes, "out_ports_count": len(match.outputs)}
        return cls(graph, attributes).create_node(match.inputs)
    return graph.create_op(
        name, match.inputs, attributes, outputs=len(match.outputs), is_custom=not is_builtin(name)
    )


def _unknown_id(description: ReplacementDescription, known: Sequence[str]) -> LiteRtError:
    meant = did_you_mean(description.replacement_id, known)
    meant = meant or f"{names_text('known id', known)}."
    if description.match_kind is MatchKind.GENERAL:
        hint = (
            f"{meant} Write a transformation with this replacement_id, or remove the description."
        )
    else:
        hint = f"{meant} If you have no transformation for the description, add the field 'op' to the description."
    return LiteRtError(
        Status.NOT_FOUND,
        f"no transformation has the replacement_id '{description.replacement_id}'",
        description.where,
        hint,
    )


def configure_replacements(
    loaded: Sequence[LoadedTransformation], paths: Sequence[str]
) -> list[LoadedTransformation]:
    """Assigns the descriptions in all files; raises ALREADY_EXISTS if an id is another transformation's name."""
    files = [(path, read_replacement_config(path)) for path in paths]
    descriptions = [description for _, found in files for description in found]
    made = assign_descriptions((item.transformation for item in loaded), descriptions)
    further = []
    for transformation in made:
        path = next(p for p, found in files if transformation.descriptions[0] in found)
        origin = ExtensionOrigin(Phase.FRONT, path, path, is_builtin=False)
        further.append(LoadedTransformation(transformation, origin))
    check_names([*loaded, *further])
    return further


def find_unmatched(loaded: Sequence[LoadedTransformation]) -> list[str]:
    """Returns the report's sentences about descriptions that have matched nothing so far."""
    return [
        sentence
        for item in loaded
        if isinstance(item.transformation, ConfiguredReplacement)
        for sentence in item.transformation.find_unmatched()
    ]
