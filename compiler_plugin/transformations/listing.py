"""Which transformations there are, for people who choose among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler_plugin.transformations.extensions import load_extensions
from compiler_plugin.transformations.phase import Phase
from compiler_plugin.transformations.selection import check_rules
from compiler_plugin.transformations.transformation_order import order_transformations


@dataclass(frozen=True, slots=True)
class TransformationInfo:
    """What `--list_transformations` says of one.

    Attributes:
      name: as `--transformations` has it.
      phase: `front`, `middle` or `back`.
      enabled: whether `all` is this one too.
      description: a sentence.
      path: of its file; "" for one of ours.
    """

    name: str
    phase: str
    enabled: bool
    description: str
    path: str = ""


def describe_transformations(
    folders: Sequence[str] = (),
) -> tuple[list[TransformationInfo], Sequence[str]]:
    """All transformations, ours and those of folders, phase by phase in the order in which they run.

    Returns:
      The transformations, and what of the folders was left alone, in sentences.

    Raises:
      LiteRtError: of extensions that cannot be loaded, and rules that name nothing or contradict each other.
    """
    extensions = load_extensions(folders)
    loaded = {item.name: item for item in extensions.transformations}
    check_rules(extensions.transformations)
    infos: list[TransformationInfo] = []
    for phase in Phase:
        of_phase = [item.transformation for item in loaded.values() if item.phase is phase]
        for transformation in order_transformations(of_phase):
            origin = loaded[transformation.name].origin
            infos.append(
                TransformationInfo(
                    transformation.name,
                    phase.value,
                    transformation.enabled,
                    transformation.description,
                    "" if origin.is_builtin else origin.path,
                )
            )
    return infos, extensions.notes
