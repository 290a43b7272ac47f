"""Brings configuration files and loaded transformations together."""

from __future__ import annotations

from collections.abc import Sequence

from compiler_plugin.transformations.extensions import LoadedTransformation, Origin, check_names
from compiler_plugin.transformations.phase import Phase
from compiler_plugin.transformations.replacement_config import read_replacement_config
from compiler_plugin.transformations.sub_graph_replacement import (
    ConfiguredReplacement,
    assign_descriptions,
)


def configure_replacements(
    loaded: Sequence[LoadedTransformation], paths: Sequence[str]
) -> list[LoadedTransformation]:
    """Gives transformations what the files say under their ids.

    Args:
      loaded: all transformations there are.
      paths: of the configuration files.

    Returns:
      Further transformations, of the front phase: for ids that none has, and whose descriptions name an op.

    Raises:
      LiteRtError: of a file that cannot be read; NOT_FOUND, for an id that no transformation has; ALREADY_EXISTS,
        for an id that is another transformation's name.
    """
    files = [(path, read_replacement_config(path)) for path in paths]
    descriptions = [description for _, found in files for description in found]
    made = assign_descriptions((item.transformation for item in loaded), descriptions)
    further = []
    for transformation in made:
        path = next(p for p, found in files if transformation.descriptions[0] in found)
        origin = Origin(Phase.FRONT, path, path, is_builtin=False)
        further.append(LoadedTransformation(transformation, origin))
    check_names([*loaded, *further])
    return further


def find_unmatched(loaded: Sequence[LoadedTransformation]) -> list[str]:
    """What the files describe and no graph so far has had, in sentences."""
    return [
        sentence
        for item in loaded
        if isinstance(item.transformation, ConfiguredReplacement)
        for sentence in item.transformation.find_unmatched()
    ]
