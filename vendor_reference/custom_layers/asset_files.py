"""An asset and the files beside it: what it names is read from its own folder, and from nowhere else."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.assets import check_companion_path
from vendor_reference.custom_layers.custom_layer import LayerFile
from vendor_reference.custom_layers.kernel_source import decode_source, includes

_MOST_BYTES = 64 << 20
_HINT = "Put the file in the asset's folder or below it."


class AssetFiles:
    """Reads files beside an asset; each once."""

    def __init__(self, path: str) -> None:
        """Takes the folder that the asset really lies in: a link to an asset brings its neighbours.

        Args:
          path: of the asset.
        """
        self.path = path
        self._folder = os.path.dirname(os.path.realpath(path))
        self._files: dict[str, LayerFile] = {}

    @property
    def file_name(self) -> str:
        """The asset's name in its folder."""
        return os.path.basename(self.path)

    def asset(self, data: memoryview) -> LayerFile:
        """The asset itself, as one of the layer's files."""
        file = LayerFile(self.file_name, bytes(data), is_asset=True)
        self._files[file.path] = file
        return file

    def read(self, name: str, named_in: str) -> LayerFile:
        """The file of that name, from the asset's folder.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if it lies elsewhere; NOT_FOUND or FILE_IO.
        """
        relative = self._normalize(name, "", named_in)
        file = self._find(relative, named_in)
        if file is None:
            raise LiteRtError(
                Status.NOT_FOUND,
                f"no file '{relative}' in {self._folder}",
                f"{self.path}, {named_in}",
                _HINT,
            )
        return file

    def headers(self, files: Sequence[LayerFile]) -> Sequence[LayerFile]:
        """What the files include, and what that includes, each once; a file after those that it includes.

        An `#include` of a file that does not exist is left to the build, which knows whether it counts.
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
                Status.INVALID_ARGUMENT, "headers that include each other too deeply", self.path
            ) from None
        return list(ordered.values())

    def _find_include(self, name: str, file: LayerFile) -> LayerFile | None:
        """As a compiler looks: beside the file that includes, then in the asset's folder."""
        named_in = f'#include "{name}" in {file.path}'
        if os.path.isabs(name):
            self._normalize(name, "", named_in)
        beside = self._normalize(name, posixpath.dirname(file.path), named_in)
        return self._find(beside, named_in) or self._find(posixpath.normpath(name), named_in)

    def _normalize(self, name: str, folder: str, named_in: str) -> str:
        relative = posixpath.normpath(posixpath.join(folder, name)) if name else name
        try:
            check_companion_path(relative, f"{self.path}, {named_in}")
        except LiteRtError as error:
            raise LiteRtError(
                error.status, f"'{name}' is not in the asset's folder", error.where, _HINT
            ) from None
        return relative

    def _find(self, relative: str, named_in: str) -> LayerFile | None:
        if relative in self._files:
            return self._files[relative]
        path = os.path.realpath(os.path.join(self._folder, relative))
        if not os.path.isfile(path):
            return None
        if os.path.commonpath((self._folder, path)) != self._folder:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"'{relative}' is a link out of the asset's folder, to {path}",
                f"{self.path}, {named_in}",
                "Copy the file into the folder.",
            )
        self._files[relative] = LayerFile(relative, _read(path))
        return self._files[relative]

    def _where(self, file: LayerFile) -> str:
        return self.path if file.is_asset else f"{self.path}, {file.path}"


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LiteRtError(Status.FILE_IO, f"cannot read: {reason}", path) from error
    if len(data) > _MOST_BYTES:
        raise LiteRtError(Status.INVALID_ARGUMENT, f"more than {_MOST_BYTES} bytes of source", path)
    return data
