"""`--watch`: repeats a command's work whenever one of its files changes, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.quoting import continued

from ..command_line import FlagValues
from ..console import print_text
from ..process_start import ERROR
from ..progress_bar import ProgressBar
from .safe_process import run_safely

_INTERVAL_S = 0.2
_SETTLE_S = 0.1  # an editor writes a file in several steps


WATCH = Flag(
    "watch",
    False,
    "Repeat the work after each change of FILE, or of a file that FILE names or includes. "
    "Ctrl-C ends the command.",
)


def run_watched(
    flags: FlagValues, target: str, request: Mapping[str, Any], others: Sequence[str]
) -> int:
    """Runs a function in a child process, and prints its result; with --watch, repeats this after each change.

    Args:
      flags: Flags of the command, including `LAYER_FLAGS`.
      target: Function to run, as `package.module:function`.
      request: Argument of the function, which contains the path of the asset.
      others: Paths of other files that the child process reads.

    Returns:
      The exit status; with --watch, the exit status of the last run.
    """
    if not flags.watch:
        return _run_once(flags, target, request)
    from vendor_reference.authoring.compiled_layer import find_layer_files
    from vendor_reference.authoring.subject import OpChoice

    op_name = "" if OpChoice(op=flags.op).place else flags.op
    status = ERROR
    try:
        while True:
            files = [*find_layer_files(request["path"], flags.asset_root, op_name), *others]
            before = _states(files)
            try:
                status = _run_once(flags, target, request)
            except LiteRtError as error:
                status = ERROR
                print_text(continued(str(error)), sys.stderr)
            said = f"-- {time.strftime('%H:%M:%S')}: watching {count_text(len(set(files)), 'file')}; Ctrl-C ends"
            print_text(said, sys.stderr)
            while _states(files) == before:
                time.sleep(_INTERVAL_S)
            time.sleep(_SETTLE_S)
    except KeyboardInterrupt:
        ProgressBar.make_room()
        return status


def _run_once(flags: FlagValues, target: str, request: Mapping[str, Any]) -> int:
    with ProgressBar():
        found = run_safely(target, request)
    return found.show(flags.report)


def _states(files: Sequence[str]) -> list[object]:
    """Returns for each file values that change when the file is written, replaced or removed."""
    states: list[object] = []
    for path in files:
        try:
            found = os.stat(path)
            states.append((found.st_mtime_ns, found.st_size, found.st_ino))
        except OSError:
            states.append(None)
    return states
