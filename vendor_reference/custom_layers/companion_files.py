"""Reads an asset and its companion files; companion files must lie in the asset's folder or in a root folder.

Without a root folder, all paths are relative to the asset's folder. If the asset lies in a given root folder, all
paths are relative to the root. A companion file is still looked up in the folder of the file that mentions it;
`..` in its path may lead to other folders of the root. Companion files are stored under these relative paths,
which contain no folder names of the compiling machine.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence

from litert.core.errors import LiteRtError
from litert.core.input_file import read_input
from litert.core.status import Status
from litert.model.assets import check_companion_path
from vendor_reference.custom_layers.custom_layer import LayerFile
from vendor_reference.custom_layers.kernel_source import decode_source, includes

_MOST_BYTES = 64 << 20
_HINT = (
    "Put this file into the folder of the layer's file, or into a subfolder. To use files from elsewhere, set "
    "--asset_root to a folder that contains the layer's file and all other files of the layer."
)


class AssetFiles:
    """Reads an asset's companion files, each of them only once; all paths are relative to the folder `root`."""

    def __init__(self, path: str, root: str = "") -> None:
        """Determines the folder in which companion files may lie.

        This folder is `root` if the asset lies there, otherwise the asset's own folder. If `path` is a symbolic
        link, the companion files of the link's target are used.

        Raises:
          LiteRtError: NOT_FOUND, if `root` is not a folder.
        """
        self.path = path
        self.root = folder = os.path.dirname(os.path.realpath(path))
        self._folder = ""
        if root:
            if not os.path.isdir(root):
                hint = "Set --asset_root to a folder that contains all files of the layer."
                raise LiteRtError(Status.NOT_FOUND, "--asset_root is not a folder", root, hint)
            root = os.path.realpath(root)
            if os.path.commonpath((root, folder)) == root:
                self.root = root
                self._folder = "" if folder == root else os.path.relpath(folder, root)
        self._files: dict[str, LayerFile] = {}

    @property
    def file_name(self) -> str:
        """File name of the asset, without its folder."""
        return os.path.basename(self.path)

    def asset(self, data: memoryview) -> LayerFile:
        """Returns the asset itself as one of the layer's files."""
        path = posixpath.join(self._folder, self.file_name)
        file = LayerFile(path, bytes(data), is_asset=True)
        self._files[file.path] = file
        return file

    def read(self, name: str, named_in: str) -> LayerFile:
        """Reads the companion file with the given name.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the file lies outside the allowed folder; NOT_FOUND or FILE_IO, if it
            cannot be read.
        """
        relative = self._normalize(name, self._folder, named_in)
        file = self._find(relative, named_in)
        if file is None:
            raise LiteRtError(
                Status.NOT_FOUND,
                f"folder {self.root} contains no file '{relative}'",
                f"{self.path}, {named_in}",
                _HINT,
            )
        return file

    def headers(self, files: Sequence[LayerFile]) -> Sequence[LayerFile]:
        """Returns all files that the given files include, directly or indirectly.

        An included file comes before the files that include it.

        A missing included file is not an error here; it may be an error when the program is built.
        """
        ordered: dict[str, LayerFile] = {}
        seen = {file.path for file in files}

        def visit(file: LayerFile) -> None:
            for name in includes(decode_source(file.data, self._where(file))):
                header = self._find_include(name, file)
                if header is not None and header.path not in seen:
                    seen.add(header.path)
                    visit(header)
                    ordered[header.path] = header

        try:
            for file in files:
                visit(file)
        except RecursionError:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                "the chain of files that include one another is too long",
                self.path,
                "Combine some of the files.",
            ) from None
        return list(ordered.values())

    def _find_include(self, name: str, file: LayerFile) -> LayerFile | None:
        """Searches like a compiler: beside the including file, then in the root."""
        named_in = f'#include "{name}" in {file.path}'
        if os.path.isabs(name):
            self._normalize(name, "", named_in)
        beside = self._normalize(name, posixpath.dirname(file.path), named_in)
        from_root = posixpath.normpath(name)
        found = self._find(beside, named_in)
        return found or (None if from_root[:2] == ".." else self._find(from_root, named_in))

    def _normalize(self, name: str, folder: str, named_in: str) -> str:
        relative = posixpath.normpath(posixpath.join(folder, name)) if name else name
        try:
            check_companion_path(relative, f"{self.path}, {named_in}")
        except LiteRtError as error:
            slashed = name.replace("\\", "/")
            hint = _HINT if slashed == name else f"Write '/' in paths: '{slashed}'."
            raise LiteRtError(
                error.status,
                f"path '{name}' is not in folder {self.root}, in which all files of the layer must be"
                if slashed == name
                else f"path '{name}' contains a backslash",
                error.where,
                hint,
            ) from None
        return relative

    def _find(self, relative: str, named_in: str) -> LayerFile | None:
        if relative in self._files:
            return self._files[relative]
        path = os.path.realpath(os.path.join(self.root, relative))
        if not os.path.isfile(path):
            return None
        if os.path.commonpath((self.root, path)) != self.root:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"'{relative}' is a link to {path}, which is not in folder {self.root}, in which all files of "
                "the layer must be",
                f"{self.path}, {named_in}",
                "Replace the link by a copy of the file.",
            )
        self._files[relative] = LayerFile(relative, _read(path))
        return self._files[relative]

    def _where(self, file: LayerFile) -> str:
        return self.path if file.is_asset else f"{self.path}, {file.path}"


def _read(path: str) -> bytes:
    data = read_input(path, _MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise LiteRtError(
            Status.INVALID_ARGUMENT, f"the source file is larger than {_MOST_BYTES >> 20} MiB", path
        )
    return data
