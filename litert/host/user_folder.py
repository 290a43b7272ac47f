"""Finds this user's own directories.

The directories are below the directory that an environment variable gives, or at the system's usual location.
"""

from __future__ import annotations

import errno
import os


def user_folder(kind: str, variable: str) -> str:
    """Returns the user's directory for files of a kind (`data` or `cache`), as an absolute path.

    The directory may not exist yet.

    An environment variable may give the directory; `~` in it stands for the user's home directory.

    Raises:
      FileNotFoundError: The user's home directory is unknown.
    """
    parent = os.path.expanduser(os.environ.get(variable, ""))
    if not parent:
        # Imported here, because most calls find the variable, or need no directory
        import platformdirs

        try:
            parent = str(getattr(platformdirs, f"user_{kind}_dir")())
        except RuntimeError as error:  # no HOME, and a user that the system does not know
            raise FileNotFoundError(errno.ENOENT, f"no {kind} folder: {error}") from error
    if parent.startswith("~"):  # older versions of `platformdirs` leave it there, too
        raise FileNotFoundError(
            errno.ENOENT, f"there is no {kind} directory: the user's home is unknown", parent
        )
    return os.path.abspath(parent)
