"""`litert-npu verify`: checks the signature of a file with a public key."""

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
    outcome = "has a valid signature" if is_good else "does not match the signature and this key"
    print_lines([f"{path} {outcome}."], sys.stdout)
    return 0 if is_good else 1


COMMAND = Command(
    "FILE\nChecks a file's signature, made by litert-npu sign. The check needs the public key "
    "of the signer. The exit status is 0 if the signature is valid for the file and "
    "the key, 1 if not, "
    "and 2 after an error.",
    (key_flag("public"), SIGNATURE),
    _run,
    num_arguments=1,
)
