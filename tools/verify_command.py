"""`litert-npu verify`: a file came from whom it should come from, and is as it was signed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .command import Command
from .command_line import FlagValues
from .console import print_lines
from .sign_command import SIGNATURE, key_flag, read_paths
from .signature import is_signed


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    path, key, signature = read_paths(flags, arguments)
    is_good = is_signed(path, key, signature)
    outcome = "is as its signer has signed it" if is_good else "is not what this key has signed"
    print_lines([f"{path} {outcome}."], sys.stdout)
    return 0 if is_good else 1


COMMAND = Command(
    "FILE\nSays whether a file is what litert-npu sign has signed with the private key of this public one.\n"
    "The exit status is 0 if it is, 1 if not, and 2 if that cannot be said.",
    (key_flag("public"), SIGNATURE),
    _run,
    num_arguments=1,
)
