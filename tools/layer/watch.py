"""`--watch`: does a command's work again whenever one of its files changes, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from litert.core.errors import LiteRtError
from litert.core.option import Flag

from ..console import count_text, print_text

if TYPE_CHECKING:
    from absl.flags import FlagValues

_INTERVAL_S = 0.2
_SETTLE_S = 0.1  # an editor writes a file in several steps


WATCH = Flag(
    "watch",
    False,
    "Does it again whenever FILE, or a file that it names or includes, changes; until Ctrl-C.",
)


def run_watched(
    flags: FlagValues, path: str, work: Callable[[], int], others: Sequence[str] = ()
) -> int:
    """Does some work once or, with --watch, after each change.

    Args:
      flags: with those of a layer.
      path: of the asset.
      work: gives the exit status; its errors are shown, and end nothing.
      others: files that the work reads, too.

    Returns:
      The exit status; with --watch that of the last time.
    """
    if not flags.watch:
        return work()
    status = 1
    try:
        while True:
            files = [*_layer_files(flags, path), *others]
            before = _states(files)
            try:
                status = work()
            except LiteRtError as error:
                status = 1
                print_text(str(error), sys.stderr)
            said = f"-- {time.strftime('%H:%M:%S')}: {count_text(len(set(files)), 'file')} watched; Ctrl-C ends"
            print_text(said, sys.stderr)
            while _states(files) == before:
                time.sleep(_INTERVAL_S)
            time.sleep(_SETTLE_S)
    except KeyboardInterrupt:
        return status


def _layer_files(flags: FlagValues, path: str) -> Sequence[str]:
    from vendor_reference.authoring.compiled_layer import find_layer_files

    return find_layer_files(path, flags.asset_root, flags.op if not flags.op.isdecimal() else "")


def _states(files: Sequence[str]) -> list[object]:
    """What changes when a file is written, replaced or removed."""
    states: list[object] = []
    for path in files:
        try:
            found = os.stat(path)
            states.append((found.st_mtime_ns, found.st_size, found.st_ino))
        except OSError:
            states.append(None)
    return states
