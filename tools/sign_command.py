"""`litert-npu sign`: signs a file with a private key."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from compiler_plugin.checks import check_output
from litert.core.option import Flag

from .command import Command
from .command_line import FlagValues, usage_error
from .console import print_lines
from .signature import sign_file

SIGNATURE = Flag("signature", "", "Path of the signature file. The default is FILE.sig.")


def key_flag(which: str) -> Flag:
    """Returns the flag that gives the file of a private or public key."""
    return Flag(
        "key", "", (f"File with the {which} Ed25519 key in PEM format, as openssl writes it.")
    )


def read_paths(flags: FlagValues, arguments: Sequence[str]) -> tuple[str, str, str]:
    """Returns the paths of the file, the key and the signature from a command line."""
    (path,) = arguments
    if not flags.key:
        raise usage_error("the command line has no key", "Give the key's file with --key.")
    return path, flags.key, flags.signature or f"{path}.sig"


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    path, key, signature = read_paths(flags, arguments)
    check_output(signature, [path, key])
    sign_file(path, key, signature)
    print_lines([f"Wrote {signature}"], sys.stdout)
    return 0


COMMAND = Command(
    "FILE\nSigns a file, compiled or not, with a private key, and writes the signature to a "
    "second file. With the public key, litert-npu verify confirms that the file comes from you "
    "and has not changed.",
    (key_flag("private"), SIGNATURE),
    _run,
    num_arguments=1,
)
