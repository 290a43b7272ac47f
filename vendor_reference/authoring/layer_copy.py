"""A layer's files in a folder of their own, with another local size in the description."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import MappedFile
from vendor_reference.authoring.compiled_layer import LayerOptions, load_layer
from vendor_reference.authoring.description_edit import check_describes, set_local_size
from vendor_reference.custom_layers.asset_files import AssetFiles

_MARK = "\ufeff"


@contextmanager
def copy_with_local_size(
    options: LayerOptions, op_name: str, sizes: Sequence[int]
) -> Iterator[LayerOptions]:
    """Makes the copy; it is gone in the end, and the author's files are never touched.

    Raises:
      LiteRtError: UNSUPPORTED, if the description has no place for a local size.
    """
    layer = load_layer(options, op_name)
    with MappedFile(options.path) as file:
        description = AssetFiles(options.path, options.asset_root).asset(file.view)
    files = {file.path: file.data for file in layer.files()}
    files[description.path] = edit_local_size(options.path, op_name, sizes)
    with TemporaryDirectory(prefix="litert-npu-layer-") as folder:
        for path, data in files.items():
            target = os.path.join(folder, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as stream:
                stream.write(data)
        root = folder if options.asset_root else ""
        yield replace(options, path=os.path.join(folder, description.path), asset_root=root)


def edit_local_size(path: str, op_name: str, sizes: Sequence[int]) -> bytes:
    """A description's bytes with another local size.

    Raises:
      LiteRtError: UNSUPPORTED; INVALID_ARGUMENT, for a file that is no text.
    """
    suffix = os.path.splitext(path)[1].lower()
    check_describes(path, suffix)
    with MappedFile(path) as file:
        data = bytes(file.view)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LiteRtError(
            Status.INVALID_ARGUMENT, f"not UTF-8 at byte {error.start}", path
        ) from error
    mark = _MARK if text.startswith(_MARK) else ""
    try:
        return (mark + set_local_size(text.removeprefix(_MARK), suffix, op_name, sizes)).encode()
    except LiteRtError as error:
        raise LiteRtError(error.status, error.what, path, error.hint) from error
