"""The parts of a compiled file that the NPU uses, and the vendor's session that runs them.

This module does not read the byte code and the assets themselves, but only their digests.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from dispatch.api import Dispatch
from dispatch.isolation.limits import Limits
from dispatch.loader import find_dispatch
from dispatch.mem_buffer import MemBuffer
from dispatch.session import Session
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tracing import SpanKind, measured
from litert.model.assets import Asset, read_assets
from litert.model.blob import Blob
from litert.model.byte_code_container import unpack
from litert.model.dispatch_op import (
    DispatchOptions,
    find_byte_code,
    is_dispatch_op,
    read_dispatch_options,
)
from litert.model.graph import Model
from litert.model.manifest import Manifest, find_mismatches
from litert.model.stamp import Stamp, read_stamp

_LOG = logging.getLogger(__name__)


class NpuParts(NamedTuple):
    """The parts of a compiled file that the NPU uses.

    Attributes:
      stamp: Vendor and NPU for which the file was compiled.
      manifest: Manifest of the file; None if another compiler made the file.
      assets: Assets of the model and of byte code containers, in the order in which they are registered; companion
        files come first.
      modules: Byte code, as offset and size in the file, without the container around it.
    """

    stamp: Stamp
    manifest: Manifest | None
    assets: Sequence[Asset]
    modules: Mapping[tuple[int, int], Blob]

    def byte_code(self, options: DispatchOptions) -> Blob:
        """Returns the byte code module of one of the model's NPU calls, given the options of the call."""
        return self.modules[options.bytecode_offset, options.bytecode_size]

    def shape_outputs(self, call_name: str) -> Mapping[int, int]:
        """Returns the index of another output that contains the shape, for each output with a dynamic shape."""
        declared = self.manifest.shape_outputs if self.manifest else ()
        return {s.output: s.shape_output for s in declared if s.call_name == call_name}


@measured(SpanKind.LOAD, "read NPU parts")
def read_npu_parts(
    model: Model, manifest: Manifest | None, file: Blob, where: str, size_limit: int | None
) -> NpuParts | None:
    """Finds and checks the parts of a file that the NPU uses; returns None if the model has no NPU calls.

    Args:
      model: Model that was read from `file`.
      manifest: Manifest of the file; None if there is none.
      file: The whole file.
      where: Name of the file, for errors.
      size_limit: Largest size, in bytes, of a part that is compared with its digest; None to compare parts of any
        size.
    """
    calls = [
        read_dispatch_options(bytes(op.custom_options or b""), where)
        for op in model.ops()
        if is_dispatch_op(op)
    ]
    if not calls:
        return None
    stamp = read_stamp(model, where)
    if stamp is None:
        raise LiteRtError(
            Status.INVALID_FLATBUFFER,
            "the file has NPU calls, but does not say for which vendor they were compiled (the stamp is missing)",
            where,
            "Compile the model again.",
        )
    assets = read_assets(model)
    modules = {
        (c.bytecode_offset, c.bytecode_size): find_byte_code(file, c, f"NPU call '{c.name}'")
        for c in calls
    }
    if manifest is not None:
        problems = find_mismatches(manifest, assets, list(modules.values()), size_limit)
        if problems:
            raise LiteRtError(
                Status.INVALID_FLATBUFFER,
                f"the file has changed since it was compiled: {'; '.join(problems)}",
                where,
                "Compile the model again.",
            )
    unpacked = {place: unpack(module, where) for place, module in modules.items()}
    carried = [asset for _, in_module in unpacked.values() for asset in in_module]
    return NpuParts(
        stamp,
        manifest,
        sorted(_merge(assets, carried, where), key=lambda asset: not asset.companion_path),
        {place: byte_code for place, (byte_code, _) in unpacked.items()},
    )


@measured(SpanKind.LOAD, "open device")
def open_session(
    parts: NpuParts,
    environment_options: EnvironmentOptions,
    options: Mapping[str, str],
    limits: Limits | None,
    resources: ExitStack,
) -> Session:
    """Opens the vendor's device, and registers the file's assets. The file must stay open as long as the session.

    If `limits` is given, the device runs in a separate process. Objects that must be closed are added to
    `resources`.
    """
    manufacturer = parts.stamp.soc_manufacturer
    library_path = environment_options.dispatch_library_path
    dispatch: Dispatch[Any, Any]
    if limits is None:
        dispatch = find_dispatch(manufacturer, library_path)
    else:
        # Imported here, because few programs use it
        from dispatch.isolation.isolated_dispatch import IsolatedDispatch

        blobs = [*(asset.blob for asset in parts.assets), *parts.modules.values()]
        files = [blob.file.fd for blob in blobs if blob.file is not None]
        dispatch = IsolatedDispatch(manufacturer, library_path, files, options, limits)
        resources.callback(dispatch.close)
    _LOG.info("NPU calls run on %s %s", manufacturer, parts.stamp.soc_model)
    assets = [(asset.name, MemBuffer.from_blob(asset.blob)) for asset in parts.assets]
    session = Session(
        dispatch, environment_options=environment_options, options=options, assets=assets
    )
    return resources.enter_context(session)


def _merge(assets: Sequence[Asset], carried: Sequence[Asset], where: str) -> list[Asset]:
    """Merges a model's assets with the assets in its byte code; several modules may contain the same asset."""
    merged = {asset.name: asset for asset in assets}
    for asset in carried:
        other = merged.setdefault(asset.name, asset)
        if other.blob.view != asset.blob.view:
            raise LiteRtError(
                Status.INVALID_FLATBUFFER,
                f"two different assets have the name '{asset.name}'",
                where,
                "Compile the model again.",
            )
    return list(merged.values())
