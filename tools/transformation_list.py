"""What `--list_transformations` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .wording import json_text

if TYPE_CHECKING:
    from compiler_plugin.transformations.transform_options import TransformOptions


def list_transformations(options: TransformOptions | None, as_json: bool) -> str:
    """The transformations that there are, ours and those of the extensions, phase by phase in running order.

    Raises:
      LiteRtError: of extensions that cannot be loaded.
    """
    from dataclasses import asdict

    from compiler_plugin.transformations.transformation_plan import describe_transformations

    infos, notes = describe_transformations(options.extensions if options else ())
    if as_json:
        return json_text([asdict(info) for info in infos])
    width = max((len(info.name) for info in infos), default=0)
    lines = []
    for info in infos:
        state = "" if info.enabled else " (runs where it is named)"
        origin = f" [{info.path}]" if info.path else ""
        text = f"  {info.description}" if info.description else ""
        lines.append(f"{info.phase:6}  {info.name:{width}}{text}{state}{origin}")
    return "\n".join([*lines, *(f"Note: {note}" for note in notes)]) or "no transformations"
