"""Finds transformations that look for an op under a name that only other frameworks have: `Conv2D` for CONV_2D.

Such a name may be a custom op's, so that it is no error; where nothing was found, a sentence tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from compiler_plugin.report import TransformationReport
from compiler_plugin.transformations.extensions import LoadedTransformation
from compiler_plugin.transformations.pattern import Match, walk
from compiler_plugin.transformations.replacement import OpReplacement, PatternReplacement
from compiler_plugin.transformations.transformation import Transformation
from litert.model.builtin_options import BUILTIN_NUMBERS


def find_misnamed(
    planned: Iterable[LoadedTransformation],
    reports: Iterable[TransformationReport],
    known: Collection[str],
) -> Iterator[str]:
    """Sentences about those of the user's that have not matched.

    Args:
      planned: the transformations that have run.
      reports: of each of them.
      known: names of the ops of the model and of the user.
    """
    builtin = {_plain(name): name for name in BUILTIN_NUMBERS}
    for item, report in zip(planned, reports, strict=True):
        if item.origin.is_builtin or report.matches:
            continue
        for name in dict.fromkeys(_wanted(item.transformation)):
            meant = builtin.get(_plain(name), name)
            if meant != name and name not in known:
                yield (
                    f"{item.name} looks for {name}, which no op of the model is: TFLite's own is {meant} "
                    f"({item.origin.path})"
                )


def _wanted(transformation: Transformation) -> Iterator[str]:
    if isinstance(transformation, OpReplacement):
        yield from Match(transformation.op).ops
    elif isinstance(transformation, PatternReplacement):
        for part in walk(transformation.pattern):
            if isinstance(part, Match):
                yield from part.ops


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
