"""Selects the transformations that run (`--transformations`) and sorts them into execution order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.extension_folders import (
    ALL,
    RESERVED,
    LoadedTransformation,
    load_extensions,
)
from compiler_plugin.transformations.transformation import (
    find_rules,
    order_transformations,
    snake_case,
)
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean

_PLACE = {phase: place for place, phase in enumerate(Phase)}


def plan_transformations(
    loaded: Sequence[LoadedTransformation], selection: Sequence[str]
) -> list[LoadedTransformation]:
    """Selects the transformations that run and sorts them into execution order, phase by phase.

    Args:
      loaded: Transformations to choose from, with unique names.
      selection: Entries of `--transformations`, which are applied in order. At first, the user's enabled
        transformations are selected. An entry is the name of a transformation or of a phase, or `all`. The name of
        a phase stands for the enabled transformations in the phase, and `all` stands for all enabled
        transformations. An entry adds transformations, or removes them if it begins with `-`. If transformations
        are selected by their own names, they run in the order of these entries.

    Raises:
      LiteRtError: NOT_FOUND, if an entry or a rule contains an unknown name; INVALID_TRANSFORMATION, if rules
        contradict each other.
    """
    known = {item.name for item in loaded}
    check_rules(loaded)
    chosen = {i.name for i in loaded if i.transformation.enabled and not i.origin.is_builtin}
    named: dict[str, None] = {}
    for word in selection:
        names = _find_names(loaded, word)
        if word.startswith("-"):
            chosen.difference_update(names)
        else:
            chosen.update(names)
        if _plain(word) in known:
            named.pop(_plain(word), None)  # its last position counts
            named[_plain(word)] = None
    return _in_order([item for item in loaded if item.name in chosen], list(named))


def _in_order(
    loaded: Sequence[LoadedTransformation], named: Sequence[str] = ()
) -> list[LoadedTransformation]:
    """Sorts transformations by phase, and within each phase by `order_transformations`."""
    by_name = {item.name: item for item in loaded}
    order: list[LoadedTransformation] = []
    for phase in Phase:
        of_phase = [item.transformation for item in loaded if item.phase is phase]
        order += [by_name[t.name] for t in order_transformations(of_phase, named)]
    return order


def check_rules(loaded: Sequence[LoadedTransformation]) -> None:
    """Raises an error if an ordering rule names an unknown transformation or contradicts the phases."""
    phases = {item.name: item.phase for item in loaded}
    for item in loaded:
        for first, second, source in find_rules(item.transformation):
            other = second if first == item.name else first
            if other not in phases:
                raise LiteRtError(
                    Status.NOT_FOUND,
                    f"{source} names transformation '{other}', which does not exist",
                    item.origin.path,
                    did_you_mean(
                        other, phases, "The flag --list_transformations prints all names."
                    ),
                )
            if _PLACE[phases[first]] > _PLACE[phases[second]]:
                raise LiteRtError(
                    Status.INVALID_TRANSFORMATION,
                    f"{source} requires '{first}' before '{second}', but '{first}' is in the "
                    f"{phases[first].value} phase, which runs after the {phases[second].value} phase of "
                    f"'{second}'",
                    item.origin.path,
                    "Remove this rule, or move the file of one transformation to the folder of another phase.",
                )


def _find_names(loaded: Sequence[LoadedTransformation], word: str) -> list[str]:
    """Returns the names that an entry selects; an entry with `-` also selects disabled transformations."""
    plain, is_out = _plain(word), word.startswith("-")
    if plain in RESERVED:
        return [
            item.name
            for item in loaded
            if (is_out or item.transformation.enabled) and plain in (ALL, item.phase.value)
        ]
    names = [item.name for item in loaded]
    if plain not in names:
        raise LiteRtError(
            Status.NOT_FOUND,
            f"there is no transformation '{word.removeprefix('-')}'"
            if plain
            else "a name is empty",
            "--transformations",
            did_you_mean(
                plain, [*names, *RESERVED], "The flag --list_transformations prints all names."
            ),
        )
    return [plain]


def _plain(word: str) -> str:
    """Converts an entry to snake case, so that class names work too."""
    return snake_case(word.removeprefix("-").strip())


@dataclass(frozen=True, slots=True)
class TransformationInfo:
    """Entry in the output of `--list_transformations`.

    Attributes:
      name: Name of the transformation in `--transformations`.
      phase: Phase of the transformation: `front`, `middle` or `back`.
      enabled: Whether `--transformations=all` selects the transformation.
      description: Sentence that says what the transformation does.
      path: Path of the file that defines the transformation; "" for a built-in transformation.
    """

    name: str
    phase: str
    enabled: bool
    description: str
    path: str = ""


def describe_transformations(
    folders: Sequence[str] = (),
) -> tuple[list[TransformationInfo], Sequence[str]]:
    """Returns all transformations in execution order, and sentences about ignored files."""
    extensions = load_extensions(folders)
    check_rules(extensions.transformations)
    infos = [
        TransformationInfo(
            item.name,
            item.phase.value,
            item.transformation.enabled,
            item.transformation.description,
            "" if item.origin.is_builtin else item.origin.path,
        )
        for item in _in_order(extensions.transformations)
    ]
    return infos, extensions.notes
