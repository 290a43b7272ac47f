"""`litert-npu sign`: who gives a file away says so."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from compiler_plugin.checks import check_output
from litert.core.option import Flag

from .command import Command
from .command_line import FlagValues, usage_error
from .console import print_lines
from .signature import sign_file

SIGNATURE = Flag("signature", "", "The file with the signature; by default FILE.sig.")


def key_flag(which: str) -> Flag:
    """The flag that names a key."""
    return Flag("key", "", f"The {which} key: Ed25519 in PEM, as openssl makes it.")


def read_paths(flags: FlagValues, arguments: Sequence[str]) -> tuple[str, str, str]:
    """Paths of the file, of the key, and of the signature."""
    (path,) = arguments
    if not flags.key:
        raise usage_error("no key", "Name it with --key.")
    return path, flags.key, flags.signature or f"{path}.sig"


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    path, key, signature = read_paths(flags, arguments)
    check_output(signature, [path, key])
    sign_file(path, key, signature)
    print_lines([f"Wrote {signature}"], sys.stdout)
    return 0


COMMAND = Command(
    "FILE\nSigns a file, compiled or not, and writes the signature beside it. With the public key,\n"
    "litert-npu verify says that the file came from you, and is as it was.",
    (key_flag("private"), SIGNATURE),
    _run,
    num_arguments=1,
)
