"""Where this user's own files are: below a folder that a variable names, or where the system has them."""

from __future__ import annotations

import errno
import os


def user_folder(kind: str, variable: str) -> str:
    """The folder for files of a kind, `data` or `cache`, as an absolute path; it need not exist.

    A variable of the environment may name it, where `~` is the user's home.

    Raises:
      FileNotFoundError: this user has no such folder.
    """
    parent = os.path.expanduser(os.environ.get(variable, ""))
    if not parent:
        import platformdirs  # here: most calls find the variable, or need no folder at all

        try:
            parent = str(getattr(platformdirs, f"user_{kind}_dir")())
        except RuntimeError as error:  # no HOME, and a user that the system does not know
            raise FileNotFoundError(errno.ENOENT, f"no {kind} folder: {error}") from error
    if parent.startswith("~"):  # older versions of `platformdirs` leave it there, too
        raise FileNotFoundError(errno.ENOENT, f"no {kind} folder: whose home is unknown", parent)
    return os.path.abspath(parent)
